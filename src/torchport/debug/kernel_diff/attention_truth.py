"""Fused attention by its mathematical definition, for kernels that do not run in float64, such as those for CUDA.

In: the arguments of one of torch's fused kernels, forward or backward. Out: what it returns, in float64, in the order
of its schema; None for what is no number of the model, such as seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload

aten = torch.ops.aten
_PADDED_TO = 32
"""Rows to a multiple of which the logarithms of CUDA's efficient kernel are padded, with infinity."""
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


def _results(func: OpOverload, given: Given) -> tuple[Any, ...]:
    found = _forward(given)
    found["output"] = _in_order_of(given["query"], found["output"], func)
    logarithms = found.pop("logsumexp")
    if given.get("compute_log_sumexp", True):
        found["logsumexp"] = found["log_sumexp"] = _LOGARITHMS.get(func, _as_they_are)(logarithms)
    return tuple(found.get(result.name) for result in func._schema.returns)


def _gradients(func: OpOverload, given: Given) -> tuple[Any, ...]:
    made = zip(_backward(given), (*(given[name] for name in ("query", "key", "value")), None), strict=True)
    found = [one if like is None or one is None else _in_order_of(like, one, func) for one, like in made]
    found = found[: len(func._schema.returns)]
    wanted: Sequence[bool] = given.get("grad_input_mask") or [True] * len(found)
    return tuple(one if is_wanted else None for one, is_wanted in zip(found, wanted, strict=True))


def _in_order_of(like: Tensor, value: Tensor, func: OpOverload) -> Tensor:
    """A value whose axes lie in memory in the order in which the kernel lays them: that of the operand, mostly."""
    order = sorted(range(value.ndim), key=like.stride, reverse=True)
    if func.overloadpacket in _ROWS_BEFORE_HEADS:
        order = [0, 2, 1, 3]
    back = sorted(range(value.ndim), key=order.__getitem__)
    return value.permute(order).contiguous().permute(back)


def _as_they_are(logarithms: Tensor) -> Tensor:
    return logarithms


def _padded(logarithms: Tensor) -> Tensor:
    if torch.version.hip:
        return logarithms
    missing = -logarithms.shape[-1] % _PADDED_TO
    return torch.nn.functional.pad(logarithms, (0, missing), value=math.inf)


def _in_a_column(logarithms: Tensor) -> Tensor:
    return logarithms.unsqueeze(-1)


_ROWS_BEFORE_HEADS = (
    aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_efficient_attention_backward,
)
_LOGARITHMS: dict[OpOverload, Callable[[Tensor], Tensor]] = {
    aten._scaled_dot_product_efficient_attention.default: _padded,
    aten._scaled_dot_product_cudnn_attention.default: _in_a_column,
}
"""How a kernel lays out the logarithms of its sums if that is not `[batch, heads, rows]`."""
_DEFINITIONS: dict[OpOverload, Callable[[OpOverload, Given], tuple[Any, ...]]] = {
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
    given |= {one.name: value for one, value in zip(arguments, args, strict=False)}
    return _DEFINITIONS[func](func, {**given, **kwargs})
