"""What runs outside of any graph, because of a graph break: seen, kept and held against the constraints too.

with outside_watched(backend.session):
    compiled(x)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from torchport.capture.torch_internals import TorchDispatchMode, pytree
from torchport.debug.backends.call_sites import CallSite
from torchport.debug.backends.holding import Holder
from torchport.debug.backends.running import is_inside_graph, outside_seen
from torchport.debug.constraints.base import CheckedGraph, Constraint
from torchport.debug.facts import facts_of
from torchport.debug.internals.compiling import is_compiling, is_fake
from torchport.debug.nodes import GraphNode
from torchport.debug.session import Session

_NOT_COUNTED = ("aten.detach.default", "aten.alias.default", "aten.lift_fresh.default")
"""What torch does of its own accord around graphs; it moves nothing and computes nothing."""


@contextmanager
def outside_watched(
    session: Session,
    *,
    constraints: Sequence[Constraint] | None = None,
    strict: bool = False,
    name: str = "outside",
) -> Iterator[None]:
    """Within, operations of this thread that no graph holds are kept in the session under the stage "outside".

    What breaks a constraint (the session's, or those given) is logged, or raised at once if strict. An operation that a
    line runs again with tensors of the same kind is kept once.
    """
    with Outside(session, constraints=constraints, strict=strict, name=name).watched():
        yield


class Outside:
    """What runs outside of any graph, in any number of calls and threads."""

    def __init__(
        self,
        session: Session,
        *,
        constraints: Sequence[Constraint] | None = None,
        strict: bool = False,
        name: str = "outside",
    ) -> None:
        rules = session.constraints if constraints is None else constraints
        self.holder, self.name = Holder(session, rules, strict), name
        self._nodes: list[GraphNode] = []
        self._known: set[Any] = set()
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, operations of this thread are looked at."""
        try:
            with outside_seen(), _Watching(self):
                yield
        finally:
            with self._lock:
                nodes = tuple(self._nodes)
            self.holder.session.keep(CheckedGraph(self.name, "outside", nodes))

    def look_at(self, op: str, result: Any) -> None:
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        site = CallSite()
        facts = tuple(facts_of(tensor) for tensor in tensors if not is_fake(tensor))
        if site.is_of_graph or len(facts) < len(tensors) or not self._is_new(op, site.source, facts):
            return
        path, kind = site.module()
        node = GraphNode(
            name=self._name_of(op),
            op=op,
            kind="call_function",
            inputs=(),
            tensors=facts,
            module=path,
            module_type=kind,
            source=site.source,
            known_as=site.known_as(op),
        )
        with self._lock:
            self._nodes.append(node)
        graph = CheckedGraph(self.name, "outside", (node,))
        self.holder.judge(*self.holder.session.find(graph, self.holder.constraints))

    def _is_new(self, *fact: Any) -> bool:
        with self._lock:
            is_new = fact not in self._known
            self._known.add(fact)
        return is_new

    def _name_of(self, op: str) -> str:
        own = op.split(".")[1] if "." in op else op
        with self._lock:
            count = self._counts[own] = self._counts.get(own, -1) + 1
        return own if count == 0 else f"{own}_{count}"


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Dynamo compiles although this mode is on, which it does not for others."""
        return True

    def __init__(self, outside: Outside) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.outside = outside

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not (is_inside_graph() or is_compiling() or str(func) in _NOT_COUNTED):
            self.outside.look_at(str(func), result)
        return result
