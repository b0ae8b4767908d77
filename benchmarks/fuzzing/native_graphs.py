"""Native files of small graphs: converted models, a graph that was changed, control flow, and one with a memory."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from torchport.marble import Core, GraphBuilder, convert_model
from torchport.targets.marble.files import native


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        chosen: Tensor = torch.cond(x.sum() > 0, lambda y: self.yes(y), lambda y: self.no(y).tanh(), (x,))
        return chosen


def cores() -> list[Core]:
    """Graphs whose arrays all have different names."""
    torch.manual_seed(0)
    layers = {"fc1": nn.Linear(3, 4), "norm": nn.LayerNorm(4), "act": nn.GELU(), "fc2": nn.Linear(4, 2)}
    mlp = nn.Sequential(OrderedDict(layers))
    image = nn.Sequential(
        OrderedDict(conv=nn.Conv2d(1, 2, 2, padding=1), pool=nn.MaxPool2d(2), flat=nn.Flatten())
    )
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(1, 3, 4)
    changed = convert_model(
        nn.Sequential(OrderedDict(only=nn.Linear(3, 4), last=nn.Softmax(-1))), torch.randn(1, 3)
    )
    sums = changed.groups()[1].ids
    changed.remove_synapses([(sums[0], 1)])
    more = changed.add_neuron_group(2, name="more", activation="tanh", bias=[0.5, 0.25])
    changed.connect(sums, more, 0.5)
    changed.remove_neurons([more.gives[1], more.takes[1]])
    return [
        convert_model(mlp, torch.randn(2, 3)),
        convert_model(image, torch.randn(1, 1, 4, 4)),
        convert_model(attention, (x, x, x)),
        convert_model(Branching(), torch.ones(1, 2)),
        changed,
        _with_memory(),
    ]


def _with_memory() -> Core:
    builder = GraphBuilder()
    x, total = builder.input(2), builder.add_neuron_group(2)
    builder.add_synapses(x, total, [1.0, 2.0])
    builder.add_synapses(builder.add_memory(total, name="past"), total, 0.5)
    core = builder.build(total)
    core.step(torch.ones(2))
    return core


class NativeFiles:
    """Writes files to a folder that is removed in the end, and reads them."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="torchport-fuzz-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._file = Path(folder) / "graph.marble"
        self.cores = cores()
        self.arrays = {name: array for core in self.cores for name, array in core.version.arrays.items()}

    def wholes(self) -> tuple[bytes, ...]:
        return tuple(self.dump(core) for core in self.cores)

    def placed(self, content: bytes) -> Path:
        self._make_room()
        self._file.write_bytes(content)
        return self._file

    def _make_room(self) -> None:
        """Arrays of a graph that was loaded are still mapped from the file of this name."""
        self._file.unlink(missing_ok=True)

    def load(self, path: Path) -> Core:
        return native.load(path)[0]

    def dump(self, core: Core) -> bytes:
        native.save(core, self._file)
        return self._file.read_bytes()

    def same(self, one: Core, other: Core) -> bool:
        """By the checksum of structure and arrays: the order of the header's entries is not always the same."""
        return self._header(one)["checksum"] == self._header(other)["checksum"]

    def structure(self, core: Core) -> bytes:
        """The structure in the header of a graph's file."""
        return self._header(core)["structure"].encode()

    def _header(self, core: Core) -> dict[str, str]:
        native.save(core, self._file)
        with safe_open(self._file, framework="pt") as file:
            return dict(file.metadata())

    def with_structure(self, content: bytes) -> Path:
        """A file with this structure, the arrays of all graphs, and the checksum of both."""
        text = content.decode(errors="replace")
        checksum = native._checksum(text, self.arrays)
        header = {
            "format": native.FORMAT,
            "version": str(native.VERSION),
            "structure": text,
            "checksum": checksum,
        }
        self._make_room()
        save_file(self.arrays, self._file, header)
        return self._file
