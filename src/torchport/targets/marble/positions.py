"""Positional encodings: a model in which an embedding also adds what tells a token its place.

In: a model and what to add. Out: a copy of the model, to be captured, converted and compared like any other. All other
weights keep their names, so that checkpoints still fit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torchport.capture.eager import run_eager
from torchport.capture.state import as_it_was
from torchport.errors import ConvertError
from torchport.targets.marble.config import PositionalEncoding

BASE = 10_000.0
SPREAD = 0.02
"""The standard deviation of a learned encoding before it is trained."""
PARAMETER = "positions"


def sinusoidal(length: int, width: int) -> Tensor:
    """sin(p / 10000^(2i / width)) at 2i and the cosine of the same at 2i + 1, for each place p, in float64."""
    places = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angles = places / BASE ** (even / width)
    encoding = torch.empty(length, width, dtype=torch.float64)
    encoding[:, 0::2] = angles.sin()
    encoding[:, 1::2] = angles.cos()[:, : width // 2]
    return encoding


def learned(length: int, width: int, seed: int) -> Tensor:
    """Random numbers of the normal distribution, the same for the same seed."""
    return torch.randn(length, width, generator=torch.Generator().manual_seed(seed)) * SPREAD


class PositionedEmbedding(nn.Embedding):
    """An embedding that adds an encoding of the place along the last axis of the ids."""

    positions: Tensor

    @classmethod
    def of(cls, embedding: nn.Embedding, positions: Tensor, *, is_trained: bool) -> PositionedEmbedding:
        """The same embedding, with its weight and its options."""
        made = cls.__new__(cls)
        made.__dict__ = embedding.__dict__
        table = positions.to(embedding.weight)
        if is_trained:
            made.register_parameter(PARAMETER, nn.Parameter(table))
        else:
            made.register_buffer(PARAMETER, table, persistent=False)
        return made

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.positions[: input.shape[-1]]


def with_positions(
    model: nn.Module,
    encoding: PositionalEncoding,
    example_inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A copy of the model whose embedding adds the encoding."""
    name = _embedding_of(model, encoding.layer)
    longest = _longest_ids(model, name, example_inputs, kwargs or {})
    length = encoding.max_length or longest
    if longest > length:
        raise ConvertError(
            "TP0405",
            f"the example inputs have {longest} tokens, and the positional encoding has {length} places",
            where=name,
            fix=f"Set positional_encoding.max_length to {longest} or more.",
        )
    changed = copy.deepcopy(model)
    embedding = changed.get_submodule(name)
    assert isinstance(embedding, nn.Embedding)
    is_trained = encoding.kind == "learned"
    width = embedding.embedding_dim
    table = learned(length, width, encoding.seed) if is_trained else sinusoidal(length, width)
    return _replaced(changed, embedding, PositionedEmbedding.of(embedding, table, is_trained=is_trained))


def _embedding_of(model: nn.Module, layer: str | None) -> str:
    """The path of the embedding that is meant."""
    found = [name for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    if layer is None and len(found) == 1:
        layer = found[0]
    if layer is None:
        several = f"has {len(found)} embeddings: {', '.join(found)}" if found else "has no nn.Embedding"
        fix = "Name one: positional_encoding.layer in the configuration." if found else "Leave it out."
        raise ConvertError("TP0405", f"the model {several}, so a positional encoding fits nowhere", fix=fix)
    module = dict(model.named_modules(remove_duplicate=False)).get(layer)
    if module is None or type(module) is not nn.Embedding:
        what = (
            "is not there" if module is None else f"is a {type(module).__name__}, and no plain nn.Embedding"
        )
        known = ", ".join(found) or "none"
        raise ConvertError("TP0405", f"the layer {layer!r} {what}", fix=f"Embeddings are: {known}.")
    return layer


def _longest_ids(model: nn.Module, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """The most tokens that the embedding is given for the example inputs."""
    lengths: list[int] = []

    def note(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Tensor) -> None:
        ids = given[0] if given else named["input"]
        lengths.append(ids.shape[-1] if ids.ndim else 0)

    hook = model.get_submodule(name).register_forward_hook(note, with_kwargs=True)
    try:
        with as_it_was(model), torch.no_grad():
            run_eager(model, args, kwargs)
    finally:
        hook.remove()
    if not lengths or not min(lengths):
        what = "is given a single id, which has no place" if lengths else "is not called"
        raise ConvertError("TP0405", f"for the example inputs, the embedding {name} {what}")
    return max(lengths)


def _replaced(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """The model with another module wherever it has this one."""
    if model is old:
        return new
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is old:
                parent._modules[name] = new
    return model
