"""The ways to see whether a case fails: run it, hold it against constraints, or ask a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from torchport.debug.constraints.base import CheckedGraph, Constraint, Stage, check_graph
from torchport.debug.internals.tries import nothing_remembered
from torchport.debug.minifier import failure
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.comparing import Results, mismatches, results_of, wide_case
from torchport.debug.minifier.failure import Failure, Kind, Mismatch
from torchport.debug.nodes import read_nodes

Backend = str | Callable[..., Any]
Fails = Callable[[torch.fx.GraphModule, list[Any]], Failure | None]


class Check(Protocol):
    def failure_of(self, case: GraphCase) -> Failure | None:
        """How a case fails, or None if it does not."""


@dataclass(frozen=True)
class BackendCheck:
    """Compiles a case and runs it; its values are compared if wrong values are looked for."""

    backend: Backend
    kind: Kind | None = None
    """What is looked for; None for anything."""
    through_dynamo: bool = True
    """Whether the case is given to torch.compile, or to the backend at once, as Dynamo would."""

    def failure_of(self, case: GraphCase) -> Failure | None:
        compares = self.kind not in ("exception", "crash", "hang")
        has_gradients = self.kind != "wrong value" and any(
            isinstance(value, torch.Tensor) and value.requires_grad for value in case.inputs
        )
        try:
            found = self.run(case, backward=has_gradients)
        except Exception as error:
            return failure.of_exception(error)
        if not compares:
            return None
        eager, truth = references(case, backward=has_gradients)
        wrong = list(_wrong_values(eager, truth, found)) if self.kind != "wrong gradient" else []
        return failure.of_mismatches("wrong value", wrong) or failure.of_mismatches(
            "wrong gradient", list(_wrong_gradients(eager, truth, found))
        )

    def wrong_outputs(self, case: GraphCase) -> list[Mismatch]:
        """All outputs that are wrong, in their order."""
        found = self.run(case, backward=False)
        eager, truth = references(case, backward=False)
        return list(_wrong_values(eager, truth, found))

    def run(self, case: GraphCase, *, backward: bool) -> Results:
        with nothing_remembered():
            return results_of(self.compiled(case), case, backward=backward)

    def compiled(self, case: GraphCase) -> Callable[..., Any]:
        module = case.fresh_module()
        compiled: Callable[..., Any]
        if self.through_dynamo or isinstance(self.backend, str):
            compiled = torch.compile(module, backend=self.backend)
        else:
            compiled = self.backend(module, case.fresh_inputs())
        return compiled


def references(case: GraphCase, *, backward: bool) -> tuple[Results, Results | None]:
    """What eager PyTorch computes, and the same in float64; None if that cannot be computed so."""
    eager = results_of(case.fresh_module(), case, backward=backward)
    try:
        wide = wide_case(case)
        truth = results_of(wide.module, wide, backward=backward)
    except Exception:
        return eager, None
    return eager, truth


def _wrong_values(eager: Results, truth: Results | None, found: Results) -> Sequence[Mismatch]:
    return list(mismatches(eager.values, truth.values if truth else None, found.values))


def _wrong_gradients(eager: Results, truth: Results | None, found: Results) -> Sequence[Mismatch]:
    return list(mismatches(eager.gradients, truth.gradients if truth else None, found.gradients))


@dataclass(frozen=True)
class ConstraintCheck:
    """Holds a case against constraints; what every node gives is taken from an eager run."""

    constraints: tuple[Constraint, ...]
    stage: Stage
    wanted: Failure | None = None
    """The violation that is looked for; None for any."""

    def failure_of(self, case: GraphCase) -> Failure | None:
        nodes = tuple(read_nodes(with_values(case)))
        found = check_graph(CheckedGraph("graph_0", self.stage, nodes), self.constraints)
        failures = [failure.of_violation(violation) for violation in found]
        return next(
            (one for one in failures if self.wanted and self.wanted.is_kept_by(one)),
            next(iter(failures), None),
        )


def with_values(case: GraphCase) -> torch.fx.GraphModule:
    """A copy of the graph in which every node knows what it gives."""
    module = case.fresh_module()
    with torch.no_grad():
        _Noting(module).run(*case.fresh_inputs())
    return module


class _Noting(torch.fx.Interpreter):
    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        n.meta["val"] = value
        return value


@dataclass(frozen=True)
class UsersCheck:
    """Asks a function of the user's."""

    fails: Fails

    def failure_of(self, case: GraphCase) -> Failure | None:
        with nothing_remembered():
            found = self.fails(case.fresh_module(), case.fresh_inputs())
        if found is None or isinstance(found, Failure):
            return found
        raise TypeError(f"fails(gm, inputs) gave {type(found).__name__}; it must give a Failure or None")
