"""Which weights of a model can be in blocks: the matrices that are only multiplied with, or only looked up in.

In: a captured graph. Out: for each weight, that it can be or why it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchport.capture.graph import Graph
from torchport.quant.uses import Use, Uses


@dataclass(frozen=True)
class Candidate:
    """A weight that can be in blocks."""

    name: str
    shape: tuple[int, int]
    """Of the rows that are put in blocks: the outputs, or the entries of a table, first."""
    layer: str
    """The path of the module that reads it, the first if there are several."""
    is_table: bool
    """Whether rows of it are looked up, and it is multiplied with nowhere."""
    is_looked_up: bool
    """Whether rows of it are looked up somewhere, as those of an embedding that is tied to a head are."""
    inputs_first: bool = False
    """Whether the model has it the other way round, as `addmm` reads it."""
    given: tuple[str, ...] = ()
    """The keys of all that it is multiplied with in a recording; none if that is not recorded."""

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
    all_uses = Uses(graph)
    for name, weight in graph.weights.items():
        if weight.tied_to is not None:
            continue
        uses = list(all_uses.of(name))
        if weight.meta.dtype != "float32":
            floats[name] = f"{weight.kind} of {weight.meta.dtype}"
        elif weight.meta.rank != 2:
            floats[name] = (
                f"{weight.kind} with {weight.meta.rank} ax{'is' if weight.meta.rank == 1 else 'es'}"
            )
        elif other := [use for use in uses if not (use.is_product or use.is_lookup)]:
            floats[name] = f"{weight.kind} read by {other[0].operation}"
        elif not uses:
            floats[name] = f"{weight.kind} that nothing reads"
        elif len({use.inputs_first for use in uses}) > 1:
            floats[name] = f"{weight.kind} that is read in two directions"
        else:
            first, second = (int(size) for size in weight.meta.shape)  # type: ignore[arg-type]
            candidates[name] = _candidate(name, (first, second), uses)
    return Chosen(candidates, floats)


def _candidate(name: str, shape: tuple[int, int], uses: Sequence[Use]) -> Candidate:
    inputs_first = uses[0].inputs_first
    products = [use for use in uses if use.is_product]
    known = [use.given for use in products if use.given is not None]
    return Candidate(
        name,
        (shape[1], shape[0]) if inputs_first else shape,
        uses[0].module.path,
        is_table=not products,
        is_looked_up=any(use.is_lookup for use in uses),
        inputs_first=inputs_first,
        # What is known of some of its products says nothing of the others.
        given=tuple(key for keys in known for key in keys) if len(known) == len(products) else (),
    )
