"""Runs of the user's own are watched, on all threads, and nothing about them changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

from torchport.debug.guards import GuardInspector
from torchport.debug.internals import dynamo, dynamo_hooks, dynamo_state, needs

from . import guard_subjects as subjects
from .guard_subjects import line

HOOKED = (*dynamo_hooks.NEEDS, dynamo._SKIPS, *(need for need, _ in dynamo._SKIPS_BEFORE_2_14))


def x(*shape: int) -> torch.Tensor:
    return torch.rand(shape or (2, 3)) + 0.1


def hooked() -> dict[str, Any]:
    """Everything of Dynamo's that is wrapped while somebody watches, as it is now."""
    found = {need.attribute: dynamo._find(need) for need in HOOKED}
    return {name: place[2] for name, place in found.items() if place is not None}


@pytest.fixture(autouse=True)
def _hooks_are_put_back() -> Iterator[None]:
    before = hooked()
    yield
    assert hooked() == before and not dynamo_hooks.observers and not dynamo._installed


@pytest.fixture
def inspector() -> GuardInspector:
    return GuardInspector()


class Counting:
    """A backend that counts the graphs it gets."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        self.graphs.append(module)
        return module.forward


def test_a_run_with_its_own_backend_is_told_and_not_changed(inspector: GuardInspector) -> None:
    backend = Counting()
    compiled = torch.compile(subjects.two_breaks, backend=backend)
    values = [x(2, 3), x(4, 3)]
    with inspector.watch() as watch:
        watched = [compiled(value) for value in values]
    report = watch.report()
    assert (len(report.graphs), len(report.breaks), len(report.recompilations)) == (6, 2, 3)
    assert len(backend.graphs) == 6 and {one.backend for one in report.graphs} == {"Counting"}
    assert [one.operations for one in report.graphs] == [
        sum(node.op.startswith("call_") for node in graph.graph.nodes) for graph in backend.graphs
    ]
    for value, result in zip(values, watched):
        assert torch.equal(result, subjects.two_breaks(value))
    assert report.subject == "run" and report.calls is None


def test_watching_does_not_compile_more_than_a_run_alone(inspector: GuardInspector) -> None:
    def graphs(is_watched: bool) -> list[str]:
        torch._dynamo.reset()
        backend = Counting()
        compiled = torch.compile(subjects.Outer(), backend=backend)
        if is_watched:
            with inspector.watch():
                compiled(x(2, 3)), compiled(x(4, 3))
        else:
            compiled(x(2, 3)), compiled(x(4, 3))
        return [str(one.graph) for one in backend.graphs]

    assert graphs(is_watched=True) == graphs(is_watched=False)


def test_a_report_can_be_had_during_the_run(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.one_graph, backend="eager")
    with inspector.watch() as watch:
        assert not watch.report().compilations
        compiled(x(2, 3))
        assert len(watch.report().graphs) == 1
        compiled(x(4, 3))
    assert len(watch.report().graphs) == 2
    compiled(x(4, 4))
    assert len(watch.report().graphs) == 2


def test_an_error_of_the_run_goes_on_and_the_report_stays(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.wrong_shapes, backend="eager")
    with pytest.raises(RuntimeError, match="reduction dim|multiplied"), inspector.watch() as watch:
        compiled(x())
    (failure,) = watch.report().failures
    assert str(failure.place) == line("wrong shapes")


def test_an_error_that_torch_suppresses_is_a_skip(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.one_graph, backend=subjects.refuse)
    with torch._dynamo.config.patch(suppress_errors=True), inspector.watch() as watch:
        compiled(x())
    report = watch.report()
    assert not report.failures and [one.function.function for one in report.skipped] == ["one_graph"]
    assert (
        "this backend compiles nothing" in report.breaks[0].reason.explanation + report.breaks[0].reason.title
    )


def test_a_watch_inside_a_watch(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.one_graph, backend="eager")
    with inspector.watch() as outer:
        compiled(x(2, 3))
        with inspector.watch() as inner:
            compiled(x(2, 3).double())
        compiled(x(3))
    assert len(outer.report().graphs) == 3 and len(inner.report().graphs) == 1


def test_an_inspection_inside_a_watch_is_told_to_both(inspector: GuardInspector) -> None:
    with inspector.watch() as watch:
        inspected = inspector.inspect(subjects.two_breaks, x())
    assert len(inspected.graphs) == len(watch.report().graphs) == 3


def test_two_threads_that_compile_are_told_apart(inspector: GuardInspector) -> None:
    functions = [subjects.two_breaks, subjects.branch, subjects.calls_twice]
    compiled = [torch.compile(one, backend="eager") for one in functions]
    start = threading.Barrier(len(functions))

    def run(function: Any) -> None:
        start.wait()
        for rows in (2, 4):
            function(x(rows, 3))

    with inspector.watch() as watch:
        threads = [threading.Thread(target=run, args=(one,)) for one in compiled]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    report = watch.report()
    by_thread: dict[int, set[str]] = {}
    for one in report.graphs:
        by_thread.setdefault(one.thread, set()).add(one.function.function)
    named = sorted(by_thread.values(), key=sorted)
    assert named == [{"branch"}, {"calls_twice", "print_within"}, {"two_breaks"}]
    lines = {line("first break"), line("second break"), line("branch"), line("break within")}
    assert {str(one.place) for one in report.breaks} == lines
    assert not report.failures and not report.notes


def test_inspections_on_two_threads_do_not_mix(inspector: GuardInspector) -> None:
    reports: dict[str, Any] = {}
    start = threading.Barrier(2)

    def run(function: Any) -> None:
        start.wait()
        reports[function.__name__] = inspector.inspect_calls(function, [(x(2, 3),), (x(4, 3),)])

    threads = [threading.Thread(target=run, args=(one,)) for one in (subjects.two_breaks, subjects.one_graph)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(reports["two_breaks"].graphs), len(reports["two_breaks"].recompilations)) == (6, 3)
    assert (len(reports["one_graph"].graphs), len(reports["one_graph"].recompilations)) == (2, 1)
    assert {one.function.function for one in reports["one_graph"].compilations} == {"one_graph"}


def test_an_inspection_leaves_the_user_s_compiled_function_alone(inspector: GuardInspector) -> None:
    backend = Counting()
    compiled = torch.compile(subjects.two_breaks, backend=backend)
    compiled(x(2, 3))
    code = subjects.two_breaks.__code__
    before = [str(one.compile_id) for one in _debug_get_cache_entry_list(code)]
    report = inspector.inspect_calls(subjects.two_breaks, [(x(2, 3),), (x(4, 3),)])
    assert len(report.recompilations) == 3 and not report.notes
    assert [str(one.compile_id) for one in _debug_get_cache_entry_list(code)] == before
    compiled(x(2, 3))
    assert len(backend.graphs) == 3
    # What the inspection saw of sizes is forgotten: the user's own function has seen one size only.
    compiled(x(5, 3))
    sizes = [
        node.meta["example_value"].shape for node in backend.graphs[0].graph.nodes if node.op == "placeholder"
    ]
    assert len(backend.graphs) == 6 and list(sizes[0]) == [2, 3]


def test_an_inspection_knows_nothing_of_sizes_that_the_user_s_function_saw(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.one_graph, backend="eager")
    compiled(x(2, 3)), compiled(x(4, 3))
    (graph,) = inspector.inspect(subjects.one_graph, x(6, 3)).graphs
    assert any("size=[6, 3]" in code for guard in graph.guards for code in guard.code)


def test_an_inspection_leaves_nothing_in_a_module_that_was_not_compiled(inspector: GuardInspector) -> None:
    inspector.inspect(subjects.Outer(), x())
    for code in (subjects.Outer.forward.__code__, subjects.Inner.forward.__code__):
        assert not dynamo_state.has_entries(code)


def test_a_module_that_the_user_compiled_keeps_its_graphs_and_that_is_noted(
    inspector: GuardInspector,
) -> None:
    model, backend = subjects.Straight(), Counting()
    compiled = torch.compile(model, backend=backend)
    compiled(x(2, 3))
    report = inspector.inspect_calls(model, [(x(2, 3),), (x(4, 3),)])
    assert len(report.graphs) == 2 and len(report.recompilations) == 1
    assert [failed.graph for failed in report.recompilations[0].failed_guards] == [
        report.graphs[0].compile_id
    ]
    (note,) = report.notes
    assert "Straight.forward was compiled before" in note
    compiled(x(2, 3))
    assert len(backend.graphs) == 1


def test_a_function_that_an_inspection_gives_up_is_still_compiled_for_the_user(
    inspector: GuardInspector,
) -> None:
    class Sometimes(torch.nn.Module):
        def forward(self, value: torch.Tensor, again: bool) -> torch.Tensor:
            for number in range(2):
                value = value + number
                if again:
                    print("again")
            return value

    model, backend = Sometimes(), Counting()
    compiled = torch.compile(model, backend=backend)
    compiled(x(2, 3), False)
    report = inspector.inspect(model, x(2, 3), True)
    assert [one.function.function.split(".")[-1] for one in report.skipped] == ["forward"]
    compiled(x(2, 3).double(), False)
    assert len(backend.graphs) == 2


def test_a_compiled_function_is_run_as_it_is_with_the_graphs_it_has(inspector: GuardInspector) -> None:
    backend = Counting()
    compiled = torch.compile(subjects.two_breaks, backend=backend)
    compiled(x(2, 3))
    report = inspector.inspect(compiled, x(4, 3))
    assert [one.was_there for one in report.graphs] == [True] * 3 + [False] * 3
    assert len(backend.graphs) == 6 and len(report.recompilations) == 3
    assert report.graphs[0].function.function == "two_breaks" and report.subject == "two_breaks"
    assert report.recompilations[0].failed_guards[0].graph == report.graphs[0].compile_id
    assert any("run as it is" in note for note in report.notes)
    again = inspector.inspect(compiled, x(4, 3))
    assert len(backend.graphs) == 6 and all(one.was_there for one in again.graphs) and len(again.graphs) == 6


@pytest.mark.parametrize("in_place", [False, True])
def test_the_graphs_of_a_compiled_module_are_read_without_running_it(
    inspector: GuardInspector, in_place: bool
) -> None:
    model = subjects.Straight()
    if in_place:
        model.compile(backend="eager")
        compiled: Any = model
    else:
        compiled = torch.compile(model, backend="eager")
    compiled(x(2, 3)), compiled(x(4, 3))
    report = inspector.compiled(compiled)
    assert len(report.graphs) == 2 and all(one.was_there for one in report.graphs)
    first, second = report.graphs
    weight = "L['self']._modules['linear']._parameters['weight']"
    for graph in (first, second):
        assert any(guard.source == weight and guard.kind == "TENSOR_MATCH" for guard in graph.guards)
    assert [guard.code for guard in second.guards if guard.kind == "SHAPE_ENV"] == [
        ("2 <= L['x'].size()[0]",)
    ]
    assert not [guard for guard in first.guards if guard.kind == "SHAPE_ENV"]


def test_the_resume_functions_of_a_compiled_function_are_listed_with_it(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.two_breaks, backend="eager")
    compiled(x())
    report = inspector.compiled(compiled)
    assert {one.function.function for one in report.graphs} == {"two_breaks"}
    at = [int(line(name).rpartition(":")[2]) for name in ("first break", "second break")]
    assert [one.resumes_at for one in report.graphs] == [None, *at]


def test_a_watch_lists_what_a_function_has_already(inspector: GuardInspector) -> None:
    compiled = torch.compile(subjects.one_graph, backend="eager")
    compiled(x(2, 3))
    with inspector.watch(compiled) as watch:
        compiled(x(4, 3))
    assert [one.was_there for one in watch.report().graphs] == [True, False]


def test_a_function_compiled_for_two_backends_is_told(inspector: GuardInspector) -> None:
    first, second = Counting(), Counting()
    with inspector.watch() as watch:
        torch.compile(subjects.one_graph, backend=first)(x())
        torch.compile(subjects.one_graph, backend=second)(x())
    (recompilation,) = watch.report().recompilations
    assert recompilation.reason.startswith("BACKEND_MATCH") and "same backend" in (recompilation.advice or "")


def test_a_graph_that_cannot_be_read_is_noted_and_the_run_goes_on(
    inspector: GuardInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a new kind of guard")

    monkeypatch.setattr("torchport.debug.internals.dynamo_guards.checked", broken)
    report = inspector.inspect(subjects.one_graph, x())
    assert len(report.graphs) == 1
    assert report.notes == (
        "something that Dynamo reported could not be read: TypeError: a new kind of guard",
    )
    kinds = [guard.kind for guard in report.graphs[0].guards]
    assert "TENSOR_MATCH" in kinds  # From what Dynamo exports.


def test_a_torch_without_a_private_part_is_noted(
    inspector: GuardInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = needs.Need("breaks", dynamo_hooks.TRACER, "InstructionTranslatorBase.gone", "guards: breaks")
    others = tuple(need for need in dynamo_hooks.NEEDS if need.name != "breaks")
    monkeypatch.setattr(dynamo_hooks, "NEEDS", (*others, gone))
    report = inspector.inspect(subjects.two_breaks, x())
    assert len(report.graphs) == 3
    assert "InstructionTranslatorBase.gone" in report.notes[0]
    # Where a graph breaks is still known from its end.
    assert [str(one.place) for one in report.breaks] == [line("first break"), line("second break")]


def test_nothing_that_is_needed_is_missing_here() -> None:
    assert dynamo.not_observed() == []


def test_an_interrupted_compilation_is_a_failure_and_goes_on_to_the_user(inspector: GuardInspector) -> None:
    def interrupted(module: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    compiled = torch.compile(subjects.one_graph, backend=interrupted)
    with pytest.raises(KeyboardInterrupt), inspector.watch() as watch:
        compiled(x())
    (failure,) = watch.report().failures
    assert failure.error == "KeyboardInterrupt"


def test_a_compilation_that_is_called_in_a_new_way_is_noted_and_not_disturbed(
    inspector: GuardInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise KeyError("compile_id")

    monkeypatch.setattr(dynamo_hooks, "_begun", unreadable)
    backend = Counting()
    with inspector.watch() as watch:
        torch.compile(subjects.two_breaks, backend=backend)(x())
    assert len(backend.graphs) == 3
    report = watch.report()
    assert not report.compilations and "could not be read: KeyError" in report.notes[0]


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "nested_graph_breaks"), reason="this torch has no such setting"
)
def test_breaks_are_the_same_lines_if_callers_are_not_split(inspector: GuardInspector) -> None:
    with torch._dynamo.config.patch(nested_graph_breaks=True):
        nested = inspector.inspect(subjects.two_deep, x())
    split = inspector.inspect(subjects.two_deep, x())
    assert [str(one.place) for one in nested.breaks] == [str(one.place) for one in split.breaks]
    assert [str(one) for one in nested.breaks[0].callers] == [str(one) for one in split.breaks[0].callers]
    assert len(nested.graphs) < len(split.graphs)
