"""From a PyTorch model to a `Core`: captured, converted, and with the model's own names for its weights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchport.capture.attempt import attempt
from torchport.capture.eager import where_the_model_is
from torchport.capture.exported import Exported
from torchport.capture.state import as_it_was
from torchport.capture.weights import as_weights
from torchport.errors import ConvertError, TorchportError
from torchport.targets.marble.convert import Converted, convert
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.recipes import RECIPES
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
    began = time.perf_counter()
    with as_it_was(model), torch.no_grad():
        args, named = where_the_model_is(model, (given, dict(kwargs or {})))
        exported = captured(model, args, named, name or type(model).__name__)
    log.info("captured %s in %.2f s", exported.graph.name, time.perf_counter() - began)
    shapes = {
        item.name: tuple(one.shape)
        for item, one in zip(exported.graph.root.inputs, _tensors((args, named)), strict=True)
    }
    converted = convert(exported.graph, shapes, model=model)
    must_be_whole(converted)
    arrays, names = _arrays(model, exported)
    core = Core(converted.graph, {**arrays, **converted.made}, names=names)
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


def captured(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Exported:
    """The model's graph: by torch.export, else by torch.fx, else along its module tree."""
    ways: dict[str, Callable[[], nn.Module]] = {
        "torch.export": lambda: model,
        "torch.fx": lambda: torch.fx.symbolic_trace(model),
        "module tree": lambda: chain_of(model, args, kwargs),
    }
    failed: dict[str, str] = {}
    for way, made in ways.items():
        try:
            exported = attempt(
                made(),
                args,
                kwargs,
                name=name,
                wish={},
                decompose=lambda operation: operation not in RECIPES,
            )
        except Exception as error:  # each way has errors of its own, and all of them are reported
            failed[way] = error.message if isinstance(error, TorchportError) else _first_line(error)
            log.info("%s failed: %s", way, failed[way])
        else:
            log.info("captured by %s", way)
            return exported
    reasons = "; ".join(f"{way}: {why}" for way, why in failed.items())
    raise ConvertError("TP0404", f"{type(model).__name__} cannot be captured. {reasons}")


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
        raise ConvertError("TP0401", "; ".join(reasons), where=where)


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
