"""Which values of a captured graph are random: what its operations draw, and all that depends on it.

In: a graph and its plan. Out: the trace keys of these values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from torchport.capture import graph as g
from torchport.capture.operations import draws_random_numbers
from torchport.capture.plan import Plan
from torchport.parity.drawn import NOTHING_DRAWN, Drawn, RandomSummary
from torchport.trace.plan import operation_key

SEED = 0
"""A model that draws, and its graph, are run from the same seed: so both must draw the same numbers."""


def is_drawn(node: g.Node) -> bool:
    """Whether an operation gives random numbers."""
    return node.op != g.CALL and not node.bodies and draws_random_numbers(node.op, node.args, node.kwargs)


def shown_nodes(module: g.Module) -> frozenset[str]:
    """The operations of a module whose values every trace has: those that draw, and what they draw from.

    From there a layer goes on with the golden numbers, so that all the rest of it is judged as ever.
    """
    drawing = [node for node in module.nodes if is_drawn(node)]
    if not drawing:
        return frozenset()
    read = {ref.name for node in drawing for ref in g.refs(values_read(node))}
    sources = {node.name for node in module.nodes if node.name in read and node.op != g.CALL}
    return frozenset({node.name for node in drawing} | sources)


def random_nodes(graph: g.Graph) -> Iterator[g.Node]:
    return (node for module in graph.modules.values() for node in module.nodes if is_drawn(node))


_LIKE = frozenset(
    f"aten.{name}"
    for name in (
        *("rand_like.default", "randn_like.default", "randint_like.default", "randint_like.low_dtype"),
        *("uniform.default", "exponential.default", "normal_functional.default"),
        *("bernoulli.p", "bernoulli.Tensor"),
    )
)
"""Operations that take of their first argument only the shape: its values may be any, as those of an empty tensor."""


def values_read(node: g.Node) -> list[g.Arg]:
    """The arguments whose values decide what is drawn."""
    return [node.args[1:] if node.op in _LIKE else node.args, node.kwargs]


def has_random(graph: g.Graph) -> bool:
    return next(random_nodes(graph), None) is not None


def drawn_values(graph: g.Graph, plan: Plan) -> Drawn:
    """The values that are random when the graph runs as its plan says."""
    nodes = list(random_nodes(graph))
    if not nodes:
        return NOTHING_DRAWN
    places = (f"{node.op}{f' at {node.source}' if node.source else ''}" for node in nodes)
    walk = _Walk(graph, plan)
    walk.call(graph.root, [_State.FREE] * len(graph.root.inputs))
    values, downstream, shown = (frozenset(keys) for keys in (walk.values, walk.downstream, walk.shown))
    return Drawn(values, downstream, shown, tuple(dict.fromkeys(places)))


def random_summary(graph: g.Graph, plan: Plan, drawn: Drawn) -> RandomSummary | None:
    """What a reader must know of what is random; None if nothing is."""
    if not drawn.operations:
        return None
    root = plan.calls[plan.root]
    is_random = {
        name: key in drawn.downstream for name, key in zip(graph.output_names, root.outputs, strict=True)
    }
    inside = [call for call in plan.calls.values() if call.parent is not None]
    return RandomSummary(
        operations=drawn.operations,
        layers=tuple(call.name for call in inside if drawn.downstream & set(call.outputs)),
        outputs=tuple(name for name, left_out in is_random.items() if left_out),
        proven=tuple(name for name, left_out in is_random.items() if not left_out),
    )


class _State(IntEnum):
    FREE = 0
    DEPENDS = 1
    DRAWN = 2


class _Walk:
    def __init__(self, graph: g.Graph, plan: Plan):
        self.graph, self.plan = graph, plan
        self.names = iter([name for kind, name in plan.events if kind == "enter"])
        self.values: set[str] = set()
        self.downstream: set[str] = set()
        self.shown: set[str] = set()
        self.sizes: set[str] = set()
        """The sizes that depend on random numbers."""

    def call(self, module: g.Module, given: Sequence[_State]) -> list[_State]:
        """Walks one call and gives the states of its outputs."""
        call = self.plan.calls[next(self.names)]
        states: dict[g.Ref, _State] = {}
        for item, key, state in zip(module.inputs, call.inputs, given, strict=True):
            states[g.Ref(item.name)] = self.note(key, state)
        self.shown |= {operation_key(call.name, name) for name in shown_nodes(module)}
        for node in module.nodes:
            for index, state in enumerate(self.node(node, states)):
                states[g.Ref(node.name, index)] = self.note(operation_key(call.name, node.name), state)
        results = [states.get(ref, _State.FREE) for ref in module.outputs]
        return [self.note(key, state) for key, state in zip(call.outputs, results, strict=True)]

    def node(self, node: g.Node, states: dict[g.Ref, _State]) -> list[_State]:
        arguments = [node.args, node.kwargs]
        if node.op == g.CALL:
            assert node.target is not None
            return self.call(
                self.graph.modules[node.target], [states.get(ref, _State.FREE) for ref in node.args]
            )
        if self._draws(node):
            state = _State.DRAWN if is_drawn(node) else _State.DEPENDS
        else:
            is_reached = any(states.get(ref) for ref in g.refs(arguments))
            is_reached |= bool(g.symbols_of(arguments) & self.sizes)
            state = _State.DEPENDS if is_reached else _State.FREE
        if state:
            dims = (dim for meta in node.outputs if meta is not None for dim in meta.shape)
            found = {str(dim.expr) for dim in dims if isinstance(dim, g.Sym)}
            self.sizes |= found & self.graph.measured
        return [state] * len(node.outputs)

    def _draws(self, node: g.Node) -> bool:
        """Whether an operation draws, or any inside its bodies does."""
        modules = self.graph.modules
        inside = (modules[key] for body in node.bodies.values() for key in g.reached(modules, body))
        return is_drawn(node) or any(is_drawn(one) for body in inside for one in body.nodes)

    def note(self, key: str, state: _State) -> _State:
        if state:
            self.downstream.add(key)
        if state == _State.DRAWN:
            self.values.add(key)
        return state
