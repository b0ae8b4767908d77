"""GGUF files are read by the gguf package, what it writes is read here, and no part of a file is taken on trust."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest

from torchport.blocks.formats import FORMATS, dequantise, quantise
from torchport.blocks.gguf import read_gguf, write_gguf
from torchport.errors import QuantError


@dataclass(frozen=True)
class Given:
    name: str
    shape: tuple[int, ...]
    type: str
    values: np.ndarray

    def data(self) -> np.ndarray:
        return self.values


def some() -> list[Given]:
    rows = np.random.default_rng(0).standard_normal((3, 256)).astype(np.float32)
    blocks = [Given(f"w.{name}", (3, 256), name, quantise("w", rows, form)) for name, form in FORMATS.items()]
    odd = np.arange(5, dtype=np.float32)
    return [Given("odd", (5,), "f32", odd), *blocks, Given("four", (1, 2, 3, 1), "f32", odd.repeat(2)[:6])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.gguf"
    write_gguf(path, some(), {"general.architecture": "torchport", "n": 7, "yes": True})
    return path


def test_the_gguf_package_reads_what_is_written(file: Path) -> None:
    reader = gguf.GGUFReader(file)
    assert {tensor.name for tensor in reader.tensors} == {given.name for given in some()}
    assert reader.fields["n"].contents() == 7 and reader.fields["yes"].contents() is True
    for tensor, given in zip(reader.tensors, some(), strict=True):
        assert tuple(reversed(tensor.shape.tolist())) == given.shape
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if given.type in FORMATS:
            assert np.array_equal(values, dequantise(given.values, FORMATS[given.type]))
        else:
            assert np.array_equal(values.reshape(-1), given.values.reshape(-1))


def test_what_is_written_is_read_again(file: Path) -> None:
    read = read_gguf(file)
    assert read.metadata == {"general.architecture": "torchport", "n": 7, "yes": True}
    for given in some():
        info = read.tensors[given.name]
        assert (info.shape, info.type) == (given.shape, given.type) and info.offset % 32 == 0
        assert bytes(read.blocks(given.name)) == given.values.tobytes()


def test_files_of_the_gguf_package_are_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("names", ["a", "b"])
    writer.add_custom_alignment(64)
    rows = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    writer.add_tensor("w", rows)
    writer.add_tensor("ids", np.arange(3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = read_gguf(path)
    assert read.metadata["names"] == ["a", "b"]
    assert np.array_equal(read.blocks("w").view(np.float32).reshape(4, 64), rows)
    assert read.tensors["ids"].type == "i64" and read.tensors["ids"].offset % 64 == 0


def test_a_file_that_is_cut_off_anywhere_is_refused(file: Path, tmp_path: Path) -> None:
    whole, cut = file.read_bytes(), tmp_path / "cut.gguf"
    for length in [*range(0, 900, 7), len(whole) - 33]:
        cut.write_bytes(whole[:length])
        with pytest.raises(QuantError) as caught:
            read_gguf(cut)
        assert caught.value.code == "TP0351" and str(cut) in str(caught.value)


@pytest.mark.parametrize(
    ("at", "replacement", "message"),
    [
        (0, b"GGML", "does not begin with GGUF"),
        (4, b"\x09\0\0\0", "version is 9"),
        (8, b"\xff" * 8, "cannot hold"),
        (16, b"\xff" * 8, "cannot hold"),
    ],
)
def test_a_header_that_cannot_be_is_refused(file: Path, at: int, replacement: bytes, message: str) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + len(replacement)] = replacement
    file.write_bytes(data)
    with pytest.raises(QuantError, match=message):
        read_gguf(file)


def test_more_axes_than_a_file_can_hold_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "five.gguf"
    with pytest.raises(QuantError, match="conv has 5 axes"):
        write_gguf(path, [Given("conv", (1, 1, 1, 1, 2), "f32", np.zeros(2, np.float32))], {})
    assert list(tmp_path.iterdir()) == []
