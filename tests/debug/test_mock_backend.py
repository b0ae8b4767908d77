"""The mock backends: every graph is checked, strict stops readably, warn goes on, and what runs is what eager runs."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchport.debug.backends.mock import MockBackend, aot_mock_backend, mock_backend, torchport_mock
from torchport.debug.constraints import (
    CheckedGraph,
    Constraint,
    DtypeConstraint,
    Found,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
)
from torchport.debug.session import Session
from torchport.errors import CompileError, UsageError

BOTH = pytest.mark.parametrize("backend", [mock_backend, aot_mock_backend], ids=str)
NO_FLOAT64 = DtypeConstraint(allowed_dtypes={"float32"})


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.conv(x).relu().mean((2, 3))
        return self.head(pooled)  # type: ignore[no-any-return]


def line_with(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def image() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8)


def stages(session: Session) -> list[tuple[str, str]]:
    return [(graph.name, graph.stage) for graph in session.graphs]


@BOTH
def test_results_and_gradients_are_those_of_eager(backend: MockBackend) -> None:
    model, x = Small(), image()
    eager = model(x)
    eager.sum().backward()
    gradient = model.conv.weight.grad
    model.zero_grad()
    compiled = torch.compile(model, backend=backend())(x)
    compiled.sum().backward()
    torch.testing.assert_close(compiled, eager)
    torch.testing.assert_close(model.conv.weight.grad, gradient)


def test_the_aot_backend_checks_three_graphs_and_the_plain_one_two() -> None:
    ahead, plain = aot_mock_backend(), mock_backend()
    torch.compile(Small(), backend=ahead)(image()).sum().backward()
    torch.compile(Small(), backend=plain)(image()).sum().backward()
    assert stages(ahead.session) == [("graph_0", "dynamo"), ("graph_0", "forward"), ("graph_0", "backward")]
    assert stages(plain.session) == [("graph_0", "dynamo"), ("graph_0", "forward")]


@BOTH
def test_strict_stops_with_a_readable_error_of_torchport(backend: MockBackend) -> None:
    strict = backend(constraints=[UnsupportedOpsConstraint({"aten.convolution"})])
    with pytest.raises(CompileError) as stopped:
        torch.compile(Small(), backend=strict)(image())
    place = line_with("pooled = self.conv(x)")
    assert str(stopped.value) == (
        "TP1001: 1 violation of a constraint in graph_0 (forward):\n"
        "  unsupported_ops: aten.convolution.default is denied, as aten.convolution "
        f"(aten.convolution.default, node convolution in conv at {place})"
    )
    assert stopped.value.__cause__ is None and stopped.value.code == "TP1001"
    frames = [frame.path.name for frame in stopped.traceback]
    assert "output_graph.py" not in frames and "convert_frame.py" not in frames
    assert str(pickle.loads(pickle.dumps(stopped.value))) == str(stopped.value)


def test_strict_stops_in_the_backward_pass_every_time() -> None:
    strict = aot_mock_backend(constraints=[UnsupportedOpsConstraint({"aten.convolution_backward"})])
    compiled = torch.compile(Small(), backend=strict)
    for _ in range(2):
        result = compiled(image())
        with pytest.raises(CompileError, match=r"graph_0 \(backward\).*\n.*in conv at .*test_mock_backend"):
            result.sum().backward()


def test_a_backward_graph_that_never_runs_is_not_held_against_anything() -> None:
    strict = aot_mock_backend(constraints=[UnsupportedOpsConstraint({"aten.convolution_backward"})])
    torch.compile(Small(), backend=strict, dynamic=True)(image())
    assert not strict.session.violations


def test_strict_cannot_be_suppressed_in_silence() -> None:
    strict = aot_mock_backend(constraints=[NO_FLOAT64])
    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(CompileError, match="float64"):
        torch.compile(lambda x: x.double(), backend=strict)(torch.ones(2))


@BOTH
def test_warn_logs_each_violation_once_and_goes_on(
    backend: MockBackend, caplog: pytest.LogCaptureFixture
) -> None:
    def widened(x: torch.Tensor) -> torch.Tensor:
        return x.double() + 1

    warning = backend(strict=False, constraints=[NO_FLOAT64])
    with caplog.at_level(logging.WARNING, logger="torchport.debug"):
        compiled = torch.compile(widened, backend=warning)
        assert torch.equal(compiled(torch.ones(2)), widened(torch.ones(2)))
        compiled(torch.ones(2, 2))
    logged = [record.getMessage() for record in caplog.records if record.name == "torchport.debug"]
    assert len(logged) == 1 and line_with("return x.double() + 1") in logged[0]
    assert len(warning.session.violations) > len(warning.session.distinct_violations) == 1


def test_torch_finds_the_backend_by_name_with_options() -> None:
    session = Session()
    options = {"strict": False, "constraints": [NO_FLOAT64], "session": session}
    torch.compile(lambda x: x.double(), backend="torchport_mock", options=options)(torch.ones(2))
    assert [violation.op for violation in session.distinct_violations] == ["torch.Tensor.double"]
    assert torch._dynamo.lookup_backend("torchport_mock") is torchport_mock


@pytest.mark.slow
def test_the_name_works_in_a_process_that_never_imports_torchport() -> None:
    program = "import torch; print(torch.compile(lambda x: x + 1, backend='torchport_mock')(torch.ones(2)).tolist())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


def test_an_unknown_option_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        UsageError, match="TP1003: the mock backend has no option 'strct'; it has strict, alignment"
    ):
        torch.compile(lambda x: x + 1, backend="torchport_mock", options={"strct": True})(torch.ones(2))
    with pytest.raises(UsageError, match="TP1003"):
        aot_mock_backend(alignement=8)
    with pytest.raises(UsageError, match="TP1003.*'mode'"):
        torch.compile(lambda x: x + 1, backend=mock_backend, mode="reduce-overhead")(torch.ones(2))
    with pytest.raises(UsageError, match="TP1008.*no Constraint"):
        aot_mock_backend(constraints=["float32"])
    with pytest.raises(UsageError, match="TP1002: max_memory"):
        aot_mock_backend(max_memory="much")


def test_the_environment_sets_the_backend_and_is_read_when_it_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = aot_mock_backend()
    monkeypatch.setenv("MOCK_ALIGNMENT", "8")
    with pytest.raises(CompileError, match="axis 0 of .6,. is 6, no multiple of 8"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(6))
    monkeypatch.setenv("MOCK_STRICT", "0")
    torch.compile(lambda x: x + 2, backend=backend)(torch.ones(6))
    monkeypatch.setenv("MOCK_MAX_MEMORY", "a lot")
    with pytest.raises(UsageError, match="TP1002: MOCK_MAX_MEMORY: 'a lot'"):
        torch.compile(lambda x: x + 3, backend=backend)(torch.ones(6))


def test_options_and_constraints_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_ALIGNMENT", "8")
    monkeypatch.setenv("MOCK_MAX_MEMORY", "8B")
    roomy = MemoryConstraint(max_bytes="1GiB")
    for backend in (
        aot_mock_backend(alignment=2, max_memory="1MiB"),
        aot_mock_backend(constraints=[ShapeConstraint(alignment=3), roomy]),
    ):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(6))
        assert not backend.session.violations


def test_free_sizes_are_checked_with_every_value_that_they_get() -> None:
    backend = aot_mock_backend(constraints=[ShapeConstraint(alignment=8)])
    compiled = torch.compile(lambda x: x * 2, backend=backend, dynamic=True)
    compiled(torch.ones(8))
    compiled(torch.ones(16))
    with pytest.raises(CompileError, match="axis 0 of .12,. is 12, no multiple of 8"):
        compiled(torch.ones(12))
    assert stages(backend.session) == [("graph_0", "dynamo"), ("graph_0", "forward")]


def test_a_size_that_depends_on_data_is_not_taken_for_aligned() -> None:
    backend = aot_mock_backend(constraints=[ShapeConstraint(alignment=8, dims=(0,))])
    dynamic = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
    with dynamic, pytest.raises(CompileError, match="axis 0 depends on data"):
        torch.compile(lambda x: x.nonzero() * 2, backend=backend)(torch.arange(8))


def test_a_graph_that_dynamo_makes_anew_is_kept_once() -> None:
    backend = aot_mock_backend()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    torch.compile(model, backend=backend, dynamic=True)(image()).sum().backward()
    names = {graph.name for graph in backend.session.graphs}
    assert len(names) == 1 and len(backend.session.graphs) == 3


def breaking(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    torch._dynamo.graph_break()
    x = x * 2
    torch._dynamo.graph_break()
    return x.sin()


def in_place(x: torch.Tensor) -> tuple[Any, ...]:
    copied = x.clone()
    flat = copied.view(-1)
    flat.add_(1)
    copied[0] = 3
    x.mul_(2)
    return copied, flat, copied.t(), x, None


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "a break on every line": (breaking, torch.ones(3)),
    "nothing": (lambda x: x, torch.ones(3)),
    "constants, None and views of inputs": (
        lambda x: (torch.ones(3), None, 3, x.view(-1), x[None]),
        torch.ones(3),
    ),
    "writing in place": (in_place, torch.ones(3, 3)),
    "complex numbers": (lambda x: torch.fft.fft(x) * 1j, torch.ones(3)),
    "whole numbers": (lambda x: (x // 2, x > 1, x.bool()), torch.arange(3)),
    "branches": (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), torch.ones(3)),
    "an empty tensor": (lambda x: x + 1, torch.ones(0, 3)),
}


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_unusual_graphs_are_checked_and_run(backend: MockBackend, case: str) -> None:
    function, x = CASES[case]
    constraints = [
        LayoutConstraint(),
        MemoryConstraint(max_peak="1GiB"),
        UnsupportedOpsConstraint({"aten.conv2d"}),
    ]
    tested = backend(strict=False, constraints=constraints)
    result = torch.compile(function, backend=tested)(x.clone())
    torch.testing.assert_close(result, function(x.clone()))
    assert not tested.session.faults


def test_threads_that_compile_at_the_same_time_share_a_session() -> None:
    backend = aot_mock_backend(strict=False, constraints=[NO_FLOAT64])
    failures: list[BaseException] = []

    def compile_one(layers: int) -> None:
        try:
            model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers))).double()
            torch.compile(model, backend=backend)(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=compile_one, args=(layers,)) for layers in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = [
        (f"graph_{number}", stage) for number in range(3) for stage in ("backward", "dynamo", "forward")
    ]
    assert sorted(stages(backend.session)) == expected
    assert {violation.module for violation in backend.session.violations} >= {"0", "1", "2"}


class Broken(Constraint):
    name = "broken"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        raise KeyError("the user's mistake")


def test_a_constraint_that_raises_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    compiled = torch.compile(lambda x: x + 1, backend=aot_mock_backend(constraints=[Broken()]))
    for _ in range(2):
        with pytest.raises(CompileError, match=r"TP1006: the constraint .*Broken raised KeyError") as failed:
            compiled(torch.ones(2))
    assert failed.value.where == line_with('raise KeyError("the user')
    warning = aot_mock_backend(strict=False, constraints=[Broken(), NO_FLOAT64])
    torch.compile(lambda x: x.double(), backend=warning)(torch.ones(2))
    assert [fault.code for fault in warning.session.faults] == ["TP1006", "TP1006"]
    assert warning.session.violations and "TP1006" in caplog.text


@pytest.mark.filterwarnings("ignore:Error detected in Generated")
def test_a_graph_that_aotautograd_cannot_take_is_reported_and_not_passed_over() -> None:
    @torch.library.custom_op("torchport_test::unfinished", mutates_args=())
    def unfinished(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def no_gradient(*_: Any) -> None:
        raise RuntimeError("no gradient yet")

    unfinished.register_fake(torch.empty_like)
    unfinished.register_autograd(no_gradient, setup_context=lambda *_, **__: None)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        CompileError, match="TP1007: AOTAutograd failed on graph_0: RuntimeError: no gradient yet"
    ):
        torch.compile(lambda x: unfinished(x), backend=aot_mock_backend())(x)
    warning = aot_mock_backend(strict=False)
    assert torch.equal(torch.compile(lambda x: unfinished(x) * 2, backend=warning)(x), x * 2)
    assert [fault.code for fault in warning.session.faults] == ["TP1007"]
