"""Holding the graphs of a compilation against constraints: what a violation leads to, strict or not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torchport.debug import graph_files
from torchport.debug.backends.free_sizes import FreeSizes
from torchport.debug.backends.repro import repro_script
from torchport.debug.backends.running import inside_graph, is_outside_seen
from torchport.debug.constraints.base import CheckedGraph, Constraint, Stage, Violation, distinct
from torchport.debug.facts import Sizes
from torchport.debug.folders import ROOT, new_tree
from torchport.debug.internals.aot_eager import is_restart
from torchport.debug.internals.breaks_seen import breaks_around
from torchport.debug.nodes import copy_of
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError, DiskError, TorchportError

logger = logging.getLogger("torchport.debug")
Run = Callable[..., Any]
UNSEEN = (
    "what runs there is in no graph, and is held against no constraint. To see and check it too, make the calls within"
    " `torchport.debug.outside_watched(session)`, or use `torchport debug run`."
    " Said once: session.breaks has every break"
)
_MOST_NAMED = 5
"""How many violations an error names; all are in the session."""


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
    always_repro: bool = False
    """Whether the script for a violation is written although there is no tree: to a folder where runs are."""
    _written: set[tuple[str, Stage]] = field(default_factory=set)
    _repros: ArtifactTree | None = None

    def hold(
        self, name: str, stage: Stage, module: torch.fx.GraphModule, sizes: Sizes | None = None
    ) -> CheckedGraph:
        """Keeps a graph in the session. What breaks a constraint is logged, or raised if strict."""
        if stage == "dynamo":
            self._note_breaks(module)
        graph, unread = self.session.read(name, stage, module, self.constraints, sizes)
        found, unchecked = self.session.find(graph, self.constraints)
        if self.session.tree is not None and (name, stage) not in self._written:
            self._written.add((name, stage))
            graph_files.write_graph(self.session.tree, graph, module, found)
        self.judge(found, (*unread, *unchecked), lambda: self._write_repro(found[0], module, sizes))
        return graph

    def _note_breaks(self, module: torch.fx.GraphModule) -> None:
        """Keeps where the graph begins or ends at a break; it is logged once that nobody sees what runs there."""
        for one in breaks_around(module):
            if self.session.add_break(one) and not is_outside_seen():
                why = "" if one.reason is None else f" ({one.reason})"
                self.log.warn("breaks", f"the graph breaks at {one.place}{why}: {UNSEEN}")

    def judge(
        self,
        found: Sequence[Violation],
        faults: Sequence[CompileError],
        repro: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """Logs what was found and what could not be checked; if strict, the first of it is raised, with a repro."""
        for fault in faults:
            self.failed(fault)
        if found and self.strict:
            raise violation_error(found, repro())
        for one in found:
            place = "outside of graphs" if one.stage == "outside" else f"{one.graph} ({one.stage})"
            self.log.warn(one.fact, f"{place}: {one}")

    def failed(self, fault: CompileError) -> None:
        """Something could not be checked: that stops a strict backend too."""
        self.session.add_fault(fault)
        if self.strict:
            raise fault
        self.log.warn(str(fault), str(fault))

    def given_up(self, name: str, error: Exception) -> None:
        """A graph could not be compiled. If that only tells Dynamo to make it anew, this one is forgotten."""
        if is_restart(error):
            self.session.forget(name)

    def aot_failed(self, name: str, error: Exception) -> None:
        """AOTAutograd failed on a graph; what it raised is raised again if that is no failure of its own."""
        self.given_up(name, error)
        if is_restart(error) or isinstance(error, TorchportError):
            raise error
        self.failed(CompileError("TP1007", f"AOTAutograd failed on {name}: {type(error).__name__}: {error}"))

    def run(self, name: str, stage: Stage, module: torch.fx.GraphModule, *, checked: bool = True) -> Run:
        """What runs a graph as it is; see `calls`."""
        return self.calls(name, stage, module, checked=checked).run(module.forward)

    def calls(self, name: str, stage: Stage, module: torch.fx.GraphModule, *, checked: bool = True) -> Calls:
        """The calls of a graph, to be asked for before a backend, which may change the graph, is given it.

        If it is not `checked` yet, it is on its first call: a backward graph may be compiled and never be run.
        """
        free = FreeSizes(module)
        is_accepted = checked and set(free.example) == set(free.places)
        accepted = {tuple(free.example.values())} if is_accepted else set()
        kept = copy_of(module) if free.places or not checked else module
        return Calls(partial(self.hold, name, stage, kept), free, accepted)

    def _write_repro(
        self, violation: Violation, module: torch.fx.GraphModule, sizes: Sizes | None
    ) -> Path | None:
        tree = self._tree_of_repros()
        if tree is None:
            return None
        try:
            script = repro_script(module, violation, sizes)
        except Exception as error:
            tree.add_problem(f"no repro of {violation.graph} could be written: {error}")
            return None
        file = f"{violation.graph}_{violation.stage}_{violation.constraint}.py"
        return tree.write("repros", file, script, f"repro of {violation}", graph=violation.graph)

    def _tree_of_repros(self) -> ArtifactTree | None:
        """The tree of the session; without one, a folder of its own, which `torchport debug clean` knows."""
        if self.session.tree is None and self._repros is None and self.always_repro:
            try:
                self._repros = new_tree(ROOT, "repros")
            except DiskError as error:
                self.log.warn(error.message, f"no repro could be written: {error.message}")
        return self.session.tree or self._repros


@dataclass(frozen=True)
class Calls:
    """The calls of a compiled graph, which is checked with each new set of values of its free sizes."""

    hold: Callable[[Sizes | None], Any]
    free: FreeSizes
    accepted: set[tuple[int, ...]]

    @contextmanager
    def call(self, args: Sequence[Any]) -> Iterator[None]:
        """Within, the graph runs with these inputs."""
        sizes = self.free.of_call(args)
        if tuple(sizes.values()) not in self.accepted:
            self.hold(sizes or None)
            self.accepted.add(tuple(sizes.values()))
        with inside_graph():
            yield

    def run(self, compiled: Run) -> Run:
        def run(*args: Any) -> Any:
            with self.call(args):
                return compiled(*args)

        return run


def violation_error(found: Sequence[Violation], repro: Path | None = None) -> CompileError:
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
