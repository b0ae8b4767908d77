"""A class of arithmetic while PyTorch code runs: sums and products are computed as that class does.

In: a class. Out: a mode; within it, operations that add up terms are replaced. Operations that are made of others, such
as a normalisation, are taken apart first. What is in no table runs as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic import attention, reductions
from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.convolutions import (
    Convolution,
    bias_gradient,
    convolve,
    input_gradient,
    weight_gradient,
)
from torchport.arithmetic.permitted import permitted
from torchport.arithmetic.sums import product
from torchport.capture.torch_internals import (
    FakeTensorMode,
    OpOverload,
    TorchDispatchMode,
    decompositions,
    pytree,
)

aten = torch.ops.aten
_TAKEN_APART = (
    aten.native_layer_norm_backward,
    aten.native_group_norm_backward,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_no_training,
    aten.native_batch_norm,
    aten.native_batch_norm_backward,
    aten._softmax,
    aten._softmax_backward_data,
    aten._log_softmax,
    aten._log_softmax_backward_data,
    aten.logsumexp,
    aten.linalg_vector_norm,
    aten._adaptive_avg_pool2d,
    aten._fused_rms_norm,
    aten._fused_rms_norm_backward,
)
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""The coefficients of a polynomial, from the highest power down."""
_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_WIDE = (torch.float64, torch.complex128)
Handler = Callable[..., Any]


