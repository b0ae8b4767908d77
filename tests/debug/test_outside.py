"""What runs outside of graphs because of a break is seen, checked, and named by the user's line."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from torchport.debug.backends.choosing import chosen
from torchport.debug.backends.mock import MockBackend, aot_mock_backend, mock_backend
from torchport.debug.backends.outside import outside_watched
from torchport.debug.constraints import Constraint, DtypeConstraint, UnsupportedOpsConstraint
from torchport.debug.nodes import GraphNode
from torchport.debug.session import Session
from torchport.errors import CompileError

NO_FLOAT64 = DtypeConstraint(allowed_dtypes={"float32"})


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 4)

    @torch._dynamo.disable
    def aside(self, x: torch.Tensor) -> torch.Tensor:
        features = functional.relu(self.conv(x))
        return (features.double() * 2).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = x.sin()
        features = self.aside(inside)
        return self.head(features.mean((2, 3)))  # type: ignore[no-any-return]


def line_with(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def outside(session: Session) -> tuple[GraphNode, ...]:
    graph = session.graph("outside", "outside")
    assert graph is not None
    return graph.nodes


@pytest.mark.parametrize("backend", [mock_backend, aot_mock_backend, "eager", "aot_eager"], ids=str)
def test_only_what_no_graph_holds_is_seen_whatever_the_backend(backend: MockBackend | str) -> None:
    session = Session(constraints=[NO_FLOAT64])
    tested = backend if isinstance(backend, str) else backend(strict=False)
    compiled = torch.compile(Broken(), backend=tested)
    x = torch.randn(1, 3, 6, 6)
    with torch.no_grad(), outside_watched(session):
        compiled(x)
        compiled(x)
    found = [(node.op, node.module) for node in outside(session)]
    assert found == [
        ("aten.convolution.default", "conv"),
        ("aten.relu.default", ""),
        ("aten._to_copy.default", ""),
        ("aten.mul.Tensor", ""),
        ("aten._to_copy.default", ""),
    ]
    assert {violation.source for violation in session.violations} == {
        line_with("return (features.double() * 2)")
    }
    assert {violation.stage for violation in session.violations} == {"outside"}


@pytest.mark.parametrize(
    "denied", ["aten.conv2d", "aten.convolution", "torch.nn.functional.conv2d", "torch.nn.functional.relu"]
)
def test_operations_outside_are_known_by_the_functions_that_are_called_for_them(denied: str) -> None:
    session = Session(constraints=[UnsupportedOpsConstraint({denied})])
    with torch.no_grad(), outside_watched(session):
        torch.compile(Broken(), backend=aot_mock_backend())(torch.randn(1, 3, 6, 6))
    (violation,) = session.violations
    assert violation.source == line_with("functional.relu(self.conv(x))")


def test_other_functions_are_not_taken_for_those_that_are_denied() -> None:
    session = Session(constraints=[UnsupportedOpsConstraint({"aten.conv1d", "aten.matmul", "torch.cos"})])
    with torch.no_grad(), outside_watched(session):
        torch.compile(Broken(), backend=aot_mock_backend())(torch.randn(1, 3, 6, 6))
    assert not session.violations


def test_strict_stops_at_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(constraints=[NO_FLOAT64])
    compiled = torch.compile(Broken(), backend=aot_mock_backend())
    with pytest.raises(CompileError, match=r"in outside \(outside\):\n  dtype: float64"), torch.no_grad():  # noqa: SIM117
        with outside_watched(session, strict=True):
            compiled(torch.randn(1, 3, 6, 6))
    assert [node.op for node in outside(session)][-1] == "aten._to_copy.default"


def test_without_strict_each_violation_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(constraints=[NO_FLOAT64])
    compiled = torch.compile(Broken(), backend=aot_mock_backend())
    with (
        caplog.at_level(logging.WARNING, logger="torchport.debug"),
        torch.no_grad(),
        outside_watched(session),
    ):
        compiled(torch.randn(1, 3, 6, 6))
        compiled(torch.randn(1, 3, 6, 6))
    assert len([record for record in caplog.records if record.name == "torchport.debug"]) == 1


def test_a_gradient_that_no_graph_computes_is_outside_at_the_line_that_asks_for_it() -> None:
    backend = mock_backend()
    x = torch.ones(3, requires_grad=True)
    with outside_watched(backend.session):
        torch.compile(lambda x: x.sin(), backend=backend)(x).sum().backward()  # asked for here
    line = line_with("# asked for" + " here")
    assert "aten.cos.default" in {node.op for node in outside(backend.session) if node.source == line}


def test_a_model_without_breaks_has_nothing_outside() -> None:
    backend, model, x = aot_mock_backend(), nn.Linear(4, 4), torch.ones(2, 4)
    with torch.no_grad(), outside_watched(backend.session):
        torch.compile(model, backend=backend)(x)
    assert outside(backend.session) == ()


class BrokenFirst(Broken):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.aside(x)  # before any graph
        return self.head(features.mean((2, 3)))  # type: ignore[no-any-return]


DENIED = UnsupportedOpsConstraint(["aten.convolution"])
CALL = "features = self.aside" + "(inside)"
FIRST = "# before any" + " graph"


def unwatched(model: nn.Module, backend: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged while a model runs of which nobody watches what is outside of graphs."""
    with caplog.at_level(logging.WARNING, logger="torchport.debug"), torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        compiled(torch.randn(1, 3, 6, 6))
        compiled(torch.randn(1, 3, 6, 6))
    return [record.getMessage() for record in caplog.records if record.name == "torchport.debug"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("model", "line"), [(Broken, CALL), (BrokenFirst, FIRST)])
