"""Bad input to the guard inspector is refused with a code, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchport.debug.guards import GuardInspector
from torchport.debug.internals import dynamo, dynamo_hooks, needs
from torchport.errors import CompileError, UsageError

from . import guard_subjects as subjects


@pytest.fixture
def inspector() -> GuardInspector:
    return GuardInspector()


@pytest.mark.parametrize("subject", [3, "f", None, torch.ones(2)])
def test_what_cannot_be_called(inspector: GuardInspector, subject: Any) -> None:
    for ask in (lambda: inspector.inspect(subject), lambda: inspector.compiled(subject)):
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.code == "TP1030"
    with pytest.raises(UsageError), inspector.watch(subject):
        pass


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((torch.ones(2), 1, 2, 3), {}), ((torch.ones(2),), {"wrong": 1})],
    ids=["too few", "too many", "unknown name"],
)
@pytest.mark.parametrize("subject", [subjects.one_graph, subjects.Straight(), subjects.CallableObject()])
def test_arguments_that_do_not_fit(inspector: GuardInspector, subject: Any, args: Any, kwargs: Any) -> None:
    with pytest.raises(UsageError) as caught:
        inspector.inspect(subject, *args, **kwargs)
    assert caught.value.code == "TP1031" and "cannot be called so" in caught.value.message
    assert caught.value.where is not None and "guard_subjects.py:" in caught.value.where


def test_one_wrong_call_of_several_is_refused_before_the_first_runs(inspector: GuardInspector) -> None:
    ran = []

    def subject(value: torch.Tensor) -> torch.Tensor:
        ran.append(value)
        return value + 1

    with pytest.raises(UsageError) as caught:
        inspector.inspect_calls(subject, [(torch.ones(2),), (torch.ones(2), 3)])
    assert caught.value.code == "TP1031" and not ran


@pytest.mark.parametrize(
    "calls", [[], torch.ones(2, 3), 3, "ab", {"x": 1}, [torch.ones(2)], [3], [{1: 2}]], ids=repr
)
def test_what_is_no_list_of_calls(inspector: GuardInspector, calls: Any) -> None:
    with pytest.raises(UsageError) as caught:
        inspector.inspect_calls(subjects.one_graph, calls)
    assert caught.value.code == "TP1032"


def test_calls_by_name(inspector: GuardInspector) -> None:
    report = inspector.inspect_calls(subjects.scaled, [{"x": torch.ones(2), "factor": 2.0}])
    assert len(report.graphs) == 1


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(UsageError) as caught:
        GuardInspector(backend="no_such_backend").inspect(subjects.one_graph, torch.ones(2))
    assert caught.value.code == "TP1034" and "no_such_backend" in caught.value.message


def test_a_torch_that_cannot_be_observed(inspector: GuardInspector, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = needs.Need("compilations", dynamo_hooks.FRAMES, "no_such_function", "guards: everything")
    monkeypatch.setattr(dynamo_hooks, "NEEDS", (gone,))
    assert not dynamo.is_observable()
    with pytest.raises(CompileError) as caught:
        inspector.inspect(subjects.one_graph, torch.ones(2))
    assert caught.value.code == "TP1033"
