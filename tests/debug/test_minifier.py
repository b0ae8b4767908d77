"""The minifier finds the operations at fault, whatever the graph holds, and never takes one failure for another."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.minifying.faulty import Faulty
from torchport.debug.constraints.base import CheckedGraph, Constraint, Found, Violation, check_graph
from torchport.debug.minifier import Failure, Minifier
from torchport.debug.minifier.captured import graphs_of
from torchport.debug.minifier.case import GraphCase, case_of
from torchport.debug.minifier.comparing import mismatches
from torchport.debug.minifier.failure import message_shape, of_exception, of_mismatches
from torchport.debug.nodes import read_nodes
from torchport.errors import CompileError, UsageError

Backend = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]
WRONG_GELU = Faulty("aten.gelu.default", "tanh gelu")


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A few operations with a gelu among them."""
    x = torch.tanh(x @ w)
    x = torch.nn.functional.gelu(x + w[0])
    return torch.relu(torch.sin(x) * 2).cumsum(0)


@pytest.fixture
def inputs() -> list[torch.Tensor]:
    return [torch.randn(4, 6), torch.randn(6, 6)]


def minifier(
    function: Callable[..., Any], inputs: Sequence[Any], backend: Any = WRONG_GELU, **more: Any
) -> Minifier:
    more = {"through_dynamo": False, "limit": 60.0, **more}
    return Minifier(make_fx(function)(*inputs), inputs, more.pop("error", None), backend, **more)


def operations(case: GraphCase) -> list[str]:
    return [str(node.target) for node in case.operations]


def if_holds(kind: str, holds: Callable[[torch.fx.Graph], bool], then: Callable[[], Any]) -> Backend:
    """A backend that does something before it runs a graph, if that has a property; `kind` says what for a reader."""

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if holds(module.graph):
                then()
            return module(*args)

        return run

    backend.__name__ = kind
    return backend


def has(graph: torch.fx.Graph, *names: str) -> bool:
    return set(names) <= {str(node.target) for node in graph.nodes}


def test_a_wrong_value_is_reduced_to_its_operation_on_small_plain_inputs(inputs: list[torch.Tensor]) -> None:
    found = minifier(chain, inputs)
    case = found.minify()
    assert operations(case) == ["aten.gelu.default"] and found.failure.kind == "wrong value"
    (given,) = case.inputs
    # How far the whole is beyond eager's noise depends on the machine's kernels, and two rows may not be as far.
    assert given.shape in ((2, 2), (4, 4)) and bool((given == given.round()).all())
    assert found.queries <= 6


def test_a_fault_of_two_adjacent_operations_keeps_both(inputs: list[torch.Tensor]) -> None:
    backend = Faulty("aten.mul.Tensor", "scaled", after="aten.sin.default")
    case = minifier(chain, inputs, backend).minify()
    assert operations(case) == ["aten.sin.default", "aten.mul.Tensor"]


def test_a_fault_that_depends_on_a_size_keeps_the_size(inputs: list[torch.Tensor]) -> None:
    case = minifier(chain, inputs, Faulty("aten.sin.default", "scaled", least_size=5)).minify()
    assert operations(case) == ["aten.sin.default"] and case.inputs[0].shape == (2, 6)


def test_a_wrong_gradient_is_reduced_although_the_forward_is_right(inputs: list[torch.Tensor]) -> None:
    # A process that has gone backward once cannot be split in two and go backward in both.
    torch.ones(1, requires_grad=True).sum().backward()
    given = [value.requires_grad_() for value in inputs]
    found = minifier(chain, given, Faulty("aten.sin.default", "wrong gradient"))
    assert operations(found.minify()) == ["aten.sin.default"] and found.failure.kind == "wrong gradient"


def test_a_crash_is_reduced_and_leaves_this_process_alone(inputs: list[torch.Tensor]) -> None:
    found = minifier(chain, inputs, Faulty("aten.relu.default", "dies"))
    assert operations(found.minify()) == ["aten.relu.default"]
    assert (found.failure.kind, found.failure.signature) == ("crash", "signal SIGSEGV")


