"""What torch.compile made of a function is told exactly: graphs, breaks, guards, recompilations, skips and failures."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from torchport.debug.guards import Call, GraphBreak, GuardInspector, GuardReport

from . import guard_subjects as subjects
from .guard_subjects import line


@pytest.fixture
def inspector() -> GuardInspector:
    return GuardInspector()


def x(*shape: int) -> torch.Tensor:
    return torch.rand(shape or (2, 3)) + 0.1


def places(report: GuardReport) -> list[str]:
    return [str(one.place) for one in report.breaks]


def only(report: GuardReport) -> GraphBreak:
    (found,) = report.breaks
    return found


@pytest.fixture(scope="module")
def report() -> GuardReport:
    """Of the function with two breaks, called with three sizes."""
    return GuardInspector().inspect_calls(subjects.two_breaks, [(x(2, 3),), (x(4, 3),), (x(5, 3),)])


class TestTwoBreaksAndThreeRecompilations:
    def test_the_counts(self, report: GuardReport) -> None:
        assert (len(report.graphs), len(report.breaks), len(report.recompilations)) == (6, 2, 3)
        assert not report.failures and not report.skipped and not report.limits and not report.notes

    def test_breaks_have_line_code_reason_and_graphs(self, report: GuardReport) -> None:
        assert places(report) == [line("first break"), line("second break")]
        assert [one.place.code for one in report.breaks] == [
            'print("first")  # first break',
            'print("second")  # second break',
        ]
        for one in report.breaks:
            assert one.reason.title == "Failed to trace builtin operator"
            assert "`print`" in one.reason.explanation and one.effect == "splits the graph"
            assert one.advice is not None and "print" in one.advice
        (frame, again), (rest, rest_again) = (one.compile_ids for one in report.breaks)
        assert frame.split("/")[0] == again.split("/")[0] != rest.split("/")[0] == rest_again.split("/")[0]

    def test_recompilations_have_reason_and_the_graph_that_did_not_fit(self, report: GuardReport) -> None:
        for one in report.recompilations:
            assert one.reason == "tensor 'x' size mismatch at index 0. expected 2, actual 4"
            (failed,) = one.failed_guards
            number = one.compile_id.split("/")[0]
            assert (failed.graph, one.compile_id) == (f"{number}/0", f"{number}/1")
            assert one.call == 1
        causes = [str(one.failed_guards[0].cause) for one in report.recompilations]
        assert causes == [line("first part"), line("second part"), line("third part")]

    def test_graphs_have_operations_lines_times_and_their_function(self, report: GuardReport) -> None:
        parts = [line("first part"), line("second part"), line("third part")]
        assert [one.lines for one in report.graphs] == [(part,) for part in parts * 2]
        assert all(one.operations == 1 and one.backend == "eager" for one in report.graphs)
        assert all(
            one.seconds and one.backend_seconds is not None and one.seconds >= one.backend_seconds
            for one in report.graphs
        )
        assert {str(one.function) for one in report.graphs} == {line("two_breaks")}
        assert {one.function.function for one in report.graphs} == {"two_breaks"}
        at = [int(line(name).rpartition(":")[2]) for name in ("first break", "second break")]
        assert [one.resumes_at for one in report.graphs] == [None, *at] * 2
        assert [one.call for one in report.graphs] == [0, 0, 0, 1, 1, 1]

    def test_each_graph_has_its_own_guards(self, report: GuardReport) -> None:
        for one, part in zip(report.graphs, ["first part", "second part", "third part"] * 2):
            (tensor,) = [guard for guard in one.guards if guard.kind == "TENSOR_MATCH"]
            assert tensor.source == "L['x']" and str(tensor.cause) == line(part)
            size = "[2, 3]" if one.call == 0 else "[None, 3]"
            assert any(f"size={size}" in code for code in tensor.code)
            shapes = [guard for guard in one.guards if guard.kind == "SHAPE_ENV"]
            if one.call == 0:
                assert not shapes
            else:
                assert [guard.code for guard in shapes] == [("2 <= L['x'].size()[0]",)]
                assert str(shapes[0].cause) == line(part)

    def test_the_headline_and_the_dictionary_say_the_same(self, report: GuardReport) -> None:
        headline = report.summary().splitlines()[0]
        assert headline.startswith("two_breaks in 3 calls: 6 graphs, 2 graph breaks, 3 recompilations;")
        known = json.loads(report.to_json())
        assert known == report.to_dict() and GuardReport.model_validate(known) == report
        assert len(known["breaks"]) == 2 and len(known["recompilations"]) == 3


def test_three_values_of_one_argument_are_three_recompilations_of_one_graph(
    inspector: GuardInspector,
) -> None:
    calls = [(x(), name) for name in ("a", "bb", "ccc", "dddd", "a")]
    report = inspector.inspect_calls(subjects.by_name, calls)
    assert (len(report.graphs), len(report.breaks), len(report.recompilations)) == (4, 0, 3)
    last = report.recompilations[-1]
    ids = [one.compile_id for one in report.graphs]
    assert {failed.graph: failed.reason for failed in last.failed_guards} == {
        ids[0]: "name == 'a'",
        ids[1]: "name == 'bb'",
        ids[2]: "name == 'ccc'",
    }
    assert all(str(failed.cause) == line("by name") for failed in last.failed_guards)


def test_a_function_without_breaks_is_one_graph(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.one_graph, x())
    assert (len(report.graphs), len(report.breaks), len(report.recompilations)) == (1, 0, 0)
    assert report.calls == 1 and report.subject == "one_graph"


def test_a_break_in_a_function_that_is_called_twice_is_one_break(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.calls_twice, x())
    found = only(report)
    assert str(found.place) == line("break within") and found.place.function == "print_within"
    assert [str(one) for one in found.callers] == [line("first call"), line("second call")]
    assert {one.function.function for one in report.graphs} == {"calls_twice", "print_within"}
    # The caller at both calls, and the function itself once: its second call finds it compiled.
    assert len(found.compile_ids) == 3


def test_a_break_two_calls_deep_has_the_whole_stack(inspector: GuardInspector) -> None:
    found = only(inspector.inspect(subjects.two_deep, x()))
    assert str(found.place) == line("break within")
    assert [str(one) for one in found.stack] == [line("deep call"), line("first call"), line("break within")]


def test_a_break_inside_a_module_is_at_the_module_s_line(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.Outer(), x())
    found = only(report)
    assert str(found.place) == line("break in a module")
    assert [str(one) for one in found.callers] == [line("calls inner")]
    functions = [one.function.function for one in report.compilations]
    assert functions == ["Outer.forward", "Inner.forward", "Inner.forward", "Outer.forward"]
    assert report.subject == "Outer"
    assert len(report.graphs) == 3  # Inner breaks at once: before that there is nothing to compile.
    assert [one.has_graph for one in report.compilations] == [True, False, True, True]


def test_a_break_on_every_line(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.break_on_every_line, x())
    assert places(report) == [line(f"every {number}") for number in range(1, 7)]
    assert [one.reason.title for one in report.breaks] == [
        "Failed to trace builtin operator",
        "Failed to trace builtin operator",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "Failed to trace builtin operator",
        "Data-dependent branching",
        "Call to `torch._dynamo.graph_break()`",
    ]


def test_two_breaks_on_a_line_are_two(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.two_breaks_on_a_line, x())
    assert places(report) == [line("twice on a line")] * 2
    first, second = (one.place.column for one in report.breaks)
    assert first is not None and second is not None and first < second


def test_a_break_in_a_loop_skips_the_function(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.break_in_a_loop, x())
    found = only(report)
    assert str(found.place) == line("in a loop") and found.effect == "skips the frame"
    assert found.reason.title == "Failed to trace builtin operator"
    assert found.reason.then == "graph break in loop"
    assert not report.graphs
    (skipped,) = report.skipped
    assert skipped.function.function == "break_in_a_loop"


def test_a_break_in_a_loop_of_a_called_function_splits_the_caller(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.calls_a_loop, x())
    found = only(report)
    assert str(found.place) == line("in a loop") and [str(one) for one in found.callers] == [
        line("calls a loop")
    ]
    assert [one.function.function for one in report.graphs] == ["calls_a_loop", "calls_a_loop"]
    assert [one.function.function for one in report.skipped] == ["break_in_a_loop"]


def test_a_loop_over_calls_that_break_is_one_break(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.loop_of_breaks, x())
    assert places(report) == [line("break within")]
    assert "loop_of_breaks" in {one.function.function for one in report.skipped}
    assert {one.function.function for one in report.graphs} == {"print_within"}


def test_a_break_in_a_try_block_skips_the_function(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.break_in_try, x())
    assert places(report) == [line("in try")] and only(report).effect == "skips the frame"
    assert [one.function.function for one in report.skipped] == ["break_in_try"]


def test_both_sides_of_a_branch_belong_to_the_function(inspector: GuardInspector) -> None:
    report = inspector.inspect_calls(subjects.branch, [(x(),), (-x(),)])
    assert (
        str(only(report).place) == line("branch") and only(report).reason.title == "Data-dependent branching"
    )
    assert [one.lines for one in report.graphs] == [(line("branch"),), (line("yes"),), (line("no"),)]
    assert {one.function.function for one in report.graphs} == {"branch"}
    assert not report.recompilations


def test_a_generator_is_skipped(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.generator, x())
    (skipped,) = report.skipped
    assert skipped.function.function == "generator" and "generator" in skipped.reason
    assert not report.compilations and not report.breaks


def test_a_function_without_operations_is_skipped_with_the_reason(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.nothing_to_compile, 3)
    (skipped,) = report.skipped
    assert skipped.function.function == "nothing_to_compile"
    assert "No ops traced" in skipped.reason or "no tensor" in skipped.reason


def test_a_function_that_cannot_be_compiled_is_a_failure_with_its_line(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.wrong_shapes, x())
    (failure,) = report.failures
    assert failure.compile_id is not None and failure.call == 0 and str(failure.place) == line("wrong shapes")
    assert "same reduction dim" in failure.message or "cannot be multiplied" in failure.message
    assert "from user code" not in failure.message
    assert not report.graphs and report.compilations[0].outcome == "failed"


def test_a_break_under_fullgraph_is_a_failure(inspector: GuardInspector) -> None:
    report = GuardInspector(fullgraph=True).inspect(subjects.two_breaks, x())
    (failure,) = report.failures
    assert str(failure.place) == line("first break") and failure.advice is not None
    assert not report.breaks and not report.graphs


def test_a_backend_that_refuses_is_a_failure_and_the_graph_is_told(inspector: GuardInspector) -> None:
    report = GuardInspector(backend=subjects.refuse).inspect(subjects.one_graph, x())
    (failure,) = report.failures
    assert "this backend compiles nothing" in failure.message and failure.error == "BackendCompilerFailed"
    (compilation,) = report.compilations
    assert compilation.outcome == "failed" and compilation.operations == 1 and compilation.backend == "refuse"
    assert not report.graphs


def test_a_call_that_raises_does_not_end_the_inspection(inspector: GuardInspector) -> None:
    report = inspector.inspect_calls(subjects.raises_for_four, [(x(2),), (x(4),), (x(5),)])
    (failure,) = report.failures
    assert (failure.error, failure.message, failure.call) == ("ValueError", "four", 1)
    assert str(failure.place) == line("raises") and failure.compile_id is None
    assert report.calls == 3 and len(report.graphs) >= 1


def test_the_recompile_limit_is_told(inspector: GuardInspector) -> None:
    with torch._dynamo.config.patch(recompile_limit=3):
        report = inspector.inspect_calls(subjects.by_name, [(x(), "n" * size) for size in range(6)])
    assert len(report.graphs) == 3 and len(report.recompilations) == 2
    (limit,) = report.limits
    assert (limit.setting, limit.limit, limit.call) == ("recompile_limit", 3, 3)
    assert limit.failed_guards[0].reason == "name == 'nn'"
    assert limit.function.function == "by_name" and limit.advice is not None
    assert not report.breaks and not report.skipped
    assert "the recompile limit reached once" in report.summary()


def test_guards_of_a_module_name_its_attributes_and_the_lines_that_read_them(
    inspector: GuardInspector,
) -> None:
    report = inspector.inspect(subjects.Straight(), x())
    (graph,) = report.graphs
    kinds = {guard.source: guard for guard in graph.guards if guard.kind != "TYPE_MATCH"}
    assert kinds["L['self'].times"].code == ("L['self'].times == 2",)
    assert kinds["L['self']._modules['linear']._parameters['weight']"].kind == "TENSOR_MATCH"
    causes = {str(guard.cause) for guard in graph.guards if guard.cause}
    (forward,) = set(graph.lines)
    assert causes == {forward}


def test_a_condition_on_a_size_is_a_guard_with_its_line(inspector: GuardInspector) -> None:
    report = inspector.inspect_calls(subjects.by_size, [(x(2, 3),), (x(3, 3),), (x(7, 3),)])
    conditions = [guard for guard in report.graphs[1].guards if guard.kind == "SHAPE_ENV"]
    assert [guard.code for guard in conditions] == [("2 <= L['x'].size()[0] <= 5",)]
    assert str(conditions[0].cause) == line("by size")
    last = report.recompilations[-1]
    assert last.reason == "2 <= x.size()[0] <= 5" and str(last.failed_guards[0].cause) == line("by size")


def test_a_second_inspection_starts_clean_and_is_equal(inspector: GuardInspector) -> None:
    calls = [(x(2, 3),), (x(4, 3),)]
    first, second = (inspector.inspect_calls(subjects.two_breaks, calls) for _ in range(2))
    assert [one.operations for one in first.graphs] == [one.operations for one in second.graphs]
    assert len(second.graphs) == 6 and len(second.recompilations) == 3 and not second.notes
    sizes = [
        code
        for graph in second.graphs[:3]
        for guard in graph.guards
        for code in guard.code
        if "size=" in code
    ]
    assert all("size=[2, 3]" in code for code in sizes)


def test_a_second_inspection_of_a_module_that_breaks_starts_clean(inspector: GuardInspector) -> None:
    model = subjects.Outer()
    first, second = (inspector.inspect_calls(model, [(x(2, 3),), (x(4, 3),)]) for _ in range(2))
    for report in (first, second):
        assert (len(report.graphs), len(report.breaks), len(report.recompilations)) == (6, 1, 3)
        assert not report.notes


def test_a_skipped_function_is_skipped_again_in_a_second_inspection(inspector: GuardInspector) -> None:
    first, second = (inspector.inspect(subjects.calls_a_loop, x()) for _ in range(2))
    assert [one.function.function for one in first.skipped] == [
        one.function.function for one in second.skipped
    ]
    assert len(second.skipped) == 1 and places(first) == places(second)


def test_the_functions_of_a_name_that_looks_like_a_resume_function_keep_it(inspector: GuardInspector) -> None:
    report = inspector.inspect(subjects.first_at_3, x())
    assert {one.function.function for one in report.compilations} == {"first_at_3"}


@pytest.mark.parametrize(
    ("subject", "call"),
    [
        (subjects.closure(2.0), Call((torch.ones(3),), {"plus": 3.0})),
        (subjects.Straight().twice, Call((torch.ones(2, 3),))),
        (subjects.CallableObject(), Call((torch.ones(3),))),
        (lambda x: x + 1, Call((torch.ones(3),))),
        (torch.nn.Linear(3, 3), Call((torch.ones(2, 3),))),
    ],
    ids=["closure", "method", "object", "lambda", "module of torch"],
)
def test_all_kinds_of_callables(inspector: GuardInspector, subject: object, call: Call) -> None:
    report = inspector.inspect_calls(subject, [call, call])  # type: ignore[arg-type]
    assert len(report.graphs) == 1 and not report.failures and not report.recompilations


def test_dynamic_is_handed_to_torch_compile() -> None:
    report = GuardInspector(dynamic=True).inspect_calls(
        subjects.one_graph, [(x(2, 3),), (x(4, 3),), (x(5, 3),)]
    )
    assert len(report.graphs) == 1 and not report.recompilations


def test_what_is_switched_off_is_told_as_such(inspector: GuardInspector) -> None:
    with torch.compiler.set_stance("force_eager"):
        report = inspector.inspect(subjects.one_graph, x())
    assert not report.compilations and "switched off" in report.notes[0]


def test_functions_that_are_in_no_file_are_told_of_too(inspector: GuardInspector) -> None:
    namespace: dict[str, Any] = {}
    text = "def typed(x):\n    for _ in range(2):\n        print(x.shape)\n        x = x + 1\n    return x\n"
    exec(compile(text, "<stdin>", "exec"), namespace)
    report = inspector.inspect(namespace["typed"], x())
    assert places(report) == ["<stdin>:3"] and [str(one.function) for one in report.skipped] == ["<stdin>:1"]
