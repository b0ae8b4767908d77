"""The float64 truth of operations that have no kernel in float64: fused attention, and operations of anybody's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.attention_truth import NoDefinition, by_definition
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.parity.result import Layer
from torchport.runs.report import Report

from .planted import Planted, Rounding

aten: Any = torch.ops.aten
KERNELS = {
    "flash": (
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_flash_attention_backward.default,
    ),
    "efficient": (
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_efficient_attention_backward.default,
    ),
    "cudnn": (
        aten._scaled_dot_product_cudnn_attention.default,
        aten._scaled_dot_product_cudnn_attention_backward.default,
    ),
    "overrideable": (
        aten._scaled_dot_product_fused_attention_overrideable.default,
        aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    ),
}
CASES = [
    (name, heads, bias, is_causal, scale)
    for name in KERNELS
    for heads in (4, 2)
    for bias in (None, "expanded", "each", "masked")
    for is_causal, scale in ((False, None), (True, 0.3))
    if bias is None or name != "flash"
]
ROWS, COLUMNS = 5, 7


def bias_of(kind: str | None, columns: int = COLUMNS) -> Tensor | None:
    if kind is None:
        return None
    if kind == "expanded":
        return torch.randn(1, 1, ROWS, columns).expand(2, 4, ROWS, columns)
    values = torch.randn(2, 4, ROWS, columns)
    return values if kind == "each" else values.masked_fill(torch.rand(values.shape) > 0.7, -math.inf)


def given(heads: int, name: str = "efficient") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A gradient of the result, queries, keys and values, of other sizes each if the kernel takes that."""
    width = 8 if name == "flash" else 6
    sizes = ((2, 4, ROWS, width), (2, 4, ROWS, 8), (2, heads, COLUMNS, 8), (2, heads, COLUMNS, width))
    gradient, query, key, value = (torch.randn(size) for size in sizes)
    return gradient, query, key, value


def call_forward(name: str, *tensors: Tensor, bias: Tensor | None, is_causal: bool) -> tuple[Any, ...]:
    """The arguments of a kernel's forward pass, in the order of its schema."""
    return {
        "flash": (*tensors, 0.0, is_causal, False),
        "efficient": (*tensors, bias, True, 0.0, is_causal),
        "cudnn": (*tensors, bias, True, 0.0, is_causal, False),
        "overrideable": (*tensors, bias, 0.0, is_causal, False),
    }[name]


def call_backward(
    name: str, gradient: Tensor, *tensors: Tensor, bias: Tensor | None, found: Any, is_causal: bool
) -> tuple[Any, ...]:
    """The arguments of a kernel's backward pass, after a forward pass that gave `found`."""
    out, logarithms = found[:2]
    seed, sizes = torch.zeros((), dtype=torch.long), (None, None, ROWS, COLUMNS)
    mask = [True, True, True, bias is not None]
    return {
        "flash": (gradient, *tensors, out, logarithms, *sizes, 0.0, is_causal, seed, seed),
        "efficient": (gradient, *tensors, bias, out, logarithms, seed, seed, 0.0, mask, is_causal),
        "cudnn": (gradient, *tensors, out, logarithms, seed, seed, bias, *sizes, 0.0, is_causal),
        "overrideable": (
            *(gradient, *tensors, bias, mask, out, logarithms),
            *(*sizes, 0.0, is_causal, seed, seed),
        ),
    }[name]


def wide(*values: Tensor | None) -> list[Any]:
    return [None if value is None else value.detach().double().requires_grad_() for value in values]


