"""Which layers of torch.nn become neurons, found out by converting a small example of each."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import nn

from torchport.capture.eager import run_eager
from torchport.errors import TorchportError, UsageError
from torchport.targets.marble.layer_examples import EXAMPLES, HOLDERS
from torchport.targets.marble.model import core_of
from torchport.targets.marble.registries import LAYERS

State = Literal["converts", "registered", "not supported"]
SEED = 0
log = logging.getLogger("torchport.marble")


class LayerState(BaseModel):
    """A class of layers, and whether it becomes neurons; `registered` if a user's converter makes them."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: State
    reason: str | None = None
    """Why it is not supported."""


def public_layers() -> list[str]:
    """The names of the layers of torch.nn; what only holds other modules or parameters is none."""
    classes = (name for name in dir(nn) if isinstance(getattr(nn, name), type))
    return sorted(
        name for name in classes if issubclass(getattr(nn, name), nn.Module) and name not in HOLDERS
    )


def layer_states(names: Iterable[str] = ()) -> Iterator[LayerState]:
    """The state of the layers of torch.nn with these names, or of all, and then of other layers that are registered."""
    asked, public = list(names), public_layers()
    own = {_name_of(layer): layer for layer in LAYERS if getattr(nn, layer.__name__, None) is not layer}
    for name in asked:
        if name not in public and name not in own:
            raise UsageError(
                "TP0801", f"torch.nn has no layer {name!r}", fix="`torchport marble layers` lists all."
            )
    for name in asked or [*public, *own]:
        yield LayerState(name=name, state="registered") if name in own else _state(name)


def _name_of(layer: type[nn.Module]) -> str:
    return f"{layer.__module__}.{layer.__qualname__}"


def _state(name: str) -> LayerState:
    """The state of a layer of torch.nn."""
    reason = _fault(name)
    log.info("%s: %s", name, reason or "converts")
    if reason is not None:
        return LayerState(name=name, state="not supported", reason=reason)
    return LayerState(name=name, state="registered" if getattr(nn, name) in LAYERS else "converts")


def _fault(name: str) -> str | None:
    """Why the example of a layer does not convert, or None if its graph computes what PyTorch computes."""
    if name not in EXAMPLES:
        return "torchport has no example of it"
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(SEED)
        model, args = EXAMPLES[name]()
        model.eval()
        try:
            with torch.no_grad():
                expected = run_eager(model, args, {})
            core = core_of(model, args)
            found = core.run(*(arg for arg in args if isinstance(arg, torch.Tensor)))
        except TorchportError as error:
            return error.message
        except Exception as error:  # A converter that fails in a way of its own does not convert either.
            return f"{type(error).__name__}: {error}"
    if len(found) != len(expected):
        return f"the graph gives {len(found)} tensors, and PyTorch {len(expected)}"
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "the graph does not compute what PyTorch computes"
    return None
