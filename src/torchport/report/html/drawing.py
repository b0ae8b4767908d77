"""The graphs of a model as drawings: boxes in rows, and edges with the places where they bend.

In: a graph and the layers of a report. Out: one drawing for all modules with the same graph, and for each layer which
drawing is its own. Rows have no heights here: the page gives them, so that a box can unfold in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torchport.capture.graph import CALL, Dim, Graph, Module, Node, Ref, Sym, TensorMeta, refs
from torchport.capture.plan import Plan, make_plan
from torchport.parity.result import Layer
from torchport.report.html.columns import Texts, tensor
from torchport.report.places import shown

MOST_BOXES = 400
MOST_PLACES = 5_000
"""The most boxes, and rows that long edges pass through, of a drawing: a larger one takes seconds and says nothing."""
MOST_PLACES_OF_ALL = 40_000
_NUMBERED = re.compile(r"_\d+$")
_GAP, _BEND = 26, 14
_CHARACTER, _MARGIN, _CALL_MARGIN, _NARROWEST, _WIDEST = 7.2, 22, 74, 84, 240


@dataclass(frozen=True)
class Box:
    kind: str
    """input, op, call or output."""
    name: str
    label: str
    """The text below the name: the operation, unless the name says it, the class of the module that is called, or the
    shape of an input."""
    shape: str = ""
    """The shape of what it gives, which its edges carry."""


@dataclass(frozen=True)
class Sketch:
    """The boxes and edges of a drawing: two modules with the same sketch share a drawing."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]


def drawings(graph: Graph, layers: Sequence[Layer], texts: Texts) -> dict[str, Any]:
    """The drawings with their operations, and the drawing of each layer (None if the graph does not have it)."""
    plan = make_plan(graph)
    children = _children(layers)
    numbers: dict[tuple[Any, ...], int] = {}
    made: list[dict[str, Any]] = []
    room = MOST_PLACES_OF_ALL
    of: list[int | None] = []
    for layer in layers:
        module = _module_of(graph, plan, layer, children.get(layer.name, []))
        if module is None:
            of.append(None)
            continue
        sketch, operations = _sketch(graph, module), _operations(graph, module, texts)
        key = (sketch, tuple(map(tuple, operations)))
        if key not in numbers:
            numbers[key] = len(made)
            drawing, used = _drawn(sketch, room)
            room -= used
            made.append({**drawing, "operations": operations})
        of.append(numbers[key])
    return {"of": of, "drawings": made}