def test_an_exception_stays_of_its_type_and_message(inputs: list[torch.Tensor]) -> None:
    """Alone, sin raises another exception, and the two together a third message: neither is what was looked for."""

    def raises() -> None:
        raise ValueError("cannot fuse 3 operations")

    def raises_otherwise() -> None:
        raise KeyError("sin")

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        is_all = has(module.graph, "aten.sin.default", "aten.mul.Tensor", "aten.relu.default")
        return if_holds(
            "", lambda graph: has(graph, "aten.sin.default"), raises if is_all else raises_otherwise
        )(module, inputs)

    found = minifier(chain, inputs, backend)
    assert operations(found.minify()) == ["aten.sin.default", "aten.mul.Tensor", "aten.relu.default"]
    assert found.failure.message == "ValueError: cannot fuse 3 operations"


def test_a_failure_of_copies_of_the_process_alone_is_not_taken_for_that_which_is_looked_for(
    inputs: list[torch.Tensor],
) -> None:
    """As a device that a process has in use, and its copies cannot reach."""
    here = os.getpid()

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if os.getpid() != here:
            raise RuntimeError("the device cannot be reached")
        if has(module.graph, "aten.sin.default"):
            raise NotImplementedError("no kernel")
        return module.forward

    found = minifier(chain, inputs, backend, error=NotImplementedError("no kernel"))
    assert operations(found.minify()) == ["aten.sin.default"]
    assert found.failure.message == "NotImplementedError: no kernel" and not found.notes


def test_a_wrong_value_does_not_turn_into_a_crash(inputs: list[torch.Tensor]) -> None:
    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if not has(module.graph, "aten.sin.default"):
            os.kill(os.getpid(), signal.SIGSEGV)
        return WRONG_GELU(module, inputs)

    found = minifier(chain, inputs, backend)
    assert operations(found.minify()) == ["aten.gelu.default", "aten.sin.default"]
    assert found.failure.kind == "wrong value"


def test_a_try_that_hangs_is_ended_and_counts_for_nothing(inputs: list[torch.Tensor]) -> None:
    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if len(case_of(module, inputs).operations) == 1:
            time.sleep(60)
        return WRONG_GELU(module, inputs)

    found = minifier(chain, inputs, backend, limit=1.5)
    assert "aten.gelu.default" in operations(found.minify()) and len(found.minify().operations) == 2


def test_a_hang_is_reduced_only_if_asked_for(inputs: list[torch.Tensor]) -> None:
    backend = if_holds("hangs", lambda graph: has(graph, "aten.relu.default"), lambda: time.sleep(60))
    with pytest.raises(CompileError, match="TP1049"):
        minifier(chain, inputs, backend, limit=1.0).minify()
    found = minifier(chain, inputs, backend, limit=1.0, error=Failure("hang", "", ""))
    assert operations(found.minify()) == ["aten.relu.default"]


def test_a_graph_that_does_not_fail_is_refused(inputs: list[torch.Tensor]) -> None:
    with pytest.raises(CompileError, match="TP1046"):
        minifier(chain, inputs, Faulty("aten.erf.default", "scaled")).minify()


def test_a_graph_that_fails_in_another_way_is_refused(inputs: list[torch.Tensor]) -> None:
    with pytest.raises(CompileError, match="TP1047"):
        minifier(chain, inputs, error=RuntimeError("out of registers")).minify()


