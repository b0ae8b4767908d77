"""Runs a case eagerly, in float64 and with a backend, and says which outputs or gradients are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import pytree
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.failure import Measure, Mismatch
from torchport.parity.judge import judge

Run = Callable[..., Any]
_WIDENED = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Results:
    """What a run gives, by name: outputs, then inputs that were written to; and gradients, if any were asked for."""

    values: dict[str, Any]
    gradients: dict[str, Tensor | None]


def results_of(run: Run, case: GraphCase, *, backward: bool) -> Results:
    """Runs a function on copies of the inputs. Gradients are those of a sum of the outputs with uneven weights."""
    leaves = case.fresh_inputs()
    given = [_writable(value) for value in leaves] if case.writes else leaves
    with _state_kept():
        torch.manual_seed(0)
        outputs = pytree.tree_leaves(run(*given))
        gradients = _gradients(outputs, case.names, leaves) if backward else {}
    values = {f"output {index}": value for index, value in enumerate(outputs)}
    written = {
        f"input {name}": after
        for name, before, after in zip(case.names, case.inputs, given, strict=True)
        if isinstance(before, Tensor) and not _is_same(before, after)
    }
    return Results({**values, **written}, gradients)


def wide_case(case: GraphCase) -> GraphCase:
    """The case in float64: its inputs, its attributes, and the dtypes that are named in it."""
    module = case.fresh_module().double()
    for node in module.graph.nodes:
        node.args, node.kwargs = _widened(node.args), _widened(node.kwargs)
    module.recompile()
    return GraphCase(module, tuple(_wide(value) for value in case.inputs))


def names_a_dtype(case: GraphCase) -> bool:
    """Whether the graph itself says that something is float32 or narrower."""
    return any(
        node.args != _widened(node.args) or node.kwargs != _widened(node.kwargs)
        for node in case.module.graph.nodes
    )


def mismatches(
    eager: dict[str, Any], truth: dict[str, Any] | None, found: dict[str, Any]
) -> Iterator[Mismatch]:
    """The values that are wrong; a truth that is not known is left out of account.

    What eager PyTorch does not have is wrong, too: another output, an input that it does not write to.
    """
    for name, golden in eager.items():
        exact = None if truth is None else truth.get(name)
        wrong = _mismatch(name, golden, exact, found.get(name))
        if wrong is not None:
            yield wrong
    for name in found.keys() - eager.keys():
        yield Mismatch(name, "exact", math.inf, 0.0, math.inf)


def _mismatch(name: str, golden: Any, truth: Any, value: Any) -> Mismatch | None:
    if not isinstance(golden, Tensor):
        is_equal = type(golden) is type(value) and (golden == value or (golden != golden and value != value))
        return None if is_equal else Mismatch(name, "exact", math.inf, 0.0, math.inf)
    if value is None:
        return Mismatch(name, "missing", math.inf, 0.0, math.inf)
    if not isinstance(value, Tensor) or value.shape != golden.shape:
        return Mismatch(name, "shape", math.inf, 0.0, math.inf)
    if value.dtype != golden.dtype:
        return Mismatch(name, "dtype", math.inf, 0.0, math.inf)
    golden, value = golden.detach().cpu(), value.detach().cpu()
    exact = truth.detach().cpu() if isinstance(truth, Tensor) and truth.shape == golden.shape else None
    _, verdict = judge(golden, value, exact)
    if verdict.passed:
        return None
    if not golden.dtype.is_floating_point and not golden.dtype.is_complex:
        return Mismatch(name, "exact", 1.0, 0.0, math.inf)
    if bool((golden.isfinite() != value.isfinite()).any()):
        return Mismatch(name, "not finite", math.inf, 0.0, math.inf)
    return _measured(name, golden, golden if exact is None else exact, value, verdict.ratio)


def _measured(name: str, golden: Tensor, reference: Tensor, value: Tensor, ratio: float) -> Mismatch:
    """The error by the measure that sets it apart from eager PyTorch's the most."""

    def errors(other: Tensor) -> dict[Measure, float]:
        wide = torch.complex128 if other.is_complex() else torch.float64
        both = reference.isfinite() & other.isfinite()
        exact = reference.to(wide)[both]
        away = (other.to(wide)[both] - exact).abs()
        if bool((away[exact == 0] != 0).any()):
            return {"absolute": _largest(away)}
        return {"absolute": _largest(away), "relative": _largest((away / exact.abs())[exact != 0])}

    own, noise = errors(value), errors(golden)
    measure = max(
        (one for one in own if one in noise),
        key=lambda one: own[one] / max(noise[one], 1e-30) if own[one] else 0.0,
    )
    return Mismatch(name, measure, own[measure], noise[measure], ratio)


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _gradients(
    outputs: Sequence[Any], names: Sequence[str], given: Sequence[Any]
) -> dict[str, Tensor | None]:
    """The gradient of each input that asks for one."""
    wanted = {n: v for n, v in zip(names, given, strict=True) if isinstance(v, Tensor) and v.requires_grad}
    terms = [weighted(one).sum() for one in outputs if isinstance(one, Tensor) and one.requires_grad]
    if not wanted or not terms:
        return {}
    found = torch.autograd.grad(sum(terms[1:], terms[0]), list(wanted.values()), allow_unused=True)
    return dict(zip(wanted, found, strict=True))


def weighted(output: Tensor) -> Tensor:
    """An output with weights that are not all alike, or the gradient of a softmax would be zero whatever it is."""
    weights = torch.linspace(0.5, 1.5, output.numel(), device=output.device, dtype=torch.float64)
    return output * weights.reshape(output.shape).to(output.dtype)


def _writable(value: Any) -> Any:
    """An input that may be written to, which autograd forbids for a tensor that asks for its gradient itself."""
    return value.clone() if isinstance(value, Tensor) and value.requires_grad else value


def _is_same(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and torch.equal(
        before.detach().nan_to_num() if before.is_floating_point() else before.detach(),
        after.detach().nan_to_num() if after.is_floating_point() else after.detach(),
    )


def _widened(value: Any) -> Any:
    return torch.fx.node.map_aggregate(
        value, lambda item: torch.float64 if isinstance(item, torch.dtype) and item in _WIDENED else item
    )


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype in _WIDENED:
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


@contextmanager
def _state_kept() -> Iterator[None]:
    """Within, a graph may turn gradients off: afterwards they are as before."""
    before = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(before)
