"""Checkpoints of torch.save: what is read is what torch reads, and nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from torchport.errors import TorchportError
from torchport.weights.checkpoint import opened
from torchport.weights.views import pieces

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.uint16,
    torch.float8_e4m3fn,
]


def values(path: Path) -> dict[str, bytes]:
    with opened([path]) as checkpoint:
        return {
            name: b"".join(np.ascontiguousarray(piece).tobytes() for piece in pieces(stored))
            for name, stored in checkpoint.tensors.items()
        }


def as_torch_reads(path: Path) -> dict[str, bytes]:
    tensors: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return {
        name: tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in tensors.items()
    }


def test_every_dtype_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    numbers = torch.randn(3, 5) * 4
    torch.save({str(dtype): numbers.to(dtype) for dtype in DTYPES}, tmp_path / "a.pt")
    assert values(tmp_path / "a.pt") == as_torch_reads(tmp_path / "a.pt")
    with opened([tmp_path / "a.pt"]) as checkpoint:
        assert all(name == f"torch.{stored.form.dtype}" for name, stored in checkpoint.tensors.items())


def test_views_parameters_and_empty_tensors_are_read_as_torch_reads_them(tmp_path: Path) -> None:
    base = torch.randn(6, 7, 4)
    views = {
        "whole": base,
        "turned": base.permute(2, 0, 1),
        "steps": base[::2, 1:5:3],
        "row": base[3],
        "expanded": base[:1].expand(4, 7, 4),
        "empty": base[:0],
        "scalar": torch.tensor(3.5),
        "parameter": torch.nn.Parameter(base.clone()),
    }
    torch.save(views, tmp_path / "a.pt")
    assert values(tmp_path / "a.pt") == as_torch_reads(tmp_path / "a.pt")


class Runs:
    """What a pickle of it runs when it is loaded as pickles are."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("nested", [False, True])
def test_a_pickle_that_tries_to_run_code_is_refused_by_name_and_runs_nothing(
    tmp_path: Path, nested: bool
) -> None:
    bomb = Runs(tmp_path / "ran")
    torch.save({"a": torch.ones(2), "x": [{"y": bomb}] if nested else bomb}, tmp_path / "a.pt")
    with pytest.raises(TorchportError, match="TP0322") as raised:
        values(tmp_path / "a.pt")
    assert f"{os.mkdir.__module__}.mkdir" in raised.value.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "torch.load", "torch._utils._rebuild_x", "torch.nn"]
)
def test_no_name_but_those_of_a_table_is_looked_up(tmp_path: Path, name: str) -> None:
    module, _, attribute = name.rpartition(".")
    data = f"c{module}\n{attribute}\n(S'x'\ntR.".encode()
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", data)
    with pytest.raises(TorchportError, match="needs Python code") as raised:
        values(tmp_path / "a.pt")
    assert name in raised.value.message


def test_torchscript_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, protocol=2))
        archive.writestr("a/constants.pkl", b"")
    with pytest.raises(TorchportError, match="TorchScript"):
        values(tmp_path / "a.pt")


def rewritten(path: Path, *, drop: str = "", cut: str = "", compress: bool = False) -> Path:
    """A checkpoint with a storage dropped, cut or compressed."""
    made = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("/data/0"):
                if drop:
                    continue
                data = data[:-4] if cut else data
            kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
            new.writestr(entry.filename, data, kind)
    path.write_bytes(made.getvalue())
    return path


@pytest.mark.parametrize(
    ("damage", "said"),
    [({"drop": "yes"}, "is not in it"), ({"cut": "yes"}, "bytes"), ({"compress": True}, "compressed")],
)
def test_a_checkpoint_whose_storage_is_damaged_is_refused(
    tmp_path: Path, damage: dict[str, Any], said: str
) -> None:
    torch.save({"a": torch.arange(64.0)}, tmp_path / "a.pt")
    with pytest.raises(TorchportError, match="TP0322") as raised:
        values(rewritten(tmp_path / "a.pt", **damage))
    assert said in raised.value.message


def test_sparse_and_quantised_tensors_are_refused_by_name(tmp_path: Path) -> None:
    torch.save({"fine": torch.ones(2), "thin": torch.eye(3).to_sparse()}, tmp_path / "a.pt")
    with pytest.raises(TorchportError, match="thin, which is sparse"):
        values(tmp_path / "a.pt")


# What a pickle may not do to what it names


def zipped(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/byteorder", "little")
    return path


@pytest.mark.parametrize(
    "state",
    [
        b"(NK\x01}}t",  # What a partial takes for its state.
        b"N}X\x08\x00\x00\x00__call__K\x01s\x86",  # Attributes to set, as of slots.
        b"}X\x04\x00\x00\x00nameK\x01s",  # The entries of `__dict__`.
    ],
)
@pytest.mark.parametrize(
    "name",
    [b"torch._utils\n_rebuild_qtensor", b"torch.serialization\n_get_layout", b"collections\nOrderedDict"],
)
def test_what_a_pickle_calls_cannot_be_changed_by_it(tmp_path: Path, name: bytes, state: bytes) -> None:
    from torchport.weights import torch_zip

    before = {known: (call, dict(vars(call)) if hasattr(call, "__dict__") else None)
              for known, call in torch_zip._ALLOWED.items()}  # fmt: skip
    path = zipped(tmp_path / "a.pt", b"\x80\x02c" + name + b"\n" + state + b"b.")
    with pytest.raises(TorchportError, match=r"TP0322.*it would change what it calls"):
        opened([path]).__enter__()
    after = {known: (call, dict(vars(call)) if hasattr(call, "__dict__") else None)
             for known, call in torch_zip._ALLOWED.items()}  # fmt: skip
    assert after == before


def test_a_checkpoint_that_contains_itself_is_refused_by_name(tmp_path: Path) -> None:
    around: list[object] = []
    around.append(around)
    torch.save({"a": torch.ones(2), "args": around}, tmp_path / "a.pt")
    with pytest.raises(TorchportError, match=r"TP0322.*args\.0, which contains itself"):
        opened([tmp_path / "a.pt"]).__enter__()
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    torch.save({"a": torch.ones(2), "args": deep}, tmp_path / "b.pt")
    with pytest.raises(TorchportError, match=r"TP0322.*more than 100 levels"):
        opened([tmp_path / "b.pt"]).__enter__()


def test_one_thing_in_many_places_is_no_circle(tmp_path: Path) -> None:
    shared = {"w": torch.arange(3.0)}
    torch.save({"a": shared, "b": shared, "c": [shared, shared]}, tmp_path / "a.pt")
    with opened([tmp_path / "a.pt"]) as checkpoint:
        assert list(checkpoint.tensors) == ["a.w", "b.w", "c.0.w", "c.1.w"]


def test_things_that_multiply_are_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchport.weights.formats._MOST", 10_000)
    many: list[object] = []
    for _ in range(60):
        many = [many, many]
    torch.save({"a": many}, tmp_path / "a.pt")
    with pytest.raises(TorchportError, match="10000 things"):
        opened([tmp_path / "a.pt"]).__enter__()
