"""A trace is opened anew when much of it has been read, so that its pages do not pile up in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchport.trace import reading
from torchport.trace.writing import write_tensors


def test_tensors_stay_right_when_the_file_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAPPED_BYTES", 64)
    tensors = {
        str(index): torch.randn(8, generator=torch.Generator().manual_seed(index)) for index in range(9)
    }
    write_tensors(tmp_path / "trace.safetensors", tensors, {"schema": "1"}, aliases={"other": "3"})
    with reading.Trace(tmp_path / "trace.safetensors") as trace:
        read = {key: trace.get(key) for key in tensors}
        assert all(torch.equal(read[key], tensor) for key, tensor in tensors.items())
        assert torch.equal(trace.get("other"), tensors["3"]) and trace.shape("4") == (8,)
