"""Which weights of a model can be in blocks: the matrices that are only multiplied with, or only looked up in.

In: a captured graph. Out: for each weight, that it can be or why it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchport.capture.graph import Graph, Module, Node, Ref, refs

_WEIGHT_OF = {"aten.linear.default": 1, "aten.embedding.default": 0}
"""The operations that can read blocks, and which argument of them is the weight."""


@dataclass(frozen=True)
class Candidate:
    """A weight that can be in blocks."""

    name: str
    shape: tuple[int, int]
    layer: str
    """The path of the module that reads it, the first if there are several."""
    is_table: bool
    """Whether rows of it are looked up, and it is multiplied with nowhere."""
    is_looked_up: bool
    """Whether rows of it are looked up somewhere, as those of an embedding that is tied to a head are."""

    @property
    def numel(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class Chosen:
    """The weights of a model that can be in blocks, and the others with the reason."""

    candidates: Mapping[str, Candidate]
    floats: Mapping[str, str]


def choose(graph: Graph) -> Chosen:
    """The weights that are stored, each either a candidate or left as it is."""
    candidates: dict[str, Candidate] = {}
    floats: dict[str, str] = {}
    for name, weight in graph.weights.items():
        if weight.tied_to is not None:
            continue
        uses = list(_uses(graph, name))
        if weight.meta.dtype != "float32":
            floats[name] = f"{weight.kind} of {weight.meta.dtype}"
        elif weight.meta.rank != 2:
            floats[name] = (
                f"{weight.kind} with {weight.meta.rank} ax{'is' if weight.meta.rank == 1 else 'es'}"
            )
        elif other := [use for use in uses if use.operation not in _WEIGHT_OF]:
            floats[name] = f"{weight.kind} read by {other[0].operation}"
        elif not uses:
            floats[name] = f"{weight.kind} that nothing reads"
        else:
            rows, width = (int(size) for size in weight.meta.shape)  # type: ignore[arg-type]
            looked_up = [use.operation == "aten.embedding.default" for use in uses]
            layer = uses[0].module.path
            candidates[name] = Candidate(name, (rows, width), layer, all(looked_up), any(looked_up))
    return Chosen(candidates, floats)


@dataclass(frozen=True)
class _Use:
    module: Module
    operation: str


def _uses(graph: Graph, name: str) -> Iterator[_Use]:
    """Every operation that reads a weight under any of its names; what is not its weight argument is told apart."""
    names = {name} | {other for other, weight in graph.weights.items() if weight.tied_to == name}
    for module in graph.modules.values():
        here = {local for local, full in module.params.items() if full in names}
        if here & {ref.name for ref in refs(list(module.outputs))}:
            yield _Use(module, "the outputs")
        for node in module.nodes if here else ():
            read = [ref.name for ref in refs([list(node.args), node.kwargs]) if ref.name in here]
            if read:
                is_weight = read == [_weight_argument(node)]
                yield _Use(
                    module, node.op if is_weight or node.op not in _WEIGHT_OF else f"{node.op} in another way"
                )


def _weight_argument(node: Node) -> str | None:
    place = _WEIGHT_OF.get(node.op)
    if place is None:
        return None
    given = node.args[place] if len(node.args) > place else node.kwargs.get("weight")
    return given.name if isinstance(given, Ref) else None
