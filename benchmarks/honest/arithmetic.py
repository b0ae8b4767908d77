"""Coarser arithmetic, emulated: models whose products of matrices are computed as another class of hardware would.

A class is a product of two matrices. Linear layers, convolutions, `matmul` and attention are computed by it, and so are
their gradients. What is not a product stays as it is in eager PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import zoo
from ..faults.models import lively
from . import attention, convolutions
from .patching import Replacement, patched
from .rewriting import Arithmetic, Example, add_patch

Product = Callable[[Tensor, Tensor], Tensor]
"""(…, m, k) times (…, k, n), in float32."""
BLOCK = 8
"""Terms that are summed exactly enough before the sum is rounded to a narrow accumulator."""


def rounded_to_tf32(x: Tensor) -> Tensor:
    """The nearest number with 10 bits of mantissa, ties to even."""
    bits = x.contiguous().view(torch.int32)
    nearest = (bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF
    return torch.where(x.isfinite(), nearest.view(torch.float32), x)


def rounded_to(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda x: x.to(dtype).to(torch.float32)


def flushed(x: Tensor) -> Tensor:
    return torch.where(x.abs() < torch.finfo(torch.float32).tiny, 0.0, x)


def with_operands(rounded: Callable[[Tensor], Tensor]) -> Product:
    """Operands are rounded, their products are exact, sums are float32's."""
    return lambda left, right: rounded(left) @ rounded(right)


def with_sums(dtype: torch.dtype) -> Product:
    """Operands and, after every block of terms, the accumulator are rounded."""
    narrow = rounded_to(dtype)

    def product(left: Tensor, right: Tensor) -> Tensor:
        total = torch.zeros(1)
        for a, b in zip(torch.split(narrow(left), BLOCK, -1), torch.split(narrow(right), BLOCK, -2)):
            total = narrow(total + a @ b)
        return total

    return product


def in_sequence(left: Tensor, right: Tensor) -> Tensor:
    """One term after the other, in float32."""
    total = left[..., :1] * right[..., :1, :]
    for k in range(1, left.shape[-1]):
        total.addcmul_(left[..., k : k + 1], right[..., k : k + 1, :])
    return total


def flushing(left: Tensor, right: Tensor) -> Tensor:
    return flushed(flushed(left) @ flushed(right))


PRODUCTS: dict[Arithmetic, Product] = {
    "float32": in_sequence,
    "tf32": with_operands(rounded_to_tf32),
    "bf16_products": with_operands(rounded_to(torch.bfloat16)),
    "fp16_products": with_operands(rounded_to(torch.float16)),
    "bf16_sums": with_sums(torch.bfloat16),
    "fp16_sums": with_sums(torch.float16),
    "flush_to_zero": flushing,
}
TITLES: dict[Arithmetic, str] = {
    "float32": "arithmetic: float32, one term after the other",
    "tf32": "arithmetic: TF32 products",
    "bf16_products": "arithmetic: bfloat16 products, float32 sums",
    "fp16_products": "arithmetic: float16 products, float32 sums",
    "bf16_sums": "arithmetic: bfloat16 sums",
    "fp16_sums": "arithmetic: float16 sums",
    "flush_to_zero": "arithmetic: subnormal numbers are zero",
}


class _InClass(torch.autograd.Function):
    """A product in a class of arithmetic, whose gradients are products in that class."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, product: Product) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.product = product
        return product(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        left, right = ctx.saved_tensors
        of_left = ctx.product(gradient, right.mT) if ctx.needs_input_grad[0] else None
        of_right = ctx.product(left.mT, gradient) if ctx.needs_input_grad[1] else None
        return of_left, of_right, None


def replacements(product: Product) -> dict[str, Replacement]:
    """Every operation that multiplies matrices, by this product."""

    def times(left: Tensor, right: Tensor) -> Tensor:
        batch = (left[..., 0, 0] + right[..., 0, 0]).shape
        left, right = (part.expand(*batch, *part.shape[-2:]) for part in (left, right))
        result: Tensor = _InClass.apply(left, right, product)
        return result

    def matmul(left: Tensor, right: Tensor) -> Tensor | None:
        is_narrow = left.ndim < 2 or right.ndim < 2 or left.dtype != torch.float32
        return None if is_narrow else times(left, right)

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
        if x.dtype != torch.float32:
            return None
        y = times(x.reshape(-1, x.shape[-1]), weight.T).view(*x.shape[:-1], -1)
        return y if bias is None else y + bias

    def convolve(conv: convolutions.Convolution) -> Tensor:
        columns = nn.functional.unfold(conv.x, conv.kernel, dilation=conv.dilation, stride=conv.stride)
        by_group = conv.by_group(columns).permute(1, 2, 0, 3)
        y = times(conv.grouped_weight.flatten(2), by_group.flatten(2))
        y = y.reshape(*y.shape[:2], len(conv.x), -1).permute(2, 0, 1, 3)
        return y.reshape(len(conv.x), -1, *conv.size)

    def attend(call: attention.Attention) -> Tensor:
        return times(call.masked(times(call.query, call.key.mT) * call.scale).softmax(-1), call.value)

    return {
        "matmul": matmul,
        "linear": linear,
        "scaled_dot_product_attention": attention.replacement(attend),
        **convolutions.replacements(convolve),
    }


for _name, _product in PRODUCTS.items():
    add_patch(TITLES[_name], replacements(_product), _name)


def in_class(model: nn.Module, arithmetic: Arithmetic) -> nn.Module:
    """A copy of the model whose products are computed in the class."""
    return patched(model, replacements(PRODUCTS[arithmetic]))[0]


WIDE = {"hidden_size": 256, "intermediate_size": 512}
"""Heads of 64 and longer sums, so that the classes can be told apart."""


def _bert() -> tuple[nn.Module, tuple[Any, ...]]:
    return zoo._hf("BertModel", **WIDE), (zoo.ids(2, 24),)


def _llama() -> tuple[nn.Module, tuple[Any, ...]]:
    return zoo._hf("LlamaForCausalLM", num_key_value_heads=2, **WIDE), (zoo.ids(2, 24),)


def _resnet18() -> tuple[nn.Module, tuple[Any, ...]]:
    import torchvision

    return torchvision.models.resnet18(weights=None), (torch.randn(2, 3, 64, 64),)


MODELS = {
    name: lively(factory) for name, factory in (("bert", _bert), ("resnet18", _resnet18), ("llama", _llama))
}


def example_of(name: str) -> Example:
    """One of the models that classes are told apart in."""
    model, args, *_ = MODELS[name]()
    return Example(name, model, tuple(args), {})
