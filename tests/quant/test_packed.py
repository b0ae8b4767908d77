"""Weights of AWQ and GPTQ: what was packed is what is read, and parts that do not fit are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from torchport.blocks.awq import quantise_awq, rounded
from torchport.blocks.formats import FORMATS, quantise
from torchport.blocks.formats import rounded as rounded_to
from torchport.cli import main
from torchport.errors import QuantError
from torchport.quant.packed import unpack
from torchport.quant.unpacking import unpack_file

IN, OUT, GROUP = 64, 16, 32


def integers(seed: int = 0) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """The integers, zeros and scales of a layer, with the inputs first."""
    random = np.random.default_rng(seed)
    scales = torch.from_numpy(random.random((IN // GROUP, OUT)).astype(np.float16))
    return random.integers(0, 16, (IN, OUT)), random.integers(1, 16, (IN // GROUP, OUT)), scales


def in_int32(values: np.ndarray, order: tuple[int, ...]) -> torch.Tensor:
    """Eight columns in an int32; the lowest 4 bits have the first of the order."""
    packed = np.zeros((len(values), values.shape[1] // 8), np.uint64)
    for place, column in enumerate(order):
        packed |= values[:, column::8].astype(np.uint64) << np.uint64(4 * place)
    return torch.from_numpy(packed.astype(np.uint32).view(np.int32).copy())


def weight(values: np.ndarray, zeros: np.ndarray, scales: torch.Tensor, group_of: np.ndarray) -> torch.Tensor:
    whole = torch.from_numpy(values - zeros[group_of]).float() * scales.float()[group_of]
    return whole.T


PLAIN, AWQ = tuple(range(8)), (0, 2, 4, 6, 1, 3, 5, 7)


def test_awq_is_unpacked_in_its_own_order() -> None:
    values, zeros, scales = integers()
    found = unpack("fc", in_int32(values, AWQ), in_int32(zeros, AWQ), scales)
    assert torch.equal(found, weight(values, zeros, scales, np.arange(IN) // GROUP))


@pytest.mark.parametrize("shuffled", [False, True])
def test_gptq_is_unpacked_with_its_groups(shuffled: bool) -> None:
    values, zeros, scales = integers(1)
    group_of = (
        np.random.default_rng(2).permutation(np.arange(IN) // GROUP) if shuffled else np.arange(IN) // GROUP
    )
    qweight = in_int32(np.ascontiguousarray(values.T), PLAIN).T.contiguous()
    g_idx = torch.from_numpy(group_of.astype(np.int32))
    found = unpack("fc", qweight, in_int32(zeros - 1, PLAIN), scales, g_idx)
    assert torch.equal(found, weight(values, zeros, scales, group_of))


GPTQ = {
    "nothing": ({}, 1),
    "a first version": ({"quantize_config.json": {"bits": 4, "checkpoint_format": "gptq"}}, 1),
    "a second version": ({"quantize_config.json": {"bits": 4, "checkpoint_format": "gptq_v2"}}, 0),
    "the model's config": (
        {"config.json": {"quantization_config": {"quant_method": "gptq", "checkpoint_format": "gptq_v2"}}},
        0,
    ),
    "a config of something else": ({"config.json": {"hidden_size": 3}}, 1),
}


def gptq_in(folder: Path, zeros: np.ndarray, said: dict[str, object]) -> np.ndarray:
    """Writes a layer in two shards with an index; its zeros are stored as they are given. Gives its integers."""
    values, _, _ = integers(3)
    qweight = in_int32(np.ascontiguousarray(values.T), PLAIN).T.contiguous()
    shards = [
        {"fc.qweight": qweight, "fc.scales": torch.ones(IN // GROUP, OUT, dtype=torch.float16)},
        {"fc.qzeros": in_int32(zeros, PLAIN)},
    ]
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, folder / name)
    weight_map = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    for name, content in said.items():
        (folder / name).write_text(json.dumps(content))
    return values


@pytest.mark.parametrize("said", GPTQ)
def test_the_zeros_of_gptq_are_what_the_checkpoint_says(said: str, tmp_path: Path) -> None:
    files, less = GPTQ[said]
    stored = np.random.default_rng(0).integers(0, 16, (IN // GROUP, OUT))
    stored[0, 0] = 15  # In the first version this is 16, and not 0.
    values = gptq_in(tmp_path, stored, files)
    assert unpack_file(tmp_path, tmp_path / "out.st") == {"tensors": 1, "unpacked": 1}
    expected = values - (stored + less)[np.arange(IN) // GROUP]
    assert torch.equal(load_file(tmp_path / "out.st")["fc.weight"], torch.from_numpy(expected.T).float())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"quantize_config.json": {"checkpoint_format": "marlin"}}, "checkpoint_format is 'marlin'"),
        ({"quantize_config.json": {"is_marlin_format": True}}, "is_marlin_format is true"),
        (
            {"config.json": {"quantization_config": {"quant_method": "auto-round"}}},
            "quant_method is 'auto-round'",
        ),
        ({"quant_config.json": {"quant_method": "awq", "version": "gemv"}}, "version is 'gemv'"),
        ({"quantize_config.json": [1]}, "quantize_config.json"),
    ],
)
def test_a_packing_that_is_not_known_is_refused(
    said: dict[str, object], message: str, tmp_path: Path
) -> None:
    gptq_in(tmp_path, np.ones((IN // GROUP, OUT), np.int64), said)
    with pytest.raises(QuantError, match=message):
        unpack_file(tmp_path, tmp_path / "out.st")
    assert not (tmp_path / "out.st").exists()


def test_a_checkpoint_is_read_under_the_names_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, zeros, scales = integers()
    given = {
        "fc.qweight": in_int32(values, AWQ),
        "fc.qzeros": in_int32(zeros, AWQ),
        "fc.scales": scales,
        "fc.bias": torch.ones(OUT),
        "norm.weight": torch.ones(3),
    }
    save_file(given, tmp_path / "awq.safetensors")
    assert (
        main(["unpack", str(tmp_path / "awq.safetensors"), "--out", str(tmp_path / "out.safetensors")]) == 0
    )
    assert "unpacked: 1" in capsys.readouterr().out
    found = load_file(tmp_path / "out.safetensors")
    assert set(found) == {"fc.weight", "fc.bias", "norm.weight"}
    assert torch.equal(found["fc.weight"], weight(values, zeros, scales, np.arange(IN) // GROUP))
    del given["fc.scales"]
    save_file(given, tmp_path / "awq.safetensors")
    (tmp_path / "out.safetensors").unlink()
    assert (
        main(["unpack", str(tmp_path / "awq.safetensors"), "--out", str(tmp_path / "out.safetensors")]) == 2
    )
    assert "fc has qweight and no scales" in capsys.readouterr().err
    assert not (tmp_path / "out.safetensors").exists()


def test_a_gguf_file_is_unpacked(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "some.gguf", "llama")
    for form in ("q4_0", "q6_k"):
        type_ = gguf.GGMLQuantizationType[form.upper()]
        writer.add_tensor(form, quantise(form, rows, FORMATS[form]), raw_dtype=type_)
    writer.add_tensor("ids", np.arange(3))
    writer.add_tensor("half", rows.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert unpack_file(tmp_path / "some.gguf", tmp_path / "out") == {"tensors": 4, "unpacked": 2}
    found = load_file(tmp_path / "out")
    assert found["ids"].tolist() == [0, 1, 2] and found["half"].dtype == torch.float16
    for form in ("q4_0", "q6_k"):
        assert torch.equal(found[form], torch.from_numpy(rounded_to(form, rows, form)))


def test_a_file_that_is_neither_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"w": torch.ones(3)}, tmp_path / "plain.safetensors")
    for name in ("plain.safetensors", "missing.safetensors", "missing.gguf"):
        assert main(["unpack", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
        out, err = capsys.readouterr()
        assert name in err and out == "" and "Traceback" not in err and not (tmp_path / "out").exists()


def broken() -> dict[str, tuple[tuple[torch.Tensor, ...], str]]:
    values, zeros, scales = integers()
    good = in_int32(values, AWQ), in_int32(zeros, AWQ), scales
    nan = scales.clone()
    nan[0, 0] = float("nan")
    return {
        "floats": ((good[0].float(), *good[1:]), "int32 of two axes"),
        "groups": ((good[0], good[1][:1], scales), "other groups"),
        "bits": ((good[0], good[1][:, :1], scales), "2 bits; 4 and 8"),
        "shape": ((good[0][:, :1], *good[1:]), "neither as AWQ nor as GPTQ"),
        "rows": ((good[0][:-1], *good[1:]), "63 inputs in 2 groups"),
        "index": ((*good, torch.full((IN,), 2)), "groups that are not there"),
        "nan": ((good[0], good[1], nan), "NaN or infinite"),
    }


@pytest.mark.parametrize("case", broken())
def test_parts_that_do_not_fit_are_refused_by_name(case: str) -> None:
    parts, message = broken()[case]
    with pytest.raises(QuantError, match=message) as caught:
        unpack("encoder.fc", *parts)
    assert "encoder.fc" in str(caught.value)


def test_awq_makes_less_error_of_the_product_than_plain_rounding() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((32, 256)).astype(np.float32)
    inputs = (random.standard_normal((512, 256)) * random.lognormal(0, 1.5, 256)).astype(np.float32)
    made = quantise_awq(rows, np.square(inputs).mean(axis=0))
    error = float(np.square(inputs @ (made.weights - rows).T).mean())
    plain = float(np.square(inputs @ (rounded(rows) - rows).T).mean())
    assert made.power > 0 and error < 0.7 * plain


def test_groups_of_awq_have_sixteen_values_and_keep_zero() -> None:
    rows = np.random.default_rng(1).standard_normal((4, 256)).astype(np.float32)
    rows[:, 5] = 0
    made = rounded(rows)
    assert (made[:, 5] == 0).all()
    for group in made.reshape(-1, 128):
        assert len(np.unique(group)) <= 16
    assert np.abs(made - rows).max() < np.ptp(rows) / 15


@pytest.mark.parametrize("size", [1, 1e-4, 1e-6])
def test_small_weights_keep_as_many_digits_as_large_ones(size: float) -> None:
    plain = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    rows = plain * np.float32(size)
    found = rounded_to("fc", rows, "awq", np.ones(256, np.float32))
    error = np.sqrt(np.square((found - rows) / size).mean())
    assert 0.03 < error < 0.15


def test_weights_beyond_the_scales_of_awq_are_refused_by_name() -> None:
    rows = np.linspace(-1e7, 1e7, 256, dtype=np.float32).reshape(2, 128)
    with pytest.raises(QuantError, match=r"fc has weights up to 1e\+07: the scales of awq end at 65504"):
        rounded_to("fc", rows, "awq", np.ones(128, np.float32))
