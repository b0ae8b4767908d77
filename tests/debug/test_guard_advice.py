"""Advice is given for the common breaks and recompilations, it cures them if taken, and nothing else gets any."""

from __future__ import annotations

import logging
import re
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from torchport.debug.guards import GuardInspector, GuardReport, Place, advice
from torchport.debug.guards.model import Reason

from . import guard_subjects as subjects

LOGGER = logging.getLogger("torchport.tests.guards")
FACTOR = 2
ELEMENTS = torch.rand(2, 3) + 0.1


@torch.compiler.disable
def disabled(x: Tensor) -> Tensor:
    return x + 1


def prints(x: Tensor) -> Tensor:
    print("x")
    return x + 1


def warns(x: Tensor) -> Tensor:
    warnings.warn("x", stacklevel=2)
    return x + 1


def logs(x: Tensor) -> Tensor:
    LOGGER.info("x")
    return x + 1


def item(x: Tensor) -> Tensor:
    return x * x.max().item()


def as_int(x: Tensor) -> Tensor:
    return x * int(x.sum())


def to_list(x: Tensor) -> Tensor:
    return x + len(x.tolist())


def while_loop(x: Tensor) -> Tensor:
    while x.sum() < 10:
        x = x + 1
    return x


def masked(x: Tensor) -> Tensor:
    return x[x > 0.5] + 1


def numpy_save(x: Tensor) -> Tensor:
    np.array_repr(x.numpy())
    return x + 1


def asked_for(x: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return x + 1


def calls_disabled(x: Tensor) -> Tensor:
    return disabled(x)


def clock(x: Tensor) -> Tensor:
    return x + time.perf_counter_ns()


def opens(x: Tensor) -> Tensor:
    open("/dev/null").close()
    return x + 1


LOCK = threading.Lock()


def locks(x: Tensor) -> Tensor:
    with LOCK:
        return x + 1


def backward(x: Tensor) -> Tensor:
    y = (x * 2).sum()
    y.backward()
    return y


def makes_leaf(x: Tensor) -> Tensor:
    return x * torch.ones(3, requires_grad=True)


BREAKS: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (prints, "Remove the print"),
    (warns, "Warn before"),
    (logs, "Log outside"),
    (item, "capture_scalar_outputs = True"),
    (as_int, "capture_scalar_outputs = True"),
    (to_list, "`tolist()`"),
    (subjects.branch, "torch.where"),
    (while_loop, "torch.while_loop"),
    (masked, "aten.nonzero.default"),
    (numpy_save, "numpy's array_repr"),
    (asked_for, "remove torch._dynamo.graph_break()"),
    (calls_disabled, "torch.compiler.disable"),
    (clock, "time.perf_counter_ns"),
    (opens, "Python's open()"),
    (locks, "Dynamo cannot enter"),
    (backward, "Call backward() outside"),
    (makes_leaf, "Create the tensor outside"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "expected"), BREAKS, ids=[one.__name__ for one, _ in BREAKS])
def test_a_common_break_has_advice(function: Callable[[Tensor], Tensor], expected: str) -> None:
    value = ELEMENTS.clone().requires_grad_(function is backward)
    found = [one.advice or "" for one in GuardInspector().inspect(function, value).breaks]
    assert found and expected in found[0]


def test_a_break_in_a_loop_says_that_nothing_of_the_function_is_compiled() -> None:
    (found,) = GuardInspector().inspect(subjects.break_in_a_loop, ELEMENTS).breaks
    assert found.advice is not None and found.advice.startswith("Remove the print")
    assert found.advice.endswith("the whole function runs uncompiled.")


def quiet_prints(x: Tensor) -> Tensor:
    if not torch.compiler.is_compiling():
        print("x")
    return x + 1


def quiet_logs(x: Tensor) -> Tensor:
    if not torch.compiler.is_compiling():
        LOGGER.info("x")
    return x + 1


def chooses(x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x + 1, x - 1)


def masked_with_where(x: Tensor) -> Tensor:
    return torch.where(x > 0.5, x, 0) + 1


