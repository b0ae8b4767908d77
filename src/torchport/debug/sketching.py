"""What a picture of an fx graph shows: a box for each operation, its small inputs folded into it, and edges.

Weights, saved values and views of them have no boxes of their own. They are lines in the box that reads them, since an
edge from the top of a graph of hundreds of nodes to its end says less than the name does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchport.debug.nodes import GraphNode, TensorFacts

_VIEWS = {
    "alias", "clone", "contiguous", "convert_element_type", "detach", "expand", "permute", "reshape", "slice",
    "squeeze", "t", "to", "_to_copy", "transpose", "unsqueeze", "view",
}  # fmt: skip
"""Operations that compute nothing; one of them on a weight is folded into the box that reads it."""
MOST_GROUPS = 12
_MOST_READS = 3
_LONGEST_NAME = 26


@dataclass(frozen=True)
class Shown:
    """A box of the picture."""

    kind: str
    """input or op."""
    name: str
    op: str
    lines: tuple[str, ...]
    """The tensors that it gives, and the weights and saved values that it reads."""
    group: str
    """The module that it belongs to, by which it is coloured; "" for the model itself."""
    about: str
    """All that is known, for whoever points at the box."""
    is_output: bool


@dataclass(frozen=True)
class Picture:
    boxes: tuple[Shown, ...]
    edges: tuple[tuple[int, int], ...]


def picture(nodes: Sequence[GraphNode]) -> Picture:
    known = {node.name: node for node in nodes}
    folded = _folded(nodes, known)
    given = {name for node in nodes if node.kind == "output" for name in node.inputs}
    shown = _near_first_use([node for node in nodes if node.kind != "output" and node.name not in folded])
    groups = _groups(shown)
    places = {node.name: place for place, node in enumerate(shown)}
    boxes = tuple(
        Shown(
            kind="op" if node.kind.startswith("call_") else "input",
            name=node.name,
            op=short_name(node.op) if node.kind.startswith("call_") else node.kind,
            lines=(*_gives(node), *_reads(node, folded)),
            group=groups[node.name],
            about=_about(node, folded),
            is_output=node.name in given,
        )
        for node in shown
    )
    edges = [(places[name], places[node.name]) for node in shown for name in node.inputs if name in places]
    return Picture(boxes, tuple(dict.fromkeys(edges)))


def anchors(content: Picture) -> tuple[tuple[int, int], ...]:
    """Edges that are not drawn: they keep boxes that read no other box from being laid out at the very top.

    A box that begins a path is tied to a box two rows above the one that needs the path, at the end of a way from the
    top that is as long as any. So no row gets lower by it, and no circle can come about.
    """
    rows = [0] * len(content.boxes)
    before: list[list[int]] = [[] for _ in rows]
    after: list[list[int]] = [[] for _ in rows]
    for start, end in sorted(content.edges, key=lambda edge: edge[1]):
        rows[end] = max(rows[end], rows[start] + 1)
        before[end].append(start)
        after[start].append(end)
    lowest = list(rows)
    needed_by = list(range(len(rows)))
    for place in reversed(range(len(rows))):
        if after[place]:
            first = min(after[place], key=lambda one: lowest[one])
            lowest[place] = lowest[first] - 1
            needed_by[place] = needed_by[first] if lowest[first] > rows[first] else first
    found = []
    for place, row in enumerate(lowest):
        if row > 0 and not before[place]:
            above = needed_by[place]
            while rows[above] >= row:
                above = max(before[above], key=lambda one: rows[one])
            found.append((above, place))
    return tuple(found)


def short_name(op: str) -> str:
    """The name of an operation without what every name has."""
    for prefix in (
        "aten.",
        "torch.nn.functional.",
        "torch.Tensor.",
        "torch._C._nn.",
        "torch.",
        "operator.",
        "prims.",
    ):
        if op.startswith(prefix):
            op = op.removeprefix(prefix)
            break
    return op.removesuffix(".default")


def describe(tensor: TensorFacts) -> str:
    """Dtype and shape: float32[4, 8]."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _near_first_use(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """The nodes in order, but inputs only where the first node comes that reads them."""
    waiting = {node.name: node for node in nodes if node.kind in ("placeholder", "get_attr")}
    ordered = []
    for node in nodes:
        if node.kind.startswith("call_"):
            ordered += [waiting.pop(name) for name in node.inputs if name in waiting]
            ordered.append(node)
    return [*ordered, *waiting.values()]


def _folded(nodes: Sequence[GraphNode], known: dict[str, GraphNode]) -> dict[str, str]:
    """What has no box of its own, with the text that stands for it where it is read."""
    users = Counter(name for node in nodes if node.kind != "output" for name in node.inputs)
    begun = _begun_with(nodes, known)
    folded: dict[str, str] = {}
    for node in nodes:
        if node.kind in ("placeholder", "get_attr"):
            if node.name not in begun:
                folded[node.name] = _read_text(node.name, node)
        elif _is_view_of(node, folded) and users[node.name] == 1:
            folded[node.name] = _read_text(f"{node.name} of {node.inputs[0]}", node)
    return folded


def _begun_with(nodes: Sequence[GraphNode], known: dict[str, GraphNode]) -> set[str]:
    """The inputs that have boxes: each is what an operation begins with that reads nothing computed."""
    found = set()
    for node in nodes:
        computes = node.kind.startswith("call_") and short_name(node.op) not in _VIEWS
        if computes and node.inputs and not any(known[name].kind.startswith("call_") for name in node.inputs):
            found.add(node.inputs[0])
    return found


def _is_view_of(node: GraphNode, folded: dict[str, str]) -> bool:
    name = short_name(node.op).partition(".")[0]
    return name in _VIEWS and len(node.inputs) == 1 and node.inputs[0] in folded


def _read_text(name: str, node: GraphNode) -> str:
    short = name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"
    return f"{short} {describe(node.tensors[0])}" if node.tensors else short


def _gives(node: GraphNode) -> list[str]:
    described = [describe(tensor) for tensor in node.tensors[:2]]
    return [*described, f"and {len(node.tensors) - 2} more"] if len(node.tensors) > 2 else described


def _reads(node: GraphNode, folded: dict[str, str]) -> list[str]:
    read = [f"← {folded[name]}" for name in dict.fromkeys(node.inputs) if name in folded]
    return [*read[:_MOST_READS], f"← {len(read) - _MOST_READS} more"] if len(read) > _MOST_READS else read


def _about(node: GraphNode, folded: dict[str, str]) -> str:
    inside = f"{node.module} ({node.module_type.rpartition('.')[2]})" if node.module else ""
    line = f"{Path(node.source).name}: {node.code}" if node.source else ""
    gives = "; ".join(f"{describe(one)}, {one.bytes:,} bytes" for one in node.tensors)
    read = ", ".join(folded.get(name, name) for name in node.inputs)
    return "\n".join(part for part in (f"{node.name} = {node.op}({read})", gives, inside, line) if part)


def _groups(nodes: Sequence[GraphNode]) -> dict[str, str]:
    """The part of the model of each node: paths cut as deep as can be with not too many parts to have colours."""
    depth, found = 1, {node.name: _cut(node.module, 1) for node in nodes}
    for depth in range(2, 5):
        deeper = {node.name: _cut(node.module, depth) for node in nodes}
        if len(set(deeper.values())) > MOST_GROUPS:
            break
        found = deeper
    return found


def _cut(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])
