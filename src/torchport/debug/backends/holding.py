"""Holding the graphs of a compilation against constraints: what a violation leads to, strict or not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.debug.backends.free_sizes import FreeSizes
from torchport.debug.backends.repro import repro_script
from torchport.debug.backends.running import inside_graph
from torchport.debug.constraints.base import Constraint, Stage, Violation, distinct
from torchport.debug.facts import Sizes
from torchport.debug.session import Session
from torchport.errors import CompileError

logger = logging.getLogger("torchport.debug")
Run = Callable[..., Any]
_MOST_NAMED = 5
"""How many violations an error names; all are in the session."""
_FOLDERS: dict[Stage, str] = {"dynamo": "fx_graphs", "forward": "aot_graphs", "backward": "aot_graphs"}


class LogOnce:
    """Warnings to the logger `torchport.debug`, each of them once."""

    def __init__(self) -> None:
        self._known: set[Any] = set()
        self._lock = threading.Lock()

    def warn(self, fact: Any, message: str) -> None:
        with self._lock:
            if fact in self._known:
                return
            self._known.add(fact)
        logger.warning("%s", message)


@dataclass
class Holder:
    session: Session
    constraints: Sequence[Constraint]
    strict: bool
    log: LogOnce = field(default_factory=LogOnce)

    def hold(self, name: str, stage: Stage, module: torch.fx.GraphModule, sizes: Sizes | None = None) -> None:
        """Keeps a graph in the session. What breaks a constraint is logged, or raised if strict."""
        graph, unread = self.session.read(name, stage, module, self.constraints, sizes)
        found, unchecked = self.session.find(graph, self.constraints)
        if sizes is None:
            self._write_graph(name, stage, module)
        for fault in (*unread, *unchecked):
            self.failed(fault)
        if found:
            self._violated(found, module, sizes)

    def failed(self, fault: CompileError) -> None:
        """Something could not be checked: that stops a strict backend too."""
        self.session.add_fault(fault)
        if self.strict:
            raise fault
        self.log.warn(str(fault), str(fault))

    def _violated(
        self, found: Sequence[Violation], module: torch.fx.GraphModule, sizes: Sizes | None
    ) -> None:
        if self.strict:
            raise violation_error(found, self._write_repro(found[0], module, sizes))
        for violation in found:
            self.log.warn(violation.fact, f"{violation.graph} ({violation.stage}): {violation}")

    def run(
        self,
        name: str,
        stage: Stage,
        module: torch.fx.GraphModule,
        *,
        compiled: Run | None = None,
        checked: bool = True,
    ) -> Run:
        """What runs a graph, or what it was `compiled` to, after a check with each new set of values of its free sizes.

        If it is not `checked` yet, it is on its first call: a backward graph may be compiled and never be run.
        """
        work = module.forward if compiled is None else compiled
        free = FreeSizes(module)
        accepted = (
            {tuple(free.example.values())} if checked and set(free.example) == set(free.places) else set()
        )

        def run(*args: Any) -> Any:
            sizes = free.of_call(args)
            if tuple(sizes.values()) not in accepted:
                self.hold(name, stage, module, sizes or None)
                accepted.add(tuple(sizes.values()))
            with inside_graph():
                return work(*args)

        return run

    def _write_graph(self, name: str, stage: Stage, module: torch.fx.GraphModule) -> None:
        tree = self.session.tree
        if tree is not None and stage in _FOLDERS:
            text = module.print_readable(print_output=False)
            file = f"{name}.py" if stage == "dynamo" else f"{name}_{stage}.py"
            tree.write(_FOLDERS[stage], file, text, f"{stage} graph", graph=name)

    def _write_repro(
        self, violation: Violation, module: torch.fx.GraphModule, sizes: Sizes | None
    ) -> str | None:
        tree = self.session.tree
        if tree is None:
            return None
        try:
            script = repro_script(module, violation, sizes)
        except Exception as error:
            tree.problems.append(f"no repro of {violation.graph} could be written: {error}")
            tree.write_index()
            return None
        file = f"{violation.graph}_{violation.stage}_{violation.constraint}.py"
        path = tree.write("repros", file, script, f"repro of {violation}", graph=violation.graph)
        return None if path is None else str(path)


def violation_error(found: Sequence[Violation], repro: str | None = None) -> CompileError:
    """The error for violations in a graph: each with operation, node, module and the user's line."""
    told = distinct(found)
    first = told[0]
    many = "1 violation of a constraint" if len(told) == 1 else f"{len(told)} violations of constraints"
    lines = [f"{many} in {first.graph} ({first.stage}):", *(f"  {one}" for one in told[:_MOST_NAMED])]
    if len(told) > _MOST_NAMED:
        lines.append(f"  and {len(told) - _MOST_NAMED} more")
    if repro is not None:
        lines.append(f"  repro: {repro}")
    return CompileError("TP1001", "\n".join(lines), fix=first.fix)
