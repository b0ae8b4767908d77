"""Faults that any model may have: a layer of torch's own in the place of which stands one that does a little more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ..models import MODELS
from .layer import Fault, Subject

After = Callable[[nn.Module, Tensor], Tensor]


def _zeroed(y: Tensor, axis: int, at: int) -> Tensor:
    kept = torch.ones(y.shape[axis], dtype=y.dtype)
    kept[at] = 0
    return y * kept.reshape([-1 if at == axis % y.ndim else 1 for at in range(y.ndim)])


def _shifted(y: Tensor) -> Tensor:
    return torch.cat([y[:, 1:], torch.zeros_like(y[:, :1])], dim=1)


_AFTER: dict[str, After] = {
    "bias twice": lambda layer, y: y + layer.bias,
    "roll by one": lambda layer, y: y.roll(1, 1),
    "last token zeroed": lambda layer, y: _zeroed(y, 1, -1),
    "one channel zeroed": lambda layer, y: _zeroed(y, -1, 5),
    "scale of 1.0005": lambda layer, y: y * 1.0005,
    "value clipped": lambda layer, y: y.clamp(-0.5, 0.5),
    "reversed": lambda layer, y: y.flip(-1),
    "first token dropped": lambda layer, y: _shifted(y),
}

_AT_THE_END = frozenset({"linear", "add", "roll", "mul", "clamp", "flip", "cat"})
"""The layer's own operation, and those that are done to its result."""


def _then(after: After, path: str, model: nn.Module) -> None:
    """The layer's code does one thing more."""
    layer = model.get_submodule(path)
    forward = layer.forward
    layer.forward = lambda *args: after(layer, forward(*args))


def _twice(path: str, model: nn.Module) -> None:
    layer = model.get_submodule(path)
    forward = layer.forward
    layer.forward = lambda x: forward(forward(x))


def _averaged(path: str, other: str, model: nn.Module) -> None:
    first, second = model.get_parameter(f"{path}.weight"), model.get_parameter(f"{other}.weight")
    first.data = (first.data + second.data) / 2


def _exchanged(path: str, other: str, model: nn.Module) -> None:
    first, second = model.get_parameter(f"{path}.weight"), model.get_parameter(f"{other}.weight")
    first.data, second.data = second.data, first.data


def _subject(
    name: str, linear: str, other: str, activation: str, *, held_out: bool, left_out: tuple[str, ...] = ()
) -> Subject:
    """`other` is a layer as `linear`, with other weights."""
    faults = [
        Fault(kind, linear, _AT_THE_END, partial(_then, after, linear))
        for kind, after in _AFTER.items()
        if kind not in left_out
    ]
    operations = frozenset({"gelu", "silu", "relu"})
    faults.append(Fault("activation twice", activation, operations, partial(_twice, activation)))
    weights = frozenset({"linear"})
    faults.append(Fault("weights averaged", linear, weights, partial(_averaged, linear, other)))
    faults.append(Fault("swapped layers", linear, weights, partial(_exchanged, linear, other)))
    build = MODELS[name]
    return Subject(name, held_out, lambda: build()[0], lambda: build()[1], tuple(faults))


WHOLE_LAYERS = (
    _subject(
        "bert",
        "encoder.layer.0.attention.self.query",
        "encoder.layer.1.attention.self.query",
        "encoder.layer.1.intermediate.intermediate_act_fn",
        held_out=False,
    ),
    _subject(
        "vit",
        "layers.0.attention.q_proj",
        "layers.1.attention.q_proj",
        "layers.0.mlp.activation_fn",
        held_out=True,
    ),
    _subject(
        "llama",
        "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.gate_proj",
        "model.layers.0.mlp.act_fn",
        held_out=True,
        left_out=("bias twice",),
    ),
)