def _children(layers: Sequence[Layer]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for layer in layers:
        if layer.parent is not None:
            found.setdefault(layer.parent, []).append(layer.name)
    return found


def _module_of(graph: Graph, plan: Plan, layer: Layer, children: list[str]) -> Module | None:
    """The module that a layer is a call of, or None if graph and report do not have the same calls."""
    call = plan.calls.get(layer.name)
    if call is None:
        return None
    module = graph.modules[call.module]
    calls = [node for node in module.nodes if node.op == CALL]
    return module if len(calls) == len(children) else None


@dataclass(frozen=True)
class _Shown:
    """A node of a module, or of a body that one of its nodes runs, and the module or body that it is in."""

    module: Module
    node: Node
    scope: str
    """Before the node's name, so that no other node of the drawing has it: `cond.true/` inside a branch."""

    @property
    def name(self) -> str:
        return f"{self.scope}{self.node.name}"

    def scope_of(self, role: str) -> str:
        return f"{self.name}.{role}/"


def _shown(graph: Graph, module: Module, scope: str = "") -> Iterator[_Shown]:
    """The nodes of a module in order, each with the nodes of its bodies after it."""
    for node in module.nodes:
        one = _Shown(module, node, scope)
        yield one
        for role, key in node.bodies.items():
            yield from _shown(graph, graph.modules[key], one.scope_of(role))


def _sketch(graph: Graph, module: Module) -> Sketch:
    boxes = [
        Box("input", item.hint or item.name, describe(item.meta), _shape(item.meta)) for item in module.inputs
    ]
    named = {item.name: place for place, item in enumerate(module.inputs)}
    edges = []
    for one in _shown(graph, module):
        place = named[one.name] = len(boxes)
        boxes.append(_box(graph, one))
        read = dict.fromkeys(f"{one.scope}{ref.name}" for ref in refs([list(one.node.args), one.node.kwargs]))
        edges += [(named[name], place) for name in read if name in named and named[name] != place]
        for role, key in one.node.bodies.items():
            named |= {f"{one.scope_of(role)}{item.name}": place for item in graph.modules[key].inputs}
    for number, output in enumerate(module.outputs):
        given = [ref.name for ref in refs(output) if ref.name in named]
        if given:
            name = "output" if len(module.outputs) == 1 else f"output {number}"
            edges += [(named[ref], len(boxes)) for ref in dict.fromkeys(given)]
            boxes.append(Box("output", name, ""))
    return Sketch(tuple(boxes), tuple(dict.fromkeys(edges)))


def _box(graph: Graph, shown: _Shown) -> Box:
    node = shown.node
    gives = node.outputs[0] if len(node.outputs) == 1 else None
    shape = "" if gives is None else _shape(gives)
    if node.op != CALL:
        label = node.op.removeprefix("aten.").removesuffix(".default")
        says_it = _NUMBERED.sub("", node.name) in (label, label.partition(".")[0])
        return Box("op", shown.name, "" if says_it else label, shape)
    assert node.target is not None
    child = graph.modules[node.target]
    return Box("call", child.path.removeprefix(f"{shown.module.path}."), child.class_name, shape)


def _operations(graph: Graph, module: Module, texts: Texts) -> list[list[int | None]]:
    """For each node: its operation, arguments, results and source line, by the numbers of the texts."""
    rows = []
    for one in _shown(graph, module):
        node, path = one.node, one.module.path
        weights = {name: weight.removeprefix(f"{path}.") for name, weight in one.module.params.items()}
        results = "; ".join(describe(meta) for meta in node.outputs if meta is not None)
        given = [_argument(arg, weights) for arg in node.args]
        given += [f"{name}={_argument(arg, weights)}" for name, arg in node.kwargs.items()]
        called = ", ".join(given)
        rows.append([texts.number(text) for text in (node.op, called, results, shown(node.source))])
    return rows


def _argument(arg: Any, weights: dict[str, str]) -> str:
    if isinstance(arg, Ref):
        return weights.get(arg.name, arg.name) + (f"[{arg.index}]" if arg.index else "")
    if isinstance(arg, list | tuple):
        return f"[{', '.join(_argument(item, weights) for item in arg)}]"
    if isinstance(arg, Sym):
        return size(arg)
    return str(getattr(arg, "name", arg))


def describe(meta: TensorMeta) -> str:
    return tensor(meta.dtype, [size(dim) for dim in meta.shape])


def _shape(meta: TensorMeta) -> str:
    return f"[{', '.join(map(size, meta.shape))}]"


def size(dim: Dim) -> str:
    return _expression(dim.expr) if isinstance(dim, Sym) else str(dim)


_SIGNS = {"add": " + ", "mul": "·", "floordiv": "//", "mod": " % ", "pow": "**"}


def _expression(expr: Any) -> str:
    if not isinstance(expr, tuple):
        return str(expr)
    parts = [_expression(operand) for operand in expr[1:]]
    if expr[0] not in _SIGNS:
        return f"{expr[0]}({', '.join(parts)})"
    text = _SIGNS[expr[0]].join(parts)
    return f"({text})" if expr[0] == "add" else text


# layout


def _drawn(sketch: Sketch, room: int) -> tuple[dict[str, Any], int]:
    """The drawing and the places that it takes; if it is too large, the reason stands in for its rows."""
    drawing: dict[str, Any] = {
        "kind": [box.kind for box in sketch.boxes],
        "name": [box.name for box in sketch.boxes],
        "label": [box.label for box in sketch.boxes],
        "shape": [box.shape for box in sketch.boxes],
    }
    taken = places(sketch)
    if len(sketch.boxes) > MOST_BOXES or taken > min(MOST_PLACES, room):
        many = f"{len(sketch.boxes)} boxes and {len(sketch.edges)} edges"
        return {**drawing, "skipped": f"The graph of this module is not drawn: it has {many}."}, 0
    return {**drawing, **layout(sketch)}, taken


def places(sketch: Sketch) -> int:
    """The number of boxes and of rows that edges pass through, if every box is as high up as its inputs allow."""
    rows = [0] * len(sketch.boxes)
    for start, end in sketch.edges:
        rows[end] = max(rows[end], rows[start] + 1)
    return len(rows) + sum(rows[end] - rows[start] - 1 for start, end in sketch.edges)


def layout(sketch: Sketch) -> dict[str, Any]:
    from grandalf.graphs import Edge, Vertex
    from grandalf.graphs import Graph as Drawn
    from grandalf.layouts import SugiyamaLayout

    vertices = [Vertex(place) for place in range(len(sketch.boxes))]
    widths = [_width(box) for box in sketch.boxes]
    for vertex, width in zip(vertices, widths, strict=True):
        vertex.view = _View(width)
    edges = [Edge(vertices[start], vertices[end]) for start, end in sketch.edges]
    rows, xs = [0] * len(vertices), [0.0] * len(vertices)
    bends: dict[Any, list[tuple[int, float]]] = {}
    left = 0.0
    for component in Drawn(vertices, edges).C:
        sugiyama = SugiyamaLayout(component)
        sugiyama.xspace, sugiyama.dw = _GAP, _BEND
        sugiyama.init_all()
        sugiyama.draw(3)
        shift = left - min(view.xy[0] - view.w / 2 for view in _views(sugiyama))
        for vertex in component.sV:
            rows[vertex.data], xs[vertex.data] = sugiyama.grx[vertex].rank, vertex.view.xy[0] + shift
        for edge, through in sugiyama.ctrls.items():
            inner = sorted((row, v.view.xy[0] + shift) for row, v in through.items() if v not in edge.v)
            bends[edge] = inner
        left = shift + max(view.xy[0] + view.w / 2 for view in _views(sugiyama)) + 2 * _GAP
    return {
        "row": rows,
        "x": [round(x) for x in xs],
        "width": widths,
        "edges": [_flat(edge, bends.get(edge, [])) for edge in edges],
    }


def _flat(edge: Any, bends: list[tuple[int, float]]) -> list[int]:
    """An edge as numbers: its start, its end, then the row and the x of each bend."""
    return [edge.v[0].data, edge.v[1].data, *(round(number) for bend in bends for number in bend)]


def _views(sugiyama: Any) -> Iterator[Any]:
    for row in sugiyama.layers:
        for vertex in row:
            yield vertex.view


class _View:
    """The view of a vertex, as the layout library wants it: the size of the box, and the place that it is given."""

    def __init__(self, width: int):
        self.w, self.h = width, 40
        self.xy = (0.0, 0.0)


def _width(box: Box) -> int:
    """The width of a box: room for its words and, for a call, for its signs and the button that unfolds it."""
    longest = max(len(box.name), len(box.label) if box.kind in ("op", "call") else 0)
    margin = _CALL_MARGIN if box.kind == "call" else _MARGIN
    return round(min(_WIDEST, max(_NARROWEST, longest * _CHARACTER + margin)))
