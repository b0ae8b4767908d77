"""Traces are read a tensor at a time, and a bad file is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport.errors import TraceError
from torchport.trace.reading import Trace


def write(path: Path, aliases: object = None) -> Path:
    metadata = {"schema": "1", "root": "Net"}
    if aliases is not None:
        metadata["aliases"] = aliases if isinstance(aliases, str) else json.dumps(aliases)
    save_file({"fc": torch.arange(3.0)}, path, metadata)
    return path


def test_reads_tensors_root_and_aliases(tmp_path: Path) -> None:
    with Trace(write(tmp_path / "t.safetensors", {"Net": "drop", "drop": "fc"})) as trace:
        assert trace.root == "Net"
        assert list(trace) == ["fc"]
        assert trace.resolve("Net") == "fc" and trace.has("Net") and "Net" not in trace
        torch.testing.assert_close(trace.get("Net"), torch.arange(3.0))
        assert not trace.has("other")


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        Trace(write(tmp_path / "t.safetensors")) as trace,
        pytest.raises(TraceError, match="TP0311: .* no value for gone"),
    ):
        trace.get("gone")


@pytest.mark.parametrize("aliases", ["{", "[]", {"a": "b", "b": "a"}])
def test_bad_aliases_are_an_error(tmp_path: Path, aliases: object) -> None:
    path = write(tmp_path / "t.safetensors", aliases)
    with pytest.raises(TraceError, match="TP0310"):
        Trace(path).resolve("a")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="TP0310: there is no trace at .*gone"):
        Trace(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 20, -1])
def test_a_truncated_file_is_an_error(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / "t.safetensors")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TraceError, match="TP0310: .*truncated"):
        Trace(path)


MEASURE_GROWTH = """
import resource, sys
from pathlib import Path
from torchport.parity.metrics import compare
from torchport.trace.reading import Trace
peak_kib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Trace(Path(sys.argv[1])) as trace:
    compare(trace.get("small"), trace.get("small"))
    before = peak_kib()
    compare(trace.get("big"), trace.get("big"))
    print(peak_kib() - before)
"""


@pytest.mark.slow
def test_a_large_tensor_is_mapped_and_compared_in_chunks(tmp_path: Path) -> None:
    elements = 50_000_000
    path = tmp_path / "t.safetensors"
    save_file({"big": torch.zeros(elements), "small": torch.zeros(10)}, path)
    command = [sys.executable, "-c", MEASURE_GROWTH, str(path)]
    grown_kib = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # The pages of the file may be resident, once; a float64 copy would be twice that again.
    assert grown_kib < 1.25 * elements * 4 / 1024