def test_a_failure_that_comes_and_goes_is_said_to_do_so(inputs: list[torch.Tensor], tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    def every_third_time() -> None:
        with runs.open("a") as file:
            file.write("x")
        if runs.stat().st_size % 3 == 0:
            raise RuntimeError("lost a race")

    backend = if_holds("race", lambda graph: has(graph, "aten.sin.default"), every_third_time)
    found = minifier(chain, inputs, backend)
    assert operations(found.minify()) == ["aten.sin.default"]
    assert "the graph fails only sometimes" in found.notes


def test_the_users_function_decides_and_may_fail_itself(inputs: list[torch.Tensor]) -> None:
    def fails(module: torch.fx.GraphModule, given: list[Any]) -> Failure | None:
        if len(case_of(module, given).operations) == 1:
            raise ZeroDivisionError("no use")
        is_bad = has(module.graph, "aten.sin.default", "aten.mul.Tensor")
        return Failure("wrong value", "mine", "sin and mul") if is_bad else None

    found = Minifier(make_fx(chain)(*inputs), inputs, fails)
    assert operations(found.minify()) == ["aten.sin.default", "aten.mul.Tensor"]
    assert any("ZeroDivisionError: no use" in note for note in found.notes)


@pytest.mark.parametrize("answer", [1 / 2, RuntimeError("broken")])
def test_a_function_that_fails_on_the_whole_graph_is_refused(inputs: list[torch.Tensor], answer: Any) -> None:
    def fails(module: torch.fx.GraphModule, given: list[Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(CompileError, match="TP1043"):
        Minifier(make_fx(chain)(*inputs), inputs, fails).minify()


def test_equal_graphs_are_run_once(inputs: list[torch.Tensor], tmp_path: Path) -> None:
    """The same operation on the same values comes up again when outputs are counted, and is not run again."""
    log = tmp_path / "log"

    def fails(module: torch.fx.GraphModule, given: list[Any]) -> Failure | None:
        with log.open("a") as file:
            file.write(f"{module.code.strip()} {[float(value.sum()) for value in given]}\n---\n")
        return Failure("wrong value", "", "") if has(module.graph, "aten.sin.default") else None

    found = Minifier(make_fx(chain)(*inputs), inputs, fails)
    found.minify()
    tried = log.read_text().split("---\n")[:-1]
    assert len(tried) == len(set(tried)) == found.queries


def test_free_sizes_numbers_and_none_are_inputs_like_others() -> None:
    def sized(x: torch.Tensor, scale: int) -> torch.Tensor:
        return torch.nn.functional.gelu(x.reshape(x.shape[0] * x.shape[1]) * x.shape[0]) + scale

    given = [torch.randn(4, 6), 3]
    module = make_fx(sized, tracing_mode="symbolic")(*given)
    found = Minifier(module, given, backend=WRONG_GELU, through_dynamo=False)
    assert operations(found.minify()) == ["aten.gelu.default"]

    graph = torch.fx.Graph()
    x, nothing, number = (graph.placeholder(name) for name in ("x", "nothing", "number"))
    clamped = graph.call_function(torch.ops.aten.clamp.default, (x, nothing, number))
    graph.output((graph.call_function(torch.ops.aten.sin.default, (clamped,)), clamped))
    whole = torch.fx.GraphModule(torch.nn.Module(), graph)
    backend = Faulty("aten.clamp.default", "scaled")
    found = Minifier(whole, [torch.randn(3), None, 1.5], backend=backend, through_dynamo=False)
    case = found.minify()
    assert operations(case) == ["aten.clamp.default"] and case.inputs[1:] == (None, 1.5)


def test_inputs_that_do_not_fit_are_refused(inputs: list[torch.Tensor]) -> None:
    with pytest.raises(UsageError, match="TP1040"):
        Minifier(make_fx(chain)(*inputs), inputs[:1], backend=WRONG_GELU)


def test_without_a_way_to_see_a_failure_nothing_is_tried(inputs: list[torch.Tensor]) -> None:
    with pytest.raises(UsageError, match="TP1041"):
        Minifier(make_fx(chain)(*inputs), inputs, RuntimeError("it failed"))


def test_fake_inputs_get_values(inputs: list[torch.Tensor]) -> None:
    fake = [torch.empty_like(value, device="meta") for value in inputs]
    found = Minifier(make_fx(chain)(*inputs), fake, backend=WRONG_GELU, through_dynamo=False)
    assert operations(found.minify()) == ["aten.gelu.default"]


def test_parameters_of_the_graph_stay_its_own() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.mm(torch.tanh(x), self.weight))

    def scaled(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        factor = 1.01 if any(node.target is torch.mm for node in module.graph.nodes) else 1.0
        return lambda *args: [value * factor for value in torch.fx.Interpreter(module).run(*args)]

    module = torch.fx.symbolic_trace(Layer())
    case = Minifier(module, [torch.randn(4, 6)], backend=scaled, through_dynamo=False).minify()
    assert [node.target for node in case.operations] == [torch.mm]
    assert [node.target for node in case.module.graph.nodes if node.op == "get_attr"] == ["weight"]


def test_one_of_several_outputs_is_enough() -> None:
    def several(x: torch.Tensor) -> list[torch.Tensor]:
        low, high = torch.aminmax(x, dim=0)
        return [low, high, torch.sin(x), torch.cos(x)]

    backend = Faulty("aten.aminmax.default", "scaled")
    case = minifier(several, [torch.randn(4, 6)], backend).minify()
    (output,) = (node for node in case.module.graph.nodes if node.op == "output")
    assert operations(case) == ["aten.aminmax.default"] and len(output.all_input_nodes) == 1


def test_operations_in_place_are_cut_out_with_the_values_that_they_find() -> None:
    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y.add_(1)
        y.mul_(3)
        return torch.relu(y) + torch.cos(y)

    given = [torch.randn(4, 6)]
    case = minifier(in_place, given, Faulty("aten.mul_.Tensor", "scaled")).minify()
    assert operations(case) == ["aten.mul_.Tensor"]
    relu = minifier(in_place, given, Faulty("aten.relu.default", "last column zero"))
    relu.minify()
    (cut,) = [step for step in relu._steps if len(step.operations) == 1][:1]
    assert torch.equal(cut.inputs[0], (torch.sin(given[0]) + 1) * 3)


def test_a_write_to_an_input_that_is_lost_is_a_wrong_value() -> None:
    def forgets(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return lambda *args: module(*(value.clone() for value in args))

    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.sin(torch.cos(x))

    found = minifier(writes, [torch.randn(4, 6)], forgets)
    assert operations(found.minify()) == ["aten.add_.Tensor"] and "input" in found.failure.message


def test_control_flow_is_kept_whole() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y = torch.cond(y.sum() > 0, lambda v: v.cos() + 1, lambda v: v.tanh() - 1, (y,))
        return torch.relu(y) * 2

    given = [torch.ones(4, 6)]
    module = make_fx(branches, tracing_mode="fake")(*given)
    backend = if_holds(
        "refuses",
        lambda graph: any("cond" in str(node.target) for node in graph.nodes),
        lambda: (_ for _ in ()).throw(NotImplementedError("no control flow")),
    )
    case = Minifier(module, given, backend=backend, through_dynamo=False).minify()
    (only,) = case.operations
    assert str(only.target) == "cond"
    assert torch.equal(case.module(*case.fresh_inputs())[0], case.module(*case.fresh_inputs())[0])


def test_no_smaller_input_brings_a_nan_of_its_own() -> None:
    """Ones and whole numbers make log(x - 1) infinite, so that other values must do."""

    def logarithm(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - 1)

    whole = Faulty("aten.log.default", "scaled", after="aten.sub.Tensor")
    case = minifier(logarithm, [torch.rand(4, 6) + 2], whole).minify()
    assert len(case.operations) == 2 and bool(case.module(*case.fresh_inputs())[0].isfinite().all())


class Aligned(Constraint):
    name = "last axis"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            if node.op == "aten.sin.default" and node.tensors[0].shape[-1] % 4:
                yield self.violated_by(node, f"{node.tensors[0].shape[-1]} is no multiple of 4")


def violation(module: torch.fx.GraphModule) -> Violation:
    (found,) = check_graph(CheckedGraph("graph_0", "forward", tuple(read_nodes(module))), [Aligned()])
    return found


def test_a_violation_is_reduced_to_the_operation_that_it_names(inputs: list[torch.Tensor]) -> None:
    module = make_fx(chain, tracing_mode="fake")(*inputs)
    found = Minifier(module, inputs, violation(module), constraints=[Aligned()])
    case = found.minify()
    assert operations(case) == ["aten.sin.default"] and found.queries <= 4
    assert found.failure.signature == "last axis: aten.sin.default"


def test_a_violation_of_an_aten_graph_is_found_from_the_graph_of_dynamo(inputs: list[torch.Tensor]) -> None:
    module = make_fx(chain, tracing_mode="fake")(*inputs)
    (graph,) = graphs_of(chain, inputs, {})
    assert not any("aten" in name for name in operations(graph))
    case = Minifier(graph.module, graph.inputs, violation(module), constraints=[Aligned()]).minify()
    assert operations(case) == ["aten.sin.default"]


def test_a_violation_needs_its_constraint(inputs: list[torch.Tensor]) -> None:
    module = make_fx(chain, tracing_mode="fake")(*inputs)
    with pytest.raises(UsageError, match="TP1041"):
        Minifier(module, inputs, violation(module))


def test_a_node_that_is_known_to_be_wrong_is_tried_first(inputs: list[torch.Tensor]) -> None:
    """With a hint, a gradient takes no bisection."""

    class Divergence:
        node = "sin"

    given = [value.requires_grad_() for value in inputs]
    backend = Faulty("aten.sin.default", "wrong gradient")
    with_hint = minifier(chain, given, backend, error=Divergence())
    without = minifier(chain, given, backend)
    assert operations(with_hint.minify()) == operations(without.minify()) == ["aten.sin.default"]
    assert with_hint.queries < without.queries


def test_messages_are_alike_whatever_numbers_they_hold() -> None:
    one = message_shape("mat1 (2x3) of add_12 at 0x7ffe has sizes [2, 3, 4]")
    two = message_shape("mat1 (16x64) of add_3 at 0x1 has sizes [7]")
    assert one == two
    assert message_shape("cannot lower sin") != message_shape("cannot lower cos")


def test_an_exception_is_known_without_what_dynamo_wraps_around_it() -> None:
    def raises(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise NotImplementedError("no such kernel")

    with pytest.raises(Exception) as wrapped:
        torch.compile(torch.sin, backend=raises)(torch.ones(2))
    assert of_exception(wrapped.value) == of_exception(NotImplementedError("no such kernel"))


def writes_to_its_input(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        found = module(*args)
        if any("sin" in str(node.target) for node in module.graph.nodes):
            args[0].mul_(1.5)
        return found

    return run


def gives_one_more(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    return lambda *args: (*torch.utils._pytree.tree_leaves(module(*args)), args[0] + 1)


@pytest.mark.parametrize("backend", [writes_to_its_input, gives_one_more])
def test_what_eager_does_not_give_is_wrong_and_its_script_says_so(
    inputs: list[torch.Tensor], tmp_path: Path, backend: Backend
) -> None:
    found = minifier(chain, inputs, backend).generate_repro_script(tmp_path / "repro.py")
    assert found.kind == "wrong value" and found.fails_in_fresh_process, found.output
    assert len(found.operations) <= 1


def test_what_is_missing_is_not_said_to_have_another_shape() -> None:
    golden = {"input b": torch.ones(2)}
    found = of_mismatches("wrong value", list(mismatches(golden, None, {})))
    assert found is not None and found.message == "input b is not written to, as by eager PyTorch"
    found = of_mismatches("wrong gradient", list(mismatches({"x": torch.ones(2)}, None, {"x": None})))
    assert found is not None and found.message == "gradient of x is not there, as by eager PyTorch"
