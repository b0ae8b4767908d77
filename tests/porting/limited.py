"""Ports, fills and proves a model whose weights are larger than all the memory that this process may take.

    python -m tests.porting.limited FOLDER

The limit is what Python has once torch has exported a small model, and 400 MB. Prints the verdict, the limit and the
bytes of the weights.
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


def data_bytes() -> int:
    """The memory of this process that is not of a file."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")
    )
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


def main(folder: Path) -> int:
    torch.set_num_threads(1)
    small, args = large_on_meta()
    port(small, args, out=folder / "small", name="small")
    limit = data_bytes() + SPARE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    block = sum(parameter.nbytes for parameter in on_meta(1).blocks.parameters())
    model = on_meta(int(1.2 * limit / block) + 1)
    weights = write_checkpoint(folder / "checkpoint.safetensors", model)
    made = port(model, args, out=folder / "large", name="large")
    given = {"rules": None, "prefixes": (), "recorded_buffers": True, "watch": ignore}
    checkpoint, stored = folder / "checkpoint.safetensors", made.artifact.stored
    assert stored is not None
    extract_weights([checkpoint], made.files.manifest, out=stored, **given)
    checkpoint.unlink()
    report = made.check(args)
    print(json.dumps([layer.name for layer in report.layers if not layer.passed]), file=sys.stderr)
    print(report.status, limit, weights)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
