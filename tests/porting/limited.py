"""Ports, fills and proves a model whose weights are larger than all the memory that this process may take.

    python -m tests.porting.limited FOLDER data|space

The limit is what Python has once torch has exported a small model, and 400 MB: of memory that is not of a file (data,
as RLIMIT_DATA counts it), or of addresses (space, as `ulimit -v` does). Of addresses torch alone takes gigabytes, so
there the weights are larger than what is left. Prints the verdict, what the weights must be larger than, and their
bytes.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import torch

from torchport.events import ignore
from torchport.porting.extracting import extract_weights
from torchport.porting.port import port
from torchport.trace import safetensors_layout as layout

from .large_model import Large, large_on_meta

SPARE, HIDDEN_SIZE = 400 * 10**6, 1024


LIMITS = {"data": ("VmData", resource.RLIMIT_DATA), "space": ("VmSize", resource.RLIMIT_AS)}
"""What the system calls what is limited, and the limit."""


def taken(field: str) -> int:
    """The bytes that this process has of what /proc calls by this name."""
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def on_meta(num_layers: int) -> Large:
    with torch.device("meta"):
        model = Large(HIDDEN_SIZE, num_layers)
    model.scale = torch.full((HIDDEN_SIZE,), 0.5)
    return model.eval()


def write_checkpoint(path: Path, model: Large) -> int:
    """Writes random weights for a model, one at a time, and gives how many bytes."""
    shapes = {name: tuple(one.shape) for name, one in model.state_dict().items() if name != "head.weight"}
    entries = {name: layout.StoredForm("float32", 4, shape) for name, shape in shapes.items()}
    with path.open("wb") as file:
        file.write(layout.header(entries, list(entries), {}))
        for name, entry in entries.items():
            values = torch.randn(entry.shape) * 0.02
            file.write((values + 1 if "norm" in name else values).numpy().data)
    return sum(entry.nbytes for entry in entries.values())


def main(folder: Path, limited: str) -> int:
    torch.set_num_threads(1)
    small, args = large_on_meta()
    port(small, args, out=folder / "small", name="small")
    field, kind = LIMITS[limited]
    limit = taken(field) + SPARE
    resource.setrlimit(kind, (limit, limit))
    exceeded = limit if limited == "data" else 2 * SPARE
    block = sum(parameter.nbytes for parameter in on_meta(1).blocks.parameters())
    model = on_meta(int(1.2 * exceeded / block) + 1)
    weights = write_checkpoint(folder / "checkpoint.safetensors", model)
    made = port(model, args, out=folder / "large", name="large")
    given = {"rules": None, "prefixes": (), "recorded_buffers": True, "watch": ignore}
    checkpoint, stored = folder / "checkpoint.safetensors", made.artifact.stored
    assert stored is not None
    extract_weights([checkpoint], made.files.manifest, out=stored, **given)
    report = made.check(args)
    assert report.notes == (), report.notes  # The checkpoint is there, so that the mapping is proven, too.
    print(json.dumps([layer.name for layer in report.layers if not layer.passed]), file=sys.stderr)
    print(report.status, exceeded, weights)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