@pytest.mark.parametrize("backend", [mock_backend, aot_mock_backend], ids=str)
def test_that_nobody_sees_what_runs_outside_is_logged_once_with_what_to_do(
    model: type[nn.Module], line: str, strict: bool, backend: MockBackend, caplog: pytest.LogCaptureFixture
) -> None:
    tested = backend(strict=strict, constraints=[DENIED])
    (said,) = unwatched(model(), tested, caplog)
    assert line_with(line) in said and "torchport.debug.outside_watched(session)" in said
    assert [one.place for one in tested.session.breaks] == [line_with(line)]
    assert not tested.session.violations


def test_every_backend_that_checks_counts_breaks(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(constraints=[DENIED])
    tested = chosen("aot_eager").with_session(session, strict=True)
    (said,) = unwatched(Broken(), tested, caplog)
    assert "in no graph" in said and len(session.breaks) == 1


def test_breaks_are_kept_in_the_artifacts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unwatched(Broken(), aot_mock_backend(artifacts=tmp_path), caplog)
    (file,) = tmp_path.rglob("statistics/breaks.json")
    (found,) = json.loads(file.read_text())["breaks"]
    assert found["line"] == line_with(CALL) and "disable" in found["reason"]


def test_what_is_watched_is_not_said_to_be_unseen(caplog: pytest.LogCaptureFixture) -> None:
    backend = aot_mock_backend(strict=False)
    with outside_watched(backend.session):
        assert not unwatched(Broken(), backend, caplog)
    assert len(backend.session.breaks) == 1


def test_a_model_in_one_graph_has_no_break(caplog: pytest.LogCaptureFixture) -> None:
    backend = aot_mock_backend(strict=False)
    assert not unwatched(nn.Conv2d(3, 4, 3), backend, caplog) and not backend.session.breaks


class Raising(Constraint):
    name = "raising"
    stages = ("outside",)

    def check(self, graph: object) -> list[object]:  # type: ignore[override]
        raise ValueError("no")


def test_a_constraint_that_raises_outside_is_named_and_does_not_break_the_model() -> None:
    session = Session(constraints=[Raising()])
    model, x = Broken(), torch.randn(1, 3, 6, 6)
    with torch.no_grad(), outside_watched(session):
        result = torch.compile(model, backend=aot_mock_backend())(x)
        assert torch.equal(result, model(x))
    assert {fault.code for fault in session.faults} == {"TP1006"}