@pytest.mark.parametrize(("name", "heads", "bias", "is_causal", "scale"), CASES)
def test_attention_by_definition_is_what_torch_defines(
    name: str, heads: int, bias: str | None, is_causal: bool, scale: float | None
) -> None:
    torch.manual_seed(0)
    gradient, *tensors = given(heads, name)
    added = bias_of(bias)
    forward, backward = KERNELS[name]
    args = call_forward(name, *tensors, bias=added, is_causal=is_causal)
    found = by_definition(forward, args, {"scale": scale})
    query, key, value, learned = wide(*tensors, added)
    mask = learned
    if is_causal:
        earlier = torch.ones(ROWS, COLUMNS, dtype=torch.bool).tril()
        mask = (0.0 if learned is None else learned) + torch.zeros(ROWS, COLUMNS).masked_fill(
            ~earlier, -math.inf
        )
    expected, _ = aten._scaled_dot_product_attention_math(
        query, key, value, mask, 0.0, False, scale=scale, enable_gqa=heads != 4
    )
    torch.testing.assert_close(found[0], expected, rtol=1e-12, atol=1e-13)
    args = call_backward(name, gradient, *tensors, bias=added, found=found, is_causal=is_causal)
    gradients = by_definition(backward, args, {"scale": scale})
    wanted = [one for one in (query, key, value, learned) if one is not None]
    for one, by_autograd in zip(
        gradients, torch.autograd.grad(expected, wanted, gradient.double()), strict=False
    ):
        torch.testing.assert_close(one, by_autograd, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_logarithms_are_those_of_the_kernel_for_the_cpu(is_causal: bool) -> None:
    _, query, key, value = (one.double() for one in given(4, "flash"))
    expected = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal)
    found = by_definition(KERNELS["overrideable"][0], (query, key, value), {"is_causal": is_causal})
    for one, other in zip(found[:2], expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_defined_has_the_shapes_that_the_schema_promises(name: str) -> None:
    gradient, query, key, value = given(4, name)
    bias = None if name == "flash" else bias_of("each")
    forward, backward = KERNELS[name]
    args = call_forward(name, query, key, value, bias=bias, is_causal=False)
    found = by_definition(forward, args, {})
    promised = forward(*on_meta(args))
    assert [one.shape for one in found[:2]] == [one.shape for one in promised[:2]]
    assert found[0].stride() == promised[0].stride()
    assert all(one is None for one in found[2:])
    args = call_backward(name, gradient, query, key, value, bias=bias, found=found, is_causal=False)
    gradients = by_definition(backward, args, {})
    try:
        promised = backward(*on_meta(args))
    except NotImplementedError:
        pytest.skip("this torch has no rule for the shapes of these gradients")
    assert [one.shape for one in gradients] == [one.shape for one in promised]
    assert [one.stride() for one in gradients[:3]] == [one.stride() for one in promised[:3]]


def on_meta(args: tuple[Any, ...]) -> list[Any]:
    return [one.to("meta", torch.float16) if isinstance(one, Tensor) else one for one in args]


def test_logarithms_of_padded_rows_are_infinite() -> None:
    _, *tensors = given(4)
    args = call_forward("efficient", *tensors, bias=None, is_causal=False)
    logarithms = by_definition(KERNELS["efficient"][0], args, {})[1]
    assert logarithms.shape == (2, 4, 32)
    assert bool(logarithms[..., :ROWS].isfinite().all()) and bool((logarithms[..., ROWS:] == math.inf).all())


def test_gradients_that_are_not_wanted_are_left_out() -> None:
    gradient, *tensors = given(4)
    bias = bias_of("each")
    found = by_definition(
        KERNELS["efficient"][0], call_forward("efficient", *tensors, bias=bias, is_causal=False), {}
    )
    args = list(call_backward("efficient", gradient, *tensors, bias=bias, found=found, is_causal=False))
    args[10] = [True, False, True, False]
    gradients = by_definition(KERNELS["efficient"][1], args, {})
    assert [one is None for one in gradients] == [False, True, False, True]


def test_a_row_of_which_all_is_masked_gives_zeros() -> None:
    _, *tensors = given(4)
    bias = torch.zeros(2, 4, ROWS, COLUMNS)
    bias[..., 1, :] = -math.inf
    args = call_forward("efficient", *tensors, bias=bias, is_causal=False)
    assert not by_definition(KERNELS["efficient"][0], args, {})[0][..., 1, :].any()


@pytest.mark.parametrize("name", KERNELS)
def test_attention_with_dropout_has_no_definition(name: str) -> None:
    _, *tensors = given(4)
    args = tuple(
        0.5 if isinstance(one, float) else one
        for one in call_forward(name, *tensors, bias=None, is_causal=False)
    )
    with pytest.raises(NoDefinition):
        by_definition(KERNELS[name][0], args, {})


class Heads(nn.Module):
    """Attention by a kernel that runs on the CPU in this file alone, and takes no float64, as on CUDA."""

    def forward(self, x: Tensor) -> Any:
        query, key, value = x.view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        found = aten._scaled_dot_product_efficient_attention(query, key, value, None, True)[0]
        return found.transpose(1, 2).view(2, 8, 16)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.make, self.heads, self.out = nn.Linear(16, 48), Heads(), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.heads(self.make(x)))


def efficient(query: Tensor, key: Tensor, value: Tensor, bias: Any, has_sums: bool, *rest: Any) -> Any:
    assert query.dtype == torch.float32
    out, logarithms = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, attn_mask=bias)
    seed = torch.zeros((), dtype=torch.long)
    padded = nn.functional.pad(logarithms, (0, -logarithms.shape[-1] % 32), value=math.inf)
    return out, padded.contiguous(), seed, seed


