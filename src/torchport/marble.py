"""PyTorch models as graphs of neurons and synapses that run, can be looked at neuron by neuron, and can be changed.

core = marble.convert_model(model, example_inputs)
outputs = core.run(*inputs)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from torchport.errors import GraphFileError, NeuronError
from torchport.targets.marble.activations import activation, activations, remove_activation
from torchport.targets.marble.config import Config, PositionalEncoding, read_config
from torchport.targets.marble.core.adding import NeuronGroup
from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.views import Neuron, Synapse
from torchport.targets.marble.exchange import as_json
from torchport.targets.marble.exchange import legacy as snapshot
from torchport.targets.marble.exchange.layout import with_bias_neurons
from torchport.targets.marble.files import exported, imported, native
from torchport.targets.marble.files.form import Form, form_of
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


def save(
    core: Core, path: str | Path, *, journal: bool = False, legacy: bool = False, most: int = exported.MOST
) -> None:
    """Writes a graph, whole or not at all: to a `.marble` file, or as MARBLE's `.json`.

    With a journal, later changes are kept beside the file. With `legacy`, a `.marble` file is a pickle for MARBLE. Its
    formats spell out every neuron and synapse, of which there may be `most`.
    """
    file = Path(path)
    form = file.suffix.lower()
    if form not in FORMATS or (form != ".marble" and legacy) or (journal and (legacy or form != ".marble")):
        raise _no_such_format(file, journal=journal, legacy=legacy)
    if form == ".json":
        as_json.write(file, exported.plain_of(core, most=most), force=True)
    elif legacy:
        snapshot.write(file, with_bias_neurons(exported.plain_of(core, most=most)), force=True)
    else:
        _save_native(core, file, journal=journal)


def _save_native(core: Core, file: Path, *, journal: bool) -> None:
    file = file.resolve()
    with core.unchanged():
        kept = FileJournal(file, native.save(core, file))
        goes_on = isinstance(core.journal, FileJournal) and core.journal.path == kept.path
        if journal or goes_on:
            kept.begin()
            core.journal = kept
            core.forget()
        else:
            kept.path.unlink(missing_ok=True)


FORMATS = (".marble", ".json")


def _no_such_format(file: Path, *, journal: bool, legacy: bool) -> GraphFileError:
    asked = " with a journal" * journal + " as a legacy pickle" * legacy
    return GraphFileError(
        "TP0369",
        f"no format of graphs is written to {file.name}{asked}: there are .marble (native, may have a journal), "
        ".json (MARBLE's), and .marble with legacy=True (MARBLE's pickle)",
        where=str(file),
    )


def load(path: str | Path, *, device: str | None = None, journal: bool = False) -> Core:
    """The graph in a file that `save` or MARBLE wrote; a native one with the changes that its journal has.

    What a file is, is known by its content. Nothing in it is run. MARBLE's formats are read if the graph is one of
    weighted sums and activations.
    """
    file = Path(path)
    form = form_of(file)
    if form is Form.NATIVE:
        return _load_native(file, device, journal=journal)
    if journal:
        raise _no_such_format(file, journal=True, legacy=form is Form.LEGACY)
    core = imported.core_of(as_json.read(file) if form is Form.JSON else snapshot.read(file))
    return core if device is None else core.to(device)


def _load_native(file: Path, device: str | None, *, journal: bool) -> Core:
    file = file.resolve()
    core, writing = native.load(file, device)
    kept = FileJournal(file, writing)
    kept.replay(core)
    if journal:
        kept.resume()
        core.journal = kept
    return core
