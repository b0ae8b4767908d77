"""An emulated class computes what it says: near the truth as its digits allow, and term after term where it must."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchport.arithmetic.classes import CLASSES, EAGER, FLOAT32, find_arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.arithmetic.sums import product, total
from torchport.errors import UsageError

DIGITS = {"float32": 2.0**-24, "tf32": 2.0**-11, "fp16_products": 2.0**-11, "bf16_products": 2.0**-8}


def attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


def masked_attention(x: Tensor) -> Tensor:
    mask = torch.zeros(x.shape[-2], x.shape[-2], dtype=x.dtype)
    mask[:, -3:] = -1e4
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask, scale=0.3)


def shared_heads(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "linear": (nn.Linear(96, 32), (8, 96)),
    "linear without bias": (nn.Linear(96, 32, bias=False), (8, 96)),
    "bmm": (lambda x: x @ x.transpose(-1, -2), (3, 8, 96)),
    "mv": (lambda x: x @ x[0], (8, 96)),
    "conv2d": (nn.Conv2d(16, 8, 3, stride=2, padding=1), (2, 16, 9, 7)),
    "conv2d, dilated and grouped": (
        nn.Conv2d(16, 8, (3, 2), padding=(2, 1), dilation=2, groups=4),
        (2, 16, 9, 7),
    ),
    "conv1d": (nn.Conv1d(16, 8, 5, padding=3, bias=False), (2, 16, 20)),
    "conv3d": (nn.Conv3d(8, 4, 3, padding=1), (2, 8, 5, 4, 6)),
    "transposed": (nn.ConvTranspose2d(16, 8, 3, stride=2, output_padding=1), (2, 16, 5, 4)),
    "layer norm": (nn.LayerNorm((6, 32)), (4, 6, 32)),
    "group norm": (nn.GroupNorm(4, 16), (2, 16, 5, 5)),
    "batch norm": (nn.BatchNorm2d(16), (4, 16, 5, 5)),
    "rms norm": (nn.RMSNorm(64, eps=1e-6), (8, 64)),
    "softmax": (lambda x: x.softmax(-1), (8, 64)),
    "log softmax": (lambda x: x.log_softmax(0), (64, 8)),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), (8, 64)),
    "mean": (lambda x: x.mean((1, -1), keepdim=True), (4, 16, 8)),
    "sum of all": (lambda x: x.sum(), (8, 64)),
    "variance": (lambda x: x.var(-1, correction=0), (8, 64)),
    "deviation": (lambda x: x.std(), (8, 64)),
    "pool": (nn.AdaptiveAvgPool2d(1), (2, 8, 9, 9)),
    "attention": (attention, (2, 2, 12, 16)),
    "attention with shared heads": (shared_heads, (2, 4, 12, 16)),
    "masked attention": (masked_attention, (2, 2, 12, 16)),
}


def apart(first: Tensor, second: Tensor) -> float:
    return float((first.double() - second.double()).norm() / second.double().norm())


def in_double(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return (copy.deepcopy(function).double() if isinstance(function, nn.Module) else function)(x.double())


@pytest.mark.parametrize("arithmetic", CLASSES, ids=lambda one: one.name)
@pytest.mark.parametrize("case", CASES)
def test_values_are_as_far_from_the_truth_as_the_digits_allow(case: str, arithmetic: object) -> None:
    function, shape = CASES[case]
    x = torch.randn(shape)
    with torch.no_grad(), Emulated(arithmetic):  # type: ignore[arg-type]
        found = function(x)
    limit = 64 * DIGITS.get(
        arithmetic.name, 2.0**-24 if arithmetic.name in ("eager", "flush_to_zero", "transforms") else 2.0**-8
    )  # type: ignore[attr-defined]
    assert found.dtype == torch.float32 and apart(found, in_double(function, x)) < limit


@pytest.mark.parametrize("name", ["float32", "transforms"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "masked attention"])
def test_gradients_too(case: str, name: str) -> None:
    function, shape = CASES[case]
    x, seed = torch.randn(shape), torch.Generator().manual_seed(1)

    def gradient(given: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        leaf = given.detach().clone().requires_grad_()
        result = run(leaf)
        weights = torch.randn(result.shape, generator=seed.manual_seed(1)).to(result)
        (found,) = torch.autograd.grad((result * weights).sum(), leaf)
        return found

    with Emulated(find_arithmetic(name)):
        found = gradient(x, function)
    truth = gradient(
        x.double(), copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    )
    assert apart(found, truth) < 1e-4


@pytest.mark.parametrize("name", ["float32", "transforms"])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 6, 3, padding=1),
        nn.Conv2d(8, 6, (3, 2), stride=(2, 3), padding=(2, 0), dilation=(1, 2), groups=2),
        nn.Conv1d(8, 6, 4, stride=3),
        nn.Conv3d(8, 6, 2, padding=1, stride=2),
    ],
    ids=["conv2d", "conv2d with everything", "conv1d", "conv3d"],
)
def test_weights_and_biases_have_gradients_too(layer: nn.Module, name: str) -> None:
    x = torch.randn(2, 8, *[11] * (layer.weight.ndim - 2))  # type: ignore[operator, union-attr]
    with Emulated(find_arithmetic(name)):
        found = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    double = copy.deepcopy(layer).double()
    truth = torch.autograd.grad(double(x.double()).square().sum(), list(double.parameters()))
    assert all(apart(one, other) < 1e-5 for one, other in zip(found, truth, strict=True))


def test_sums_in_any_order_of_float32_are_those_of_a_plain_loop() -> None:
    a, b = torch.randn(3, 500), torch.randn(500, 4)
    for row in range(3):
        for column in range(4):
            running = np.float32(0)
            for term in (a[row] * b[:, column]).numpy():
                running = np.float32(running + term)
            assert abs(float(product(a, b, FLOAT32)[row, column]) - float(running)) < 1e-5
    values = torch.rand(10_000)
    running = np.float32(0)
    for term in values.numpy():
        running = np.float32(running + term)
    assert float(total(values, [0], FLOAT32)) == float(running)


def test_sums_in_bfloat16_stop_growing() -> None:
    ones = torch.ones(1000)
    assert float(total(ones, [0], find_arithmetic("bf16_sums"))) == 256.0
    assert float(total(ones, [0], find_arithmetic("fp16_sums"))) == 1000.0


def test_tf32_rounds_to_ten_bits_ties_to_even() -> None:
    given = torch.tensor(
        [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-10, -1 - 2.0**-11 - 2.0**-20, torch.inf, torch.nan]
    )
    operands = find_arithmetic("tf32").operands
    assert operands is not None
    wanted = torch.tensor([1.0, 1 + 2.0**-9, 1 + 2.0**-10, -1 - 2.0**-10, torch.inf, torch.nan])
    assert torch.equal(operands(given).nan_to_num(7.0), wanted.nan_to_num(7.0))


def test_flush_to_zero_loses_tiny_numbers_only() -> None:
    tiny = torch.tensor([1e-39, -1e-40, 2e-38, 1.0])
    with Emulated(find_arithmetic("flush_to_zero")):
        assert (tiny * 1).tolist() == pytest.approx([0.0, 0.0, 2e-38, 1.0])


def test_operands_and_results_of_every_operation_have_the_digits_of_a_narrow_sum() -> None:
    x = torch.randn(64)
    with Emulated(find_arithmetic("bf16_sums")):
        written, given = torch.relu(x).add_(1.0), x.exp()
    assert torch.equal(written, (torch.relu(x).bfloat16().float() + 1).bfloat16().float())
    assert torch.equal(given, x.bfloat16().float().exp().bfloat16().float())


def test_float64_and_integers_are_left_alone() -> None:
    wide = torch.randn(8, 8, dtype=torch.float64)
    with Emulated(find_arithmetic("bf16_sums")):
        assert torch.equal(wide @ wide, wide.clone() @ wide)
        assert int(torch.arange(5).sum()) == 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_keep_their_dtype(dtype: torch.dtype) -> None:
    layer, x = nn.Linear(64, 8).to(dtype), torch.randn(4, 64, dtype=dtype)
    with torch.no_grad(), Emulated(FLOAT32):
        assert layer(x).dtype == dtype and apart(layer(x), in_double(layer, x)) < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_empty_tensors(shape: tuple[int, int]) -> None:
    empty = torch.zeros(shape)
    for one in CLASSES:
        with Emulated(one):
            assert (empty @ empty.t()).shape == (shape[0], shape[0])
            assert float(empty.sum()) == 0.0 and empty.sum(0).shape == (shape[1],)


def test_a_class_of_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no arithmetic 'tf33'"):
        find_arithmetic("tf33")
    assert find_arithmetic("eager") == EAGER


def test_transforms_leave_an_error_where_eager_has_exact_zeros() -> None:
    layer, x = nn.Conv2d(4, 4, 3, bias=False), torch.zeros(1, 4, 16, 16)
    x[..., :4, :4] = torch.randn(4, 4, 4)
    with torch.no_grad(), Emulated(find_arithmetic("transforms")):
        found = layer(x)
    assert 1e-9 < float(found[..., 8:, 8:].abs().max()) < 1e-5


def test_operands_of_sums_in_bfloat16_are_rounded_in_every_operation() -> None:
    a, b = torch.tensor([1.0 + 2**-10]), torch.tensor([-1.0])
    with Emulated(find_arithmetic("bf16_sums")):
        assert float(a + b) == 0.0 and float(a.clone().add_(b)) == 0.0


@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod])
def test_running_sums_and_products_are_those_of_a_float32_loop(function: Callable[..., Tensor]) -> None:
    values = torch.rand(3, 500) + 0.6
    with Emulated(FLOAT32):
        found = function(values, 1)
    numpy = np.cumsum if function is torch.cumsum else np.cumprod
    assert torch.equal(found, torch.from_numpy(numpy(values.numpy(), 1, dtype=np.float32)))
    with Emulated(FLOAT32):
        assert function(torch.zeros(3, 0), 1).shape == (3, 0) and float(function(torch.tensor(2.0), 0)) == 2.0


def test_erf_is_as_coarse_as_that_of_vectorised_kernels() -> None:
    x = torch.linspace(-4, 4, 4001)
    with Emulated(find_arithmetic("float32")):
        coarse = torch.erf(x)
    with Emulated(find_arithmetic("tf32")):
        assert torch.equal(torch.erf(x), x.erf())
    error = (coarse.double() - x.double().erf()).abs()
    assert 1e-7 < float(error.max()) < 1e-6


@pytest.mark.parametrize("name", ["float32", "tf32", "bf16_sums"])
def test_results_have_the_strides_of_the_operation(name: str) -> None:
    """Heads are joined by a view, which is only right if attention lays out its result as PyTorch's does."""
    heads = torch.randn(2, 5, 3, 8).transpose(1, 2)
    image = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    weight = torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last)

    def strides() -> list[tuple[int, ...]]:
        attended = functional.scaled_dot_product_attention(heads, heads, heads)
        attended.transpose(1, 2).view(2, 5, 24)
        return [attended.stride(), functional.conv2d(image, weight).stride()]

    expected = strides()
    with Emulated(find_arithmetic(name)):
        assert strides() == expected
