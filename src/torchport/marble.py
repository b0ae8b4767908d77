"""PyTorch models as graphs of neurons and synapses that run, can be looked at neuron by neuron, and can be changed.

    core = marble.convert_model(model, example_inputs)
    outputs = core.run(*inputs)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from torchport.targets.marble.core.adding import NeuronGroup
from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.views import Neuron, Synapse
from torchport.targets.marble.files import native
from torchport.targets.marble.files.journal import FileJournal
from torchport.targets.marble.model import core_of
from torchport.targets.marble.registries import (
    register_function,
    register_layer,
    register_method,
    unsupported_layer,
)
from torchport.targets.marble.summary import Summary, summary
from torchport.targets.marble.validation import Validation, validate

__all__ = [
    "Core",
    "GraphBuilder",
    "Neuron",
    "NeuronGroup",
    "Summary",
    "Synapse",
    "Validation",
    "convert_model",
    "load",
    "register_function",
    "register_layer",
    "register_method",
    "save",
    "summary",
    "unsupported_layer",
    "validate",
]


def convert_model(model: nn.Module, example_inputs: Any, *, name: str | None = None) -> Core:
    """The model as a graph of neurons, for inputs of the shapes of these."""
    return core_of(model, example_inputs, name=name)


def save(core: Core, path: str | Path, *, journal: bool = False) -> None:
    """Writes a graph to a `.marble` file, whole or not at all. With a journal, later changes are kept beside it."""
    file = Path(path)
    checksum = native.save(core, file)
    if journal:
        kept = FileJournal(file, checksum)
        kept.begin()
        core.journal = kept


def load(path: str | Path, *, device: str | None = None, journal: bool = False) -> Core:
    """The graph in a `.marble` file, with the changes that its journal has. Nothing in the file is run."""
    file = Path(path)
    core, checksum = native.load(file, device)
    kept = FileJournal(file, checksum)
    for change in kept.changes():
        core.undo() if change.name == "undo" else core.change(change)
    if journal:
        if not kept.path.is_file():
            kept.begin()
        core.journal = kept
    return core
