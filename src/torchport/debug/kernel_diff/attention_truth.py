"""Fused attention by its mathematical definition, for kernels that do not run in float64, such as those for CUDA.

In: the arguments of one of torch's fused kernels, forward or backward. Out: what it returns, in float64, in the order
of its schema; None for what is no number of the model, such as seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload, without_modes

aten = torch.ops.aten
Given = Mapping[str, Any]
"""The arguments of a call by the names that the schema has for them."""


class NoDefinition(Exception):
    """What a kernel returns is not known by its definition, such as that of a dropout by a seed of its own."""


@dataclass(frozen=True)
class _Attention:
    """Queries, keys and values in float64, keys and values once for each head of the queries."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    scale: float
    is_causal: bool

    @classmethod
    def of(cls, given: Given) -> _Attention:
        if given["dropout_p"] != 0.0:
            raise NoDefinition("it drops out elements by a seed of its own")
        query, key, value = (given[name].double() for name in ("query", "key", "value"))
        bias, scale = given.get("attn_bias"), given.get("scale")
        return cls(
            query,
            _for_each_head(query, key),
            _for_each_head(query, value),
            None if bias is None else bias.double(),
            1 / math.sqrt(query.shape[-1]) if scale is None else float(scale),
            bool(given["is_causal"]),
        )

    def scores(self) -> Tensor:
        scores = self.query @ self.key.transpose(-1, -2) * self.scale
        if self.bias is not None:
            scores = scores + self.bias
        if not self.is_causal:
            return scores
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(later, -math.inf)


def _forward(given: Given) -> dict[str, Tensor]:
    """By the name of a result, its value. A row of which everything is masked gives zeros."""
    attention = _Attention.of(given)
    scores = attention.scores()
    logarithms = scores.logsumexp(-1)
    return {"output": _weights(scores, logarithms) @ attention.value, "logsumexp": logarithms}


def _backward(given: Given) -> list[Tensor | None]:
    """The gradients of query, key, value and bias, from the result and the logarithms that the kernel is given."""
    attention = _Attention.of(given)
    scores = attention.scores()
    logarithms = given["logsumexp"].double().reshape(*scores.shape[:-2], -1)[..., : scores.shape[-2]]
    weights = _weights(scores, logarithms)
    gradient = given["grad_out_" if "grad_out_" in given else "grad_out"].double()
    shared = (gradient * given["out"].double()).sum(-1, keepdim=True)
    of_scores = weights * (gradient @ attention.value.transpose(-1, -2) - shared)
    return [
        of_scores @ attention.key * attention.scale,
        _joined(of_scores.transpose(-1, -2) @ attention.query * attention.scale, given["key"]),
        _joined(weights.transpose(-1, -2) @ gradient, given["value"]),
        None if attention.bias is None else of_scores.sum_to_size(attention.bias.shape),
    ]


def _weights(scores: Tensor, logarithms: Tensor) -> Tensor:
    return torch.exp(scores - logarithms.unsqueeze(-1)).masked_fill(scores == -math.inf, 0.0)


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values that several heads share, once for each head."""
    times = query.shape[-3] // shared.shape[-3]
    return shared if times == 1 else shared.repeat_interleave(times, -3)


def _joined(gradient: Tensor, shared: Tensor) -> Tensor:
    """The gradient of keys or values, added up over the heads that share them."""
    *batch, heads, rows, columns = gradient.shape
    groups = shared.shape[-3]
    return gradient.reshape(*batch, groups, heads // groups, rows, columns).sum(-3)


def _results(func: OpOverload, given: Given) -> list[Tensor | None]:
    found = _forward(given)
    logarithms = found.pop("logsumexp")
    if given.get("compute_log_sumexp", True):
        found["logsumexp"] = found["log_sumexp"] = logarithms
    return [found.get(result.name) for result in func._schema.returns]


def _gradients(func: OpOverload, given: Given) -> list[Tensor | None]:
    found = _backward(given)[: len(func._schema.returns)]
    wanted: Sequence[bool] = given.get("grad_input_mask") or [True] * len(found)
    return [one if is_wanted else None for one, is_wanted in zip(found, wanted, strict=True)]


def _promised(func: OpOverload, given: Given) -> Sequence[Any]:
    """What torch's rule for shapes says that the kernel returns; nothing if it has none."""
    on_meta = {name: one.to("meta") if isinstance(one, Tensor) else one for name, one in given.items()}
    try:
        found: Sequence[Any] = func(**on_meta)
    except (RuntimeError, NotImplementedError):
        return ()
    return found


def _laid_out(value: Tensor, like: Tensor) -> Tensor:
    """A value as the kernel lays it out: logarithms of sums may have another axis, and rows that count for nothing.

    Some of torch's rules for shapes do not know that heads may share keys and values: the value then is as it is.
    """
    if value.shape != like.shape:
        missing = like.shape[-1] - value.shape[-1] if like.ndim == value.ndim else 0
        padded = torch.nn.functional.pad(value, (0, max(missing, 0)), value=math.inf)
        if padded.numel() != like.numel():
            return value
        value = padded.reshape(like.shape)
    made = torch.empty_strided(like.shape, like.stride(), dtype=value.dtype, device=value.device)
    return made.copy_(value)


_DEFINITIONS: dict[OpOverload, Callable[[OpOverload, Given], list[Tensor | None]]] = {
    aten._scaled_dot_product_flash_attention.default: _results,
    aten._scaled_dot_product_flash_attention_backward.default: _gradients,
    aten._scaled_dot_product_efficient_attention.default: _results,
    aten._scaled_dot_product_efficient_attention_backward.default: _gradients,
    aten._scaled_dot_product_cudnn_attention.default: _results,
    aten._scaled_dot_product_cudnn_attention_backward.default: _gradients,
    aten._scaled_dot_product_fused_attention_overrideable.default: _results,
    aten._scaled_dot_product_fused_attention_overrideable_backward.default: _gradients,
}
"""The kernels for CUDA and other accelerators; the one for the CPU runs in float64."""


def is_defined(func: object) -> bool:
    return func in _DEFINITIONS


def by_definition(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a kernel for attention returns, in float64; NoDefinition if that is not known."""
    arguments = func._schema.arguments
    given = {one.name: one.default_value for one in arguments if one.has_default_value()}
    given |= {one.name: value for one, value in zip(arguments, args, strict=False)} | dict(kwargs)
    found = _DEFINITIONS[func](func, given)
    with without_modes():
        promised = _promised(func, given)
    pairs = itertools.zip_longest(found, promised)
    return tuple(
        _laid_out(one, like) if one is not None and isinstance(like, Tensor) else one for one, like in pairs
    )
