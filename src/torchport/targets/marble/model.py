"""From a PyTorch model to a `Core`: captured, converted, and with the model's own names for its weights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchport.capture import export_fault, fx
from torchport.capture.attempt import attempt
from torchport.capture.eager import where_the_model_is
from torchport.capture.exported import Exported
from torchport.capture.state import as_it_was, copied, state_kept
from torchport.capture.weights import as_weights
from torchport.errors import CaptureError, ConvertError, TorchportError
from torchport.targets.marble.convert import Converted, convert
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.recipes import RECIPES
from torchport.targets.marble.registries import converter_of
from torchport.targets.marble.tree import chain_of

log = logging.getLogger("torchport.marble")


def core_of(
    model: nn.Module,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Core:
    """The model as a graph of neurons, for inputs of these shapes."""
    given = inputs_of(example_inputs, kwargs)
    with as_it_was(model), torch.no_grad():
        args, named = where_the_model_is(model, (given, dict(kwargs or {})))
        core = captured(model, args, named, name or type(model).__name__)
    log.info("converted %d groups, %d neurons", len(core.groups()), len(core.neurons))
    return core


def inputs_of(example_inputs: Any, kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """The positional inputs; ConvertError if there are none, nor any by name."""
    is_empty = example_inputs is None or (isinstance(example_inputs, Sequence) and not example_inputs)
    if is_empty and kwargs:
        return ()
    if is_empty:
        raise ConvertError(
            "TP0404",
            "there are no example inputs, and shapes are never guessed",
            fix="Give example inputs: a tensor, or a tuple of them.",
        )
    return (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)


def _tensors(args: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(args) if isinstance(leaf, Tensor)]


def captured(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Core:
    """The model's graph: by torch.export, else by torch.fx, else along its module tree.

    What a way gives counts only if it computes what the model computes.
    """
    with state_kept(model):
        expected = _tensors(model(*copied(args), **copied(kwargs)))
    has_converters = any(converter_of(layer) is not None for layer in model.modules())
    ways: dict[str, Callable[[], Exported]] = {
        "torch.export": lambda: _attempt(model, args, kwargs, name),
        "torch.fx": lambda: _by_fx(model, args, kwargs, name),
        "module tree": lambda: _attempt(chain_of(model, args, kwargs), args, kwargs, name),
    }
    failed: dict[str, str] = {}
    first: CaptureError | None = None
    for way, made in ways.items():
        began = time.perf_counter()
        try:
            exported = made()
            core = _converted(model, exported, (args, kwargs))
            _must_agree(core, _tensors((args, kwargs)), expected)
        except _Unconverted:
            raise
        except Exception as error:  # each way has errors of its own, and all of them are reported
            if has_converters and not isinstance(error, CaptureError):
                raise  # Another way would go round the user's own converters.
            if isinstance(error, CaptureError):
                error = export_fault.in_plain_words(error)
                first = first or error
            failed[way] = error.message if isinstance(error, TorchportError) else _first_line(error)
            log.info("%s failed: %s", way, failed[way])
        else:
            log.info("captured %s by %s in %.2f s", exported.graph.name, way, time.perf_counter() - began)
            core.notes += _notes(exported, way)
            return core
    reasons = "; ".join(f"{way}: {why}" for way, why in failed.items())
    where, fix = (None, None) if first is None else (first.where, first.fix)
    raise ConvertError(
        "TP0404", f"{type(model).__name__} cannot be captured. {reasons}", where=where, fix=fix
    )


def _notes(exported: Exported, way: str) -> list[str]:
    """What a user should know of a conversion, which is logged, too."""
    notes = []
    if exported.writes:
        names = ", ".join(exported.writes)
        notes.append(f"the model writes to {names} when it is called; the graph keeps what was there")
    if way != "torch.export":
        notes.append(
            f"torch.export could not follow the model; it was captured by {way} on the example inputs"
        )
    for note in notes:
        log.warning("%s", note)
    return notes


def _attempt(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Exported:
    return attempt(
        model, args, kwargs, name=name, wish={}, decompose=lambda operation: operation not in RECIPES
    )


def _by_fx(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Exported:
    if kwargs:
        raise ConvertError("TP0404", "inputs that are given by name are not traced")
    return fx.graph_of(torch.fx.symbolic_trace(model), args, name=name)


class _Unconverted(ConvertError):
    """The model was captured, and has operations that no recipe expresses: no other way will do better."""


def _converted(model: nn.Module, exported: Exported, given: Any) -> Core:
    inputs = zip(exported.graph.root.inputs, _tensors(given), strict=True)
    shapes = {item.name: tuple(one.shape) for item, one in inputs}
    converted = convert(exported.graph, shapes, model=model)
    must_be_whole(converted)
    arrays, names = _arrays(model, exported)
    return Core(converted.graph, {**arrays, **converted.made}, names=names)


def _must_agree(core: Core, inputs: list[Tensor], expected: list[Tensor]) -> None:
    """Refuses a graph that gives other outputs than the model."""
    found = core.run(*copied(inputs))
    if len(found) != len(expected):
        raise ConvertError("TP0404", f"the graph gives {len(found)} tensors, and the model {len(expected)}")
    for one, other in zip(found, expected, strict=True):
        is_same = one.shape == other.shape and one.dtype == other.dtype
        if not is_same or not _is_near(one, other):
            raise ConvertError("TP0404", "the graph gives other outputs than the model")


def _is_near(one: Tensor, other: Tensor) -> bool:
    if not (other.is_floating_point() or other.is_complex()):
        return torch.equal(one, other)
    step = torch.finfo(other.dtype).eps ** 0.5
    sizes = other.abs()[other.isfinite()]
    allowed = step * float(sizes.max()) if sizes.numel() else 0.0
    return torch.allclose(one, other, rtol=step, atol=allowed, equal_nan=True)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def must_be_whole(converted: Converted) -> None:
    """Refuses a model with operations that no recipe expresses; all of them are named."""
    if converted.todos:
        reasons = dict.fromkeys(
            todo.reason if todo.op in todo.reason else f"{todo.op} in {todo.layer}: {todo.reason}"
            for todo in converted.todos
        )
        where = converted.todos[0].source
        raise _Unconverted("TP0401", "; ".join(reasons), where=where)


def _arrays(model: nn.Module, exported: Exported) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Copies of all tensors of the model, each once, and which of them each name of its state dict is."""
    weights = as_weights(exported.weights)
    tied = {name: weight.tied_to or name for name, weight in exported.graph.weights.items()}
    arrays = {
        name: weights[name].detach().clone() for name in weights.names() if tied.get(name, name) == name
    }
    names: dict[str, str] = {}
    for name, tensor in _state(model).items():
        home = tied.get(name, name)
        if home not in arrays:
            arrays[home] = tensor.detach().clone()
        names[name] = home
    return arrays, names


def _state(model: nn.Module) -> Mapping[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