class Emulated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within, float32 and narrower floats are added up as `arithmetic` does."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arithmetic = arithmetic
        self.is_on = True
        """Whether operations are emulated just now."""
        self.faking = FakeTensorMode()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if not self.is_on or self.arithmetic.is_eager:
            return func(*args, **given)
        if self.arithmetic.wide is not None and _is_emulated(args, given, _WIDE):
            return self._with_results(func, args, given, self.arithmetic.wide)
        if not _is_emulated(args, given, _NARROW):
            return func(*args, **given)
        if (change := self.arithmetic.every_value) is not None:
            if (parts := _PARTS.get(func)) is not None:
                with self:
                    return parts(*args, **given)
            return _rounded(func, args, given, change)
        if (change := self.arithmetic.results) is None:
            return self._computed(func, args, given)
        return self._with_results(func, args, given, change)

    def _with_results(
        self,
        func: OpOverload,
        args: tuple[Any, ...],
        given: dict[str, Any],
        change: Callable[[Tensor], Tensor],
    ) -> Any:
        """What an operation gives if its operands and results are rounded."""
        if func._schema.is_mutable:
            return _written(self._computed(func, _rounded_in_place(func, args, change), given), args, change)
        if _gives_views(func):
            return self._computed(func, args, given)
        args, given = _each_float((args, given), change)
        return _each_float(self._computed(func, args, given), change)

    def _computed(self, func: OpOverload, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        if (handler := _HANDLERS.get(func)) is not None:
            found = handler(permitted(self.arithmetic, func, _device(args)), *args, **given)
            return self._laid_out(found, func, args, given)
        if (parts := _PARTS.get(func)) is not None:
            with self:
                return parts(*args, **given)
        return func(*args, **given)

    def _laid_out(self, found: Any, func: OpOverload, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """What was found, in the strides that the operation itself gives, because views of it depend on them."""
        with self.faking:
            fake, named = _each_tensor((args, given), _shaped_like)
            expected = pytree.tree_leaves(func(*fake, **named))
        leaves, form = pytree.tree_flatten(found)
        return pytree.tree_unflatten([_restrided(*pair) for pair in zip(leaves, expected, strict=True)], form)


def _shaped_like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _restrided(found: Any, expected: Any) -> Any:
    if not isinstance(found, Tensor) or found.stride() == expected.stride():
        return found
    made = torch.empty_strided(found.shape, expected.stride(), dtype=found.dtype, device=found.device)
    return made.copy_(found)


def _device(args: tuple[Any, ...]) -> torch.device:
    return next(leaf.device for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor))


def _each_tensor(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def _is_emulated(args: tuple[Any, ...], kwargs: Mapping[str, Any], emulated: Collection[torch.dtype]) -> bool:
    """Whether all numbers are floats of these dtypes, and are there to be computed with."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    floats = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
    return bool(floats) and all(tensor.dtype in emulated and not tensor.is_meta for tensor in floats)


def _rounded(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], change: Callable[[Tensor], Tensor]
) -> Any:
    if func._schema.is_mutable or _gives_views(func):
        return func(*args, **kwargs)
    changed = _each_float((args, dict(kwargs)), change)
    return _results(func, func(*changed[0], **changed[1]), change)


def _results(func: OpOverload, result: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What an operation returns, each number changed; views and what was written to stay as they are."""
    return result if _gives_views(func) else _each_float(result, change)


def _rounded_in_place(
    func: OpOverload, args: tuple[Any, ...], change: Callable[[Tensor], Tensor]
) -> tuple[Any, ...]:
    """The operands of an operation that writes to its first one, each number changed, in the first where it is."""
    first = func._schema.arguments[0].alias_info
    if first is None or not first.is_write or not isinstance(args[0], Tensor):
        return args
    if args[0].is_floating_point():
        args[0].copy_(change(args[0]))
    return (args[0], *_each_float(args[1:], change))


def _written(result: Any, args: tuple[Any, ...], change: Callable[[Tensor], Tensor]) -> Any:
    """What an operation has written to its first operand, each number changed there."""
    if args and result is args[0] and isinstance(result, Tensor) and result.is_floating_point():
        result.copy_(change(result))
    return result


def _gives_views(func: OpOverload) -> bool:
    return any(returned.alias_info is not None for returned in func._schema.returns)


def _each_float(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return _each_tensor(tree, lambda tensor: change(tensor) if tensor.is_floating_point() else tensor)


def _mm(arithmetic: Arithmetic, first: Tensor, second: Tensor) -> Tensor:
    return product(first.float(), second.float(), arithmetic).to(first.dtype)


def _addmm(
    arithmetic: Arithmetic, bias: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    start = None if beta == 0 else beta * bias.float()
    if alpha == 1:
        return product(first.float(), second.float(), arithmetic, start).to(first.dtype)
    summed = alpha * product(first.float(), second.float(), arithmetic)
    return (summed if start is None else summed + start).to(first.dtype)


def _mv(arithmetic: Arithmetic, matrix: Tensor, vector: Tensor) -> Tensor:
    return _mm(arithmetic, matrix, vector.unsqueeze(-1)).squeeze(-1)


def _dot(arithmetic: Arithmetic, first: Tensor, second: Tensor) -> Tensor:
    return _mm(arithmetic, first.unsqueeze(0), second.unsqueeze(-1)).reshape(())


def _exp(arithmetic: Arithmetic, values: Tensor) -> Tensor:
    """By a power of two, as kernels do: for large arguments, their rounding is that of the result."""
    if arithmetic.running_sum is None:
        return values.exp()
    return torch.exp2(values.float() * math.log2(math.e)).to(values.dtype)


def _erf(arithmetic: Arithmetic, values: Tensor) -> Tensor:
    """By a polynomial (Abramowitz and Stegun 7.1.26), as vectorised kernels do, and eager PyTorch's own gelu."""
    if arithmetic.running_sum is None:
        return values.erf()
    wide = values.float()
    t = 1.0 / (1.0 + 0.3275911 * wide.abs())
    polynomial = t * _ERF[0]
    for coefficient in _ERF[1:]:
        polynomial = t * (polynomial + coefficient)
    return (wide.sign() * (1.0 - polynomial * torch.exp(-wide * wide))).to(values.dtype)


def _convolution(
    arithmetic: Arithmetic, given: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any
) -> Tensor:
    start = None if bias is None else bias.float().reshape(-1, *[1] * (given.ndim - 2))
    return convolve(given.float(), weight.float(), Convolution(*rest), arithmetic, start).to(given.dtype)


def _convolution_backward(
    arithmetic: Arithmetic,
    gradient: Tensor,
    given: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    *rest: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    *how, mask = rest
    convolution = Convolution(*how)
    eager = aten.convolution_backward.default(gradient, given, weight, bias_sizes, *how, mask)
    found = list(eager)
    if mask[0]:
        numbers = gradient.float(), given.float(), weight.float()
        of_input = input_gradient(*numbers, convolution, arithmetic)
        found[0] = eager[0] if of_input is None else of_input.to(given.dtype)
    if mask[1] and convolution.is_flat:
        numbers = gradient.float(), given.float(), weight.float()
        found[1] = weight_gradient(*numbers, convolution, arithmetic).to(weight.dtype)
    if mask[2] and bias_sizes is not None:
        found[2] = bias_gradient(gradient.float(), arithmetic).to(gradient.dtype)
    return found[0], found[1], found[2]


_HANDLERS: dict[OpOverload, Handler] = {
    aten.mm.default: _mm,
    aten.bmm.default: _mm,
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _addmm,
    aten.mv.default: _mv,
    aten.dot.default: _dot,
    aten.sum.default: reductions.summed,
    aten.sum.dim_IntList: reductions.summed,
    aten.mean.default: reductions.mean_of,
    aten.mean.dim: reductions.mean_of,
    aten.var.correction: reductions.var,
    aten.var_mean.correction: reductions.var_mean,
    aten.std.correction: reductions.std,
    aten.native_layer_norm.default: reductions.layer_norm,
    aten.native_group_norm.default: reductions.group_norm,
    aten.cumsum.default: reductions.running_sum,
    aten.cumprod.default: reductions.running_product,
    aten.exp.default: _exp,
    aten.erf.default: _erf,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention.forward,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention.backward,
}
_PARTS = decompositions(_TAKEN_APART)
