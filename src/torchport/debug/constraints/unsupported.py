"""Operations that hardware does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.constraints.operation_names import (
    Operation,
    all_names,
    full_names,
    names_of_node,
    needs_whole_operations,
    packet_of,
    suggestion,
)
from torchport.debug.nodes import GraphNode
from torchport.errors import UsageError


class UnsupportedOpsConstraint(Constraint):
    """No operation that is denied by its name, or by a pattern, is in a graph.

    `denied` has full overloads (`aten.convolution.default`), operations with all their overloads (`aten.convolution`),
    functions (`torch.nn.functional.conv2d`), or the objects themselves. `patterns` are matched like file names, with or
    without the overload: `aten.*pool*`. Names are looked for in graphs of Dynamo's and in ATen graphs, so that
    `aten.conv2d` is found although ATen graphs hold `aten.convolution` in its place, and the other way round.
    """

    name = "unsupported_ops"

    def __init__(self, denied: Iterable[Operation] = (), patterns: Sequence[str] = ()) -> None:
        if isinstance(denied, str):
            denied = [denied]
        if isinstance(patterns, str):
            patterns = [patterns]
        self.denied: dict[str, str] = {}
        """What each full name that is denied was given as."""
        for given in denied:
            for name in _checked_names(given):
                self.denied.setdefault(name, str(given))
        self.patterns = tuple(_checked_pattern(pattern) for pattern in patterns)
        self.needs_whole_operations = bool(self.patterns) or needs_whole_operations(self.denied)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            reason = self._reason(node)
            if reason is not None:
                yield self.violated_by(node, reason)

    def _reason(self, node: GraphNode) -> str | None:
        for name in names_of_node(node.op, node.known_as):
            if name in self.denied:
                given = self.denied[name]
                return f"{given} is denied" if given == name else f"{name} is denied, as {given}"
            for pattern in self.patterns:
                if fnmatchcase(name, pattern) or fnmatchcase(packet_of(name), pattern):
                    return f"{name} is denied by the pattern {pattern}"
        return None


def _checked_names(given: Operation) -> frozenset[str]:
    if isinstance(given, str) and any(sign in given for sign in "*?["):
        fix = f"Give it as a pattern: patterns=[{given!r}]."
        raise UsageError("TP1004", f"{given!r} is a pattern, not the name of an operation", fix=fix)
    names = full_names(given)
    if not names:
        shown = repr(given) if isinstance(given, str) else str(given)
        raise UsageError("TP1004", f"torch has no operation {shown}", fix=suggestion(str(given)))
    return names


def _checked_pattern(pattern: str) -> str:
    text = pattern.removeprefix("torch.ops.").replace("::", ".")
    if not any(fnmatchcase(name, text) for name in all_names()):
        raise UsageError("TP1004", f"the pattern {pattern!r} matches no operation of torch")
    return text