def efficient_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Any,
    out: Tensor,
    sums: Tensor,
    *rest: Any,
) -> Any:
    assert query.dtype == torch.float32
    rows = sums[..., : query.shape[2]].contiguous()
    kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return *kernel(gradient.contiguous(), query, key, value, out, rows, 0.0, False), None


def in_other_order(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Any:
    """An honest kernel that goes over the keys from the last to the first."""
    return efficient(query, key.flip(2), value.flip(2), *rest)


def backward_without_shared_part(*args: Any) -> Any:
    args = (*args[:5], torch.zeros_like(args[5]), *args[6:])
    return efficient_backward(*args)


@pytest.fixture(scope="module")
def attention_on_cpu() -> Iterator[None]:
    with torch.library._scoped_library("aten", "IMPL", "CPU") as library:
        library.impl("_scaled_dot_product_efficient_attention", efficient)
        library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward)
        yield


def compared(
    model: nn.Module, x: Tensor, backend: Planted, config: ComparisonConfig | None = None
) -> tuple[Report, dict[str, Layer]]:
    harness = KernelDiffHarness(model, x, model_name="model", test_backend=backend, config=config)
    report = harness.compare().report
    return report, {layer.name: layer for layer in report.layers}


@pytest.mark.usefixtures("attention_on_cpu")
def test_attention_without_float64_is_judged_by_its_definition() -> None:
    torch.manual_seed(0)
    backend = Rounding(KERNELS["efficient"][0], in_other_order)
    report, rows = compared(Attending(), torch.randn(2, 8, 16), backend)
    assert report.status == "pass", report.first_divergence
    assert not any("no float64 truth" in note for note in report.notes)
    for name in ("heads", "backward of heads", "forward graph", "backward graph", "model", "make.weight"):
        assert "by its definition" in (rows[name].rule or "") and rows[name].own.noise is not None  # type: ignore[union-attr]


@pytest.mark.usefixtures("attention_on_cpu")
def test_a_wrong_kernel_for_attention_is_found() -> None:
    torch.manual_seed(0)
    backend = Planted(KERNELS["efficient"][1], backward_without_shared_part)
    report, _ = compared(Attending(), torch.randn(2, 8, 16), backend)
    assert report.first_divergence is not None
    assert "efficient_attention_backward" in report.first_divergence.layer


@torch.library.custom_op("torchport_tests::narrow_tanh", mutates_args=())
def narrow_tanh(x: Tensor) -> Tensor:
    assert x.dtype == torch.float32, "there is no kernel in float64"
    return torch.tanh(x)


@narrow_tanh.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


narrow_tanh.register_autograd(
    lambda ctx, gradient: gradient * (1 - ctx.saved_tensors[0] ** 2),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)


class Narrow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Any:
        return self.down(narrow_tanh(self.up(x)))


class InOtherOrder(Rounding):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(aten.addmm.default, lambda bias, a, b: (bias + a.flip(1) @ b.flip(0)) * factor)


def test_what_holds_an_operation_without_float64_is_still_judged_by_float64() -> None:
    torch.manual_seed(0)
    report, rows = compared(Narrow(), torch.randn(32, 16), InOtherOrder())
    assert report.status == "pass", report.first_divergence
    graph, alone = rows["forward graph"], rows["forward graph/narrow_tanh"]
    assert graph.own is not None and graph.own.noise is not None
    assert "torchport_tests.narrow_tanh.default in its own dtype" in (graph.rule or "")
    assert "no float64 truth" in (alone.rule or "")


def test_a_small_fault_is_not_hidden_by_an_operation_without_float64() -> None:
    """A fault that the tolerances of assert_close let through, in the graph that is left alone only."""

    class Alone(InOtherOrder):
        def compile(self, module: torch.fx.GraphModule, inputs: Any) -> Any:
            right = super().compile(module, inputs)
            observed = len(module.graph.output_node().args[0]) > 1  # type: ignore[arg-type]
            return right if observed else lambda *given: [one * (1 + 1e-6) for one in right(*given)]

    torch.manual_seed(0)
    model, x = Narrow(), torch.randn(32, 16)
    with torch.no_grad():
        assert torch.allclose(model(x), model(x) * (1 + 1e-6), rtol=1.3e-6, atol=1e-5)
    _, rows = compared(model, x, Alone(), ComparisonConfig(gradients=False))
    assert not rows["forward graph"].passed
