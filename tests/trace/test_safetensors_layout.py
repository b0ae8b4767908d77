"""A header is refused where safetensors itself refuses it, and the file is not mapped for that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from torchport.trace.safetensors_layout import NotSound, read_header

GOOD: dict[str, Any] = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "U8", "shape": [4], "data_offsets": [24, 28]},
    "__metadata__": {"of": "a test"},
}


def written(path: Path, header: Any, nbytes: int = 28) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(nbytes))
    return path


def changed(name: str, **facts: Any) -> dict[str, Any]:
    return GOOD | {name: GOOD[name] | facts}


BROKEN: dict[str, tuple[Any, int]] = {
    "cut off": (GOOD, 27),
    "too long": (GOOD, 29),
    "a gap": (changed("b", data_offsets=[25, 29]), 29),
    "an overlap": (changed("b", data_offsets=[20, 24]), 24),
    "backwards": (changed("b", data_offsets=[28, 24]), 28),
    "another shape": (changed("a", shape=[2, 2]), 28),
    "no shape": (GOOD | {"a": {"dtype": "F32", "data_offsets": [0, 24]}}, 28),
    "a negative size": (changed("a", shape=[-2, -3]), 28),
    "a size of floats": (changed("a", shape=[2.0, 3]), 28),
    "one offset": (changed("a", data_offsets=[0]), 28),
    "a list": ([1, 2], 28),
    "no JSON": (b"{not JSON", 28),
    "metadata of numbers": (GOOD | {"__metadata__": {"of": 1}}, 28),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_safetensors_refuses_is_refused(case: str, tmp_path: Path) -> None:
    path = written(tmp_path / "w", *BROKEN[case])
    with pytest.raises(SafetensorError):
        safe_open(path, framework="np").__enter__()
    with pytest.raises(NotSound):
        read_header(path)


@pytest.mark.parametrize("content", [b"", b"\1", b"\xff" * 8, b"\x40\0\0\0\0\0\0\0{}"])
def test_a_file_without_a_whole_header_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(NotSound):
        read_header(tmp_path / "w")


def test_a_sound_header_says_what_safetensors_says(tmp_path: Path) -> None:
    arrays = {"x": np.ones((2, 3)), "empty": np.ones((0, 3), np.float32), "one": np.array(3, np.int64)}
    save_file(arrays, tmp_path / "w", metadata={"of": "a test"})
    for path in (tmp_path / "w", written(tmp_path / "good", GOOD)):
        found = read_header(path)
        with safe_open(path, framework="np") as file:
            assert found.metadata == file.metadata()
            assert set(found.tensors) == set(file.keys())
            for name, entry in found.tensors.items():
                assert entry["shape"] == file.get_slice(name).get_shape()
                assert entry["dtype"] == file.get_slice(name).get_dtype()


UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from torchport.capture.weights import FileWeights
from torchport.weights.checkpoint import opened
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 10**9, taken + 10**9))
path = Path(sys.argv[1])
with opened([path]) as checkpoint:
    print(len(checkpoint.tensors), FileWeights(path).read("w3").shape)
"""


@pytest.mark.slow
def test_a_file_that_is_larger_than_the_address_space_that_is_left_is_read(tmp_path: Path) -> None:
    count, nbytes = 16, 2**27
    header = {
        f"w{i}": {"dtype": "F32", "shape": [2**25], "data_offsets": [i * nbytes, (i + 1) * nbytes]}
        for i in range(count)
    }
    path = written(tmp_path / "large.safetensors", header, 0)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + count * nbytes)
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1) == ["16", "torch.Size([33554432])\n"]
