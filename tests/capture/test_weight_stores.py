"""Weights are read one at a time, from memory or from a file, and are never copied without need."""

import gc
import weakref
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from torchport.capture.graph import TensorMeta
from torchport.capture.plan import make_plan
from torchport.capture.recorder import Capture, record
from torchport.capture.weights import FileWeights, MemoryWeights, SelectedWeights, WeightStore
from torchport.errors import WeightsError
from torchport.trace.safetensors_layout import DTYPES

from . import models

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3),
    "half": torch.ones(5, dtype=torch.bfloat16),
    "index": torch.tensor([3, 1]),
    "keep": torch.tensor([True, False, True]),
    "number": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.zeros(0, 4),
}


@pytest.fixture(params=["memory", "file", "selected"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryWeights | FileWeights | SelectedWeights:
    if request.param == "memory":
        return MemoryWeights(TENSORS)
    if request.param == "selected":
        return SelectedWeights(MemoryWeights({**TENSORS, "another": torch.ones(1)}), TENSORS)
    save_file(TENSORS, tmp_path / "w.safetensors")
    return FileWeights(tmp_path / "w.safetensors")


def test_a_store_has_names_shapes_and_tensors(store: WeightStore) -> None:
    assert set(store.names()) == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert store.meta(name) == TensorMeta(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        assert torch.equal(store.read(name), tensor) and store.read(name).dtype == tensor.dtype
    for absent in ("nobody", "another"):
        with pytest.raises(KeyError, match=absent):
            store.meta(absent)
        with pytest.raises(KeyError, match=absent):
            store.read(absent)


def test_a_store_is_a_mapping(store: Mapping[str, torch.Tensor]) -> None:
    assert store.keys() == TENSORS.keys() and len(store) == len(TENSORS)
    assert "half" in store and "another" not in store and 3 not in store
    assert store.get("another") is None and torch.equal(store["index"], TENSORS["index"])
    assert {name: tensor.dtype for name, tensor in {**store}.items()} == {
        name: tensor.dtype for name, tensor in TENSORS.items()
    }


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_every_dtype_of_a_file_is_read(tmp_path: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensor = torch.zeros(3 * kind.itemsize, dtype=torch.uint8).view(kind)
    save_file({"a": tensor}, tmp_path / "w")
    assert FileWeights(tmp_path / "w").read("a").dtype is kind


def test_a_tied_weight_is_read_under_both_names(tmp_path: Path) -> None:
    save_file({"embed.weight": torch.ones(2)}, tmp_path / "w")
    store = FileWeights(tmp_path / "w", tied={"head.weight": "embed.weight"})
    assert set(store) == {"embed.weight", "head.weight"}
    assert torch.equal(store["head.weight"], torch.ones(2)) and store.meta("head.weight").shape == (2,)


def test_a_tensor_of_a_file_is_given_back_when_nobody_holds_it_and_the_file_is_never_written_to(
    tmp_path: Path,
) -> None:
    save_file({"a": torch.ones(1000)}, tmp_path / "w")
    before = (tmp_path / "w").read_bytes()
    store = FileWeights(tmp_path / "w")
    tensor = store["a"]
    tensor.zero_()
    assert torch.equal(store["a"], torch.ones(1000)) and (tmp_path / "w").read_bytes() == before
    storage = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert storage() is None
    assert str(tmp_path / "w") not in Path("/proc/self/maps").read_text()


def test_a_file_that_is_not_aligned_is_read(tmp_path: Path) -> None:
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    assert len(header) % 4
    values = torch.tensor([1.5, -2.0])
    content = len(header).to_bytes(8, "little") + header + values.numpy().tobytes()
    (tmp_path / "w").write_bytes(content)
    found = FileWeights(tmp_path / "w").read("a")
    assert torch.equal(found, values) and found.data_ptr() % 4 == 0


@pytest.mark.parametrize("content", [None, b"", b"not tensors", b"\x40\0\0\0\0\0\0\0{}"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "w").write_bytes(content)
    with pytest.raises(WeightsError, match="TP0322") as caught:
        FileWeights(tmp_path / "w")
    assert caught.value.where == str(tmp_path / "w")


def test_a_file_that_is_taken_away_is_named(tmp_path: Path) -> None:
    save_file({"a": torch.ones(4)}, tmp_path / "w")
    store = FileWeights(tmp_path / "w")
    (tmp_path / "w").unlink()
    with pytest.raises(WeightsError, match="TP0322"):
        store.read("a")


def test_a_capture_holds_the_models_own_tensors() -> None:
    model = models.Tensors()
    capture = record(model, torch.randn(2, 4))
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert isinstance(capture.weights, MemoryWeights)
    for name, tensor in capture.weights.items():
        if capture.graph.weights[name].kind != "constant":
            assert tensor.data_ptr() == own[name].data_ptr() and not tensor.requires_grad, name


def test_a_plain_dict_will_do_for_a_capture(tmp_path: Path) -> None:
    made = record(nn.Linear(4, 3), torch.randn(2, 4))
    again = Capture(made.graph, make_plan(made.graph), dict(made.weights))  # type: ignore[arg-type]
    assert again.weights.meta("weight") == TensorMeta((3, 4), "float32")
    assert torch.equal(FileWeights(again.save(tmp_path)["weights"])["weight"], made.weights["weight"])


def test_a_capture_over_a_file_is_saved_as_the_one_it_came_from(tmp_path: Path) -> None:
    made = record(models.Tied(), torch.randint(0, 11, (2, 5)))
    files = made.save(tmp_path / "first")
    tied = {name: weight.tied_to for name, weight in made.graph.weights.items() if weight.tied_to}
    again = Capture(made.graph, made.plan, FileWeights(files["weights"], tied))
    assert again.weights.keys() == made.weights.keys()
    assert again.save(tmp_path / "second")["weights"].read_bytes() == files["weights"].read_bytes()
