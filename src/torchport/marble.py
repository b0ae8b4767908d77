"""PyTorch models as graphs of neurons and synapses that run, can be looked at neuron by neuron, and can be changed.

core = marble.convert_model(model, example_inputs)
outputs = core.run(*inputs)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from torchport.errors import NeuronError
from torchport.targets.marble.activations import activation, activations, remove_activation
from torchport.targets.marble.config import Config, PositionalEncoding, read_config
from torchport.targets.marble.core.adding import NeuronGroup
from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.views import Neuron, Synapse
from torchport.targets.marble.files import native
from torchport.targets.marble.files.exported import exported
from torchport.targets.marble.files.journal import FileJournal
from torchport.targets.marble.model import core_of, inputs_of
from torchport.targets.marble.positions import with_positions
from torchport.targets.marble.registries import (
    register_function,
    register_layer,
    register_method,
    unsupported_layer,
)
from torchport.targets.marble.running import layer_values
from torchport.targets.marble.summary import Summary, summary
from torchport.targets.marble.validation import Validation, validate

__all__ = [
    "Config",
    "Core",
    "GraphBuilder",
    "Neuron",
    "NeuronError",
    "NeuronGroup",
    "PositionalEncoding",
    "Summary",
    "Synapse",
    "Validation",
    "activation",
    "activations",
    "convert_model",
    "layer_values",
    "load",
    "register_function",
    "register_layer",
    "register_method",
    "remove_activation",
    "save",
    "summary",
    "unsupported_layer",
    "validate",
    "with_positions",
]


def convert_model(
    model: nn.Module,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    config: Config | Mapping[str, Any] | str | Path | None = None,
    name: str | None = None,
) -> Core:
    """The model as a graph of neurons, for inputs of the shapes of these.

    `config` is a YAML file or its settings. With a positional encoding in it, the graph is that of `with_positions`.
    """
    settings = read_config(config)
    if settings.positional_encoding is not None:
        args = inputs_of(example_inputs, kwargs)
        model = with_positions(model, settings.positional_encoding, args, kwargs)
    return core_of(model, example_inputs, kwargs, name=name or settings.name)


def save(core: Core, path: str | Path, *, journal: bool = False) -> None:
    """Writes a graph to a `.marble` file, whole or not at all. With a journal, later changes are kept beside it.

    A path that ends in `.json` is written in MARBLE's exchange format, with each synapse on its own.
    """
    file = Path(path)
    if file.suffix == ".json":
        exported(core)
        return
    kept = FileJournal(file, native.save(core, file))
    goes_on = isinstance(core.journal, FileJournal) and core.journal.path == kept.path
    if journal or goes_on:
        kept.begin()
        core.journal = kept
    else:
        kept.path.unlink(missing_ok=True)


def load(path: str | Path, *, device: str | None = None, journal: bool = False) -> Core:
    """The graph in a `.marble` file, with the changes that its journal has. Nothing in the file is run."""
    file = Path(path)
    core, writing = native.load(file, device)
    kept = FileJournal(file, writing)
    for change in kept.changes():
        core.undo() if change.name == "undo" else core.change(change)
    if journal:
        kept.resume()
        core.journal = kept
    return core
