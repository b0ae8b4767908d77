"""GGUF files: plain tensors as they are, blocks as their definition says."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from torchport.blocks.formats import FORMATS, dequantise, quantise, rounded
from torchport.blocks.gguf import TYPES
from torchport.capture.recorder import record
from torchport.errors import TorchportError
from torchport.events import ignore
from torchport.porting.extracting import extract_weights
from torchport.weights.checkpoint import opened
from torchport.weights.views import whole


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(path: Path, tensors: dict[str, tuple[int, tuple[int, ...], bytes]], alignment: int = 64) -> Path:
    """Writes a file of tensors, each given by type, shape and bytes, with metadata of several types."""
    metadata = [
        text("general.alignment") + struct.pack("<II", 4, alignment),
        text("general.name") + struct.pack("<I", 8) + text("x"),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("scores") + struct.pack("<IIQ3f", 9, 6, 3, 1, 2, 3),
        text("flag") + struct.pack("<IB", 7, 1),
    ]
    infos, data = b"", b""
    for name, (kind, shape, values) in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        sizes = struct.pack(f"<{len(shape)}Q", *shape[::-1])
        infos += text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, len(data))
        data += values
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata) + infos
    path.write_bytes(head + b"\0" * (-len(head) % alignment) + data)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    with opened([path]) as checkpoint:
        return {name: np.array(whole(stored)) for name, stored in checkpoint.tensors.items()}


def test_plain_tensors_are_as_they_are(tmp_path: Path) -> None:
    wide, whole_numbers = torch.randn(3, 4), torch.arange(5, dtype=torch.int32)
    half, brain = wide.half(), wide.bfloat16()
    found = read(
        gguf(
            tmp_path / "a.gguf",
            {
                "wide": (0, (3, 4), wide.numpy().tobytes()),
                "half": (1, (3, 4), half.numpy().tobytes()),
                "brain": (30, (3, 4), brain.view(torch.int16).numpy().tobytes()),
                "whole": (26, (5,), whole_numbers.numpy().tobytes()),
            },
        )
    )
    assert np.array_equal(found["wide"], wide.numpy()) and np.array_equal(found["half"], half.numpy())
    assert np.array_equal(found["whole"], whole_numbers.numpy())
    assert torch.equal(torch.from_numpy(found["brain"].view(np.int16)).view(torch.bfloat16), brain)


def number(kind: int, block: bytes, place: int) -> float:
    """One number of a block, by the definition of its type."""
    scale = float(np.frombuffer(block[:2], np.float16)[0])
    least = float(np.frombuffer(block[2:4], np.float16)[0])
    half = place % 16

    def nibble(start: int) -> int:
        return block[start + half] & 15 if place < 16 else block[start + half] >> 4

    def fifth(start: int) -> int:
        return (int.from_bytes(block[start : start + 4], "little") >> place & 1) << 4

    if kind == 8:
        return scale * struct.unpack("<32b", block[2:])[place]
    if kind == 2:
        return scale * (nibble(2) - 8)
    if kind == 3:
        return scale * nibble(4) + least
    if kind == 6:
        return scale * ((nibble(6) | fifth(2)) - 16)
    return scale * (nibble(8) | fifth(4)) + least


@pytest.mark.parametrize(("kind", "size"), [(2, 18), (3, 20), (6, 22), (7, 24), (8, 34)])
def test_blocks_are_read_as_their_definition_says(tmp_path: Path, kind: int, size: int) -> None:
    random = np.random.default_rng(kind)
    blocks = random.integers(0, 256, (6, size), dtype=np.uint8)
    blocks[:, :2] = random.normal(size=(6, 1)).astype(np.float16).view(np.uint8)
    if kind in (3, 7):
        blocks[:, 2:4] = random.normal(size=(6, 1)).astype(np.float16).view(np.uint8)
    found = read(gguf(tmp_path / "a.gguf", {"x": (kind, (3, 64), blocks.tobytes())}))["x"]
    expected = [np.float32(number(kind, block.tobytes(), place)) for block in blocks for place in range(32)]
    assert found.dtype == np.float32 and found.shape == (3, 64)
    assert np.allclose(found.reshape(-1), expected, rtol=1e-6, atol=0)


def test_a_piece_that_begins_inside_a_block_is_the_same(tmp_path: Path) -> None:
    blocks = np.random.default_rng(0).integers(0, 60, (4, 34), dtype=np.uint8)
    path = gguf(tmp_path / "a.gguf", {"x": (8, (128,), blocks.tobytes())})
    every = read(path)["x"]
    with opened([path]) as checkpoint:
        part = checkpoint.tensors["x"].bits(37, 71, np.empty(0, np.uint8))
    assert np.array_equal(part, every[37:71])


def damaged(path: Path) -> dict[str, bytes]:
    whole_file = path.read_bytes()
    return {
        "cut in the header": whole_file[:100],
        "cut in the values": whole_file[:-8],
        "version": whole_file[:4] + struct.pack("<I", 9) + whole_file[8:],
        "count": whole_file[:8] + struct.pack("<Q", 2**60) + whole_file[16:],
    }


@pytest.mark.parametrize("damage", ["cut in the header", "cut in the values", "version", "count"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = gguf(tmp_path / "a.gguf", {"x": (0, (4,), b"\0" * 16)})
    path.write_bytes(damaged(path)[damage])
    with pytest.raises(TorchportError, match="TP0322"):
        read(path)


def test_other_quantised_types_are_refused_by_name(tmp_path: Path) -> None:
    path = gguf(tmp_path / "a.gguf", {"blk.0.ffn": (20, (32,), b"\0" * 18)})
    with pytest.raises(TorchportError, match="'blk.0.ffn' is of iq4_nl"):
        read(path)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_blocks_is_read_as_it_is_dequantised(tmp_path: Path, form: str) -> None:
    rows = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)
    blocks = quantise("w", rows, FORMATS[form])
    path = gguf(tmp_path / "a.gguf", {"w": (TYPES[form].number, (3, 512), blocks.tobytes())})
    assert np.array_equal(read(path)["w"], dequantise(blocks, FORMATS[form]))
    with opened([path]) as checkpoint:
        part = checkpoint.tensors["w"].bits(300, 900, np.empty(0, np.uint8))
    assert np.array_equal(part, read(path)["w"].reshape(-1)[300:900].view(part.dtype))


def test_a_port_gets_the_floats_that_blocks_stand_for(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(512, 4), torch.nn.Linear(4, 256))
    manifest = record(model.eval(), (torch.randn(1, 512),), name="net", truth=False).save(tmp_path)[
        "manifest"
    ]
    given = {}
    for name, tensor in model.state_dict().items():
        form = "q4_k" if name == "0.weight" else "f32"
        rows = tensor.numpy()
        values = quantise(name, rows, FORMATS[form]) if form in FORMATS else rows
        given[name] = (TYPES[form].number, tuple(rows.shape), values.tobytes())
    checkpoint = gguf(tmp_path / "a.gguf", given)
    out = tmp_path / "model.safetensors"
    extract_weights([checkpoint], manifest, out=out, rules=None, prefixes=(), watch=ignore)
    found = load_file(out)
    exact = rounded("w", model.state_dict()["0.weight"].numpy(), "q4_k")
    assert np.array_equal(found["0.weight"].numpy(), exact)
    assert torch.equal(found["1.weight"], model.state_dict()["1.weight"])