@pytest.mark.parametrize("function", [quiet_prints, quiet_logs, chooses, masked_with_where])
def test_advice_on_the_code_cures_the_break(function: Callable[[Tensor], Tensor]) -> None:
    report = GuardInspector().inspect(function, ELEMENTS)
    assert len(report.graphs) == 1 and not report.breaks


@pytest.mark.parametrize(
    ("function", "setting", "value"),
    [
        (item, "capture_scalar_outputs", True),
        (as_int, "capture_scalar_outputs", True),
        (masked, "capture_dynamic_output_shape_ops", True),
        (prints, "reorderable_logging_functions", {print}),
    ],
    ids=["item", "int", "mask", "print"],
)
def test_advice_on_settings_cures_the_break(
    function: Callable[[Tensor], Tensor], setting: str, value: object
) -> None:
    with torch._dynamo.config.patch({setting: value}):
        report = GuardInspector().inspect(function, ELEMENTS)
    assert len(report.graphs) == 1 and not report.breaks


def once(x: Tensor) -> Tensor:
    return x + 1


def added(values: list[Tensor]) -> Tensor:
    return torch.stack(values).sum(0)


def summed(values: dict[str, Tensor]) -> Tensor:
    return torch.stack(list(values.values())).sum(0)


def applied(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return function(x)


def pair(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def or_none(x: Tensor, flag: bool | None) -> Tensor:
    return x + 1 if flag else x - 1


class Holder:
    def __init__(self, value: float) -> None:
        self.value = value


class Other(Holder):
    pass


def held(x: Tensor, holder: Holder) -> Tensor:
    return x * holder.value


def marked(x: Tensor) -> Tensor:
    x = x.clone()
    torch._dynamo.mark_dynamic(x, 0)
    return x


RECOMPILATIONS: list[tuple[str, Callable[..., Any], list[tuple[Any, ...]], str]] = [
    ("size", once, [(torch.rand(2, 3),), (torch.rand(4, 3),)], "mark_dynamic(x, 0)"),
    ("size 1", once, [(torch.rand(2, 3),), (torch.rand(1, 3),)], "sizes 0 and 1"),
    ("rank", once, [(torch.rand(2, 3),), (torch.rand(2, 3, 4),)], "number of axes"),
    ("dtype", once, [(torch.rand(2),), (torch.rand(2).double(),)], "was Float and now is Double"),
    ("device", once, [(torch.rand(2),), (torch.rand(2, device="meta"),)], "was on CPU and now is on Meta"),
    ("stride", once, [(torch.rand(3, 3),), (torch.rand(3, 3).t(),)], "`.contiguous()`"),
    ("requires_grad", once, [(torch.rand(2),), (torch.rand(2).requires_grad_(),)], "detach"),
    ("type of tensor", once, [(torch.rand(2),), (torch.nn.Parameter(torch.rand(2)),)], "torch.nn.parameter.Parameter"),
    ("int", subjects.scaled, [(ELEMENTS, 2), (ELEMENTS, 3)], "The int `factor`"),
    ("float", subjects.scaled, [(ELEMENTS, 2.5), (ELEMENTS, 3.5)], "The float `factor`"),
    ("bool", or_none, [(ELEMENTS, True), (ELEMENTS, False)], "each value of `flag`"),
    ("string", subjects.by_name, [(ELEMENTS, "a"), (ELEMENTS, "b")], "each value of `name`"),
    ("length", added, [([ELEMENTS] * 2,), ([ELEMENTS] * 3,)], "each length of `values`"),
    ("entries", summed, [({"a": ELEMENTS},), ({"a": ELEMENTS, "b": ELEMENTS},)], "each length of `values`"),
    ("keys", summed, [({"a": ELEMENTS},), ({"b": ELEMENTS},)], "The keys of `values`"),
    ("function", applied, [(ELEMENTS, lambda x: x + 1), (ELEMENTS, lambda x: x + 2)], "Another function"),
    ("operation", applied, [(ELEMENTS, torch.sin), (ELEMENTS, torch.cos)], "Another function"),
    ("alias", pair, [(ELEMENTS, ELEMENTS.clone()), (ELEMENTS, ELEMENTS)], "same tensor"),
    ("attribute", held, [(ELEMENTS, Holder(1.5)), (ELEMENTS, Holder(2.5))], "The attribute `holder.value`"),
    ("type", held, [(ELEMENTS, Holder(1.5)), (ELEMENTS, Other(1.5))], "no longer is a "),
    ("condition", subjects.by_size, [(torch.rand(n, 3),) for n in (2, 3, 7)], "asks something of a size"),
    ("marked", once, [(ELEMENTS,), (marked(ELEMENTS),)], "mark them before"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "calls", "expected"),
    [row[1:] for row in RECOMPILATIONS],
    ids=[row[0] for row in RECOMPILATIONS],
)
def test_a_common_recompilation_has_advice(
    function: Callable[..., Any], calls: list[tuple[Any, ...]], expected: str
) -> None:
    report = GuardInspector().inspect_calls(function, calls)
    assert expected in (report.recompilations[-1].advice or "")


def test_advice_is_given_for_each_graph_that_did_not_fit_if_it_differs() -> None:
    given = [(torch.ones(4),), (torch.ones(4, dtype=torch.float64),), (torch.ones(5),)]
    report = GuardInspector().inspect_calls(once, given)
    (_, last) = report.recompilations
    newest, oldest = last.failed_guards
    assert last.advice is not None
    of_dtype, of_size = last.advice.removeprefix(f"For {newest.graph}: ").split(f" For {oldest.graph}: ")
    assert "cast it before the call" in of_dtype and "mark_dynamic(x, 0)" in of_size


def test_the_same_advice_for_several_graphs_is_given_once() -> None:
    first, last = GuardInspector().inspect_calls(added, [([ELEMENTS] * n,) for n in (2, 3, 4)]).recompilations
    assert len(first.failed_guards) == 1 and len(last.failed_guards) == 2
    assert first.advice == last.advice is not None


def compiled_twice(function: Any, change: Callable[[], object], *args: Any) -> GuardReport:
    """What a change between two equal calls leads to."""
    compiled = torch.compile(function, backend="eager")
    with GuardInspector().watch() as watch:
        compiled(*args)
        change()
        compiled(*args)
    return watch.report()


def uses_global(x: Tensor) -> Tensor:
    return x * FACTOR


def set_global() -> None:
    global FACTOR
    FACTOR += 1


MODEL_CHANGES: dict[str, tuple[Callable[[subjects.Straight], object], str]] = {
    "training": (lambda model: model.eval(), "train() or eval()"),
    "int attribute": (lambda model: setattr(model, "times", 5), "allow_unspec_int_on_nn_module"),
    "float attribute": (lambda model: setattr(model, "rate", 1.5), "The attribute `self.rate`"),
}


@pytest.mark.parametrize(("change", "expected"), MODEL_CHANGES.values(), ids=MODEL_CHANGES)
def test_a_change_of_a_module_has_advice(
    change: Callable[[subjects.Straight], object], expected: str
) -> None:
    model = subjects.Straight()
    report = compiled_twice(model, lambda: change(model), ELEMENTS)
    (found,) = report.recompilations
    assert expected in (found.advice or "")


def test_a_module_that_is_added_has_advice() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    report = compiled_twice(model, lambda: model.append(torch.nn.Linear(3, 3)), ELEMENTS)
    (found,) = report.recompilations
    assert "A module was added" in (found.advice or "")


def test_a_global_that_changes_has_advice() -> None:
    (found,) = compiled_twice(uses_global, set_global, ELEMENTS).recompilations
    assert found.reason.startswith("G['FACTOR'] == ") and "The global `FACTOR`" in (found.advice or "")


STATES: dict[str, tuple[Callable[[], Any], str]] = {
    "grad mode": (torch.no_grad, "with gradients and without"),
    "inference mode": (torch.inference_mode, "with gradients and without"),
    "autocast": (lambda: torch.autocast("cpu"), "with autocast"),
}


@pytest.mark.parametrize(("state", "expected"), STATES.values(), ids=STATES)
def test_another_state_of_torch_has_advice(state: Callable[[], Any], expected: str) -> None:
    compiled = torch.compile(once, backend="eager")
    with GuardInspector().watch() as watch:
        compiled(ELEMENTS)
        with state():
            compiled(ELEMENTS)
    (found,) = watch.report().recompilations
    assert expected in (found.advice or "")


@pytest.mark.parametrize("name", ["int", "size"])
def test_dynamic_from_the_start_cures_a_recompilation(name: str) -> None:
    (function, calls) = next(row[1:3] for row in RECOMPILATIONS if row[0] == name)
    report = GuardInspector(dynamic=True).inspect_calls(function, calls)
    assert not report.recompilations


def test_a_number_as_a_tensor_cures_a_recompilation() -> None:
    calls = [(ELEMENTS, torch.tensor(2.5)), (ELEMENTS, torch.tensor(3.5))]
    assert not GuardInspector().inspect_calls(subjects.scaled, calls).recompilations


def test_an_axis_that_is_marked_cures_a_recompilation() -> None:
    calls = [(marked(torch.rand(2, 3)),), (marked(torch.rand(4, 3)),)]
    assert not GuardInspector().inspect_calls(once, calls).recompilations


def test_no_axis_can_be_marked_of_a_tensor_inside_the_function() -> None:
    report = GuardInspector().inspect_calls(subjects.two_breaks, [(torch.rand(2, 3),), (torch.rand(4, 3),)])
    texts = [one.advice or "" for one in report.recompilations]
    assert "mark_dynamic" in texts[0] and not any("mark_dynamic" in text for text in texts[1:])
    assert all("dynamic=True" in text for text in texts)


@pytest.mark.parametrize(
    "words",
    [
        "something new that failed",
        "___check_obj_id(e, 139649403574736), type=<class 'tests.Colour'>",
        "tensor 'self._modules['l']._parameters['weight']' size mismatch at index 0. expected 3, actual 4",
        "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, A), actual DispatchKeySet(CPU, B)",
    ],
)
def test_a_recompilation_that_is_not_known_has_no_advice(words: str) -> None:
    assert advice.for_recompilation(words, is_whole_function=True) is None


def test_the_user_s_code_in_a_reason_gets_no_advice() -> None:
    words = "x.y[3] == 3  # if len(x) == 3: n == 2  # a.py:3 in f"
    assert advice.for_recompilation(words, is_whole_function=True) is None


@pytest.mark.parametrize(
    "reason",
    [
        Reason(title="Something new", explanation="that nobody knows"),
        Reason(title="Observed exception", explanation="Dynamo found no exception handler"),
        Reason(title="Unsupported method call", explanation="Dynamo does not know `print_all`"),
    ],
)
def test_a_break_that_is_not_known_has_no_advice(reason: Reason) -> None:
    assert advice.for_break(reason, Place(file="a.py", line=1, code="print(x)")) is None


def test_every_row_can_be_filled_in() -> None:
    for row in (*advice.BREAKS, *advice.RECOMPILATIONS):
        named = set(re.compile(row.pattern).groupindex)
        row.text.format(**dict.fromkeys(named, "x"))


@pytest.mark.skipif(
    torch.__version__ < "2.12", reason="this torch compiles nothing anew for a frozen parameter"
)
def test_a_parameter_that_is_frozen_after_the_first_call_is_named() -> None:
    layer = torch.nn.Linear(3, 3)
    compiled = torch.compile(layer, backend="eager")
    with GuardInspector().watch() as watch:
        compiled(torch.rand(2, 3))
        layer.requires_grad_(False)
        compiled(torch.rand(2, 3))
    (found,) = watch.report().recompilations
    assert found.advice is not None and "before the first call" in found.advice
    assert "`weight`" in found.advice or "`bias`" in found.advice
