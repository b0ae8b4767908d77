"""Tensors that are stored come back as they were, from memory and from files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchport.candidates import parameter_rows, stored_tensors
from torchport.candidates.parameter_rows import rows_of
from torchport.candidates.precision import in_float64
from torchport.candidates.stored_tensors import Scratch


@pytest.mark.parametrize("room", [0, 2**20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.bool])
def test_a_tensor_comes_back_as_it_was(
    room: int, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tensors, "_BYTES_IN_MEMORY", room)
    store = Scratch(tmp_path).store()
    tensor = torch.randn(6, 5).to(dtype).T
    store["one"], store["empty"] = tensor, torch.empty(0, 3)
    assert torch.equal(store["one"], tensor) and store["one"].dtype == dtype
    assert len(list(tmp_path.iterdir())) == (0 if room else 1)
    store["one"] = tensor[:2]
    assert torch.equal(store["one"], tensor[:2]) and store["empty"].shape == (0, 3)
    if dtype != torch.bool:
        store.add("one", tensor[:2])
        assert torch.equal(store["one"], tensor[:2] * 2)
    store.clear()
    assert not store and not list(tmp_path.iterdir())


def test_a_tensor_in_a_file_is_read_as_it_is_while_all_is_computed_in_float64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tensors, "_BYTES_IN_MEMORY", 0)
    store, tensor = Scratch(tmp_path).store(), torch.randn(6, 5)
    store["one"] = tensor
    with in_float64(torch.nn.Module()):
        found = store["one"]
    assert torch.equal(found, tensor)


def test_rows_have_every_element_of_every_parameter_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_rows, "_ELEMENTS", 10)
    gradients = {"a": torch.randn(3, 7), "b": torch.randn(5), "c": torch.randn(())}
    rows = rows_of("Net", ["a", "b", "c", "frozen"], gradients)
    assert list(rows) == ["Net.parameters", "Net.parameters.1", "Net.parameters.2"]
    joined = torch.cat([row.joined(gradients, gradients) for row in rows.values()])
    everything = torch.cat([value.reshape(-1) for value in gradients.values()])
    assert torch.equal(joined.sort().values, everything.sort().values)
    assert rows["Net.parameters.1"].label == "the gradients of all parameters, part 2 of 3"
    without = {"a": gradients["a"], "b": torch.randn(4)}
    assert sum(row.joined(without, gradients).numel() for row in rows.values()) == 27
