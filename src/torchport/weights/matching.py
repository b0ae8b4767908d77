"""Which tensor of a checkpoint is which weight of a port, and what is missing, left over or ambiguous.

In: the graph of a manifest, a checkpoint and rules. Out: a `Match`, in which every decision can be looked at before a
byte is read. A name is matched in full; nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torchport.capture.graph import Graph, TensorMeta
from torchport.errors import WeightsError
from torchport.parity.metrics import Form
from torchport.weights.checkpoint import Checkpoint
from torchport.weights.rules import Rules
from torchport.weights.stored import Stored
from torchport.weights.table import Entry, Table, applied, table_of
from torchport.weights.views import Cast, is_wider

StoredAs = Callable[[TensorMeta], TensorMeta]
"""The shape and dtype in which a port loads a weight, which may be another than the model's."""


class Wanted(NamedTuple):
    """A weight that the port loads: its form, its other names if it is tied, and whether it is a parameter."""

    form: Form
    names: tuple[str, ...]
    kind: str


class Found(NamedTuple):
    """Where a weight comes from: the tensor of the checkpoint, and the name that rules gave it."""

    name: str
    entry: Entry
    also: tuple[Entry, ...]
    """Further tensors of the checkpoint that the port holds to be the same one."""


@dataclass(frozen=True)
class Match:
    wanted: dict[str, Wanted]
    prefixes: tuple[str, ...]
    others: tuple[str, ...]
    """Further prefixes under which the checkpoint has as many of the names."""
    found: dict[str, Found] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    left_over: dict[str, Form] = field(default_factory=dict)
    """What nothing asks for, by the names that rules gave."""
    misfits: dict[str, str] = field(default_factory=dict)
    """Why a tensor of the right name is not the one that the port needs."""

    recorded: tuple[str, ...] = ()
    """The weights that are not from the checkpoint but from the recording."""

    @property
    def is_ready(self) -> bool:
        return not (self.missing or self.misfits or self.others)

    def cast(self) -> dict[str, str]:
        """The weights whose dtype in the checkpoint is another, with that dtype."""
        forms = {name: one.entry.stored.form for name, one in self.found.items()}
        return {
            name: form.dtype for name, form in forms.items() if form.dtype != self.wanted[name].form.dtype
        }


def wanted_by(graph: Graph) -> dict[str, Wanted]:
    """The weights that a port loads: those that are not another one under a second name."""
    tied: dict[str, list[str]] = defaultdict(list)
    for name, weight in graph.weights.items():
        if weight.tied_to is not None:
            tied[weight.tied_to].append(name)
    return {
        name: Wanted(_form(weight.meta), (name, *tied[name]), weight.kind)
        for name, weight in graph.weights.items()
        if weight.tied_to is None
    }


def match(
    graph: Graph,
    checkpoint: Checkpoint,
    rules: Rules,
    prefixes: tuple[str, ...] = (),
    recorded: Mapping[str, Stored] | None = None,
    *,
    recorded_buffers: bool = False,
) -> Match:
    """Finds each weight of the graph in the checkpoint. `prefixes` count more than those of the rules.

    Constants are those that were recorded with the graph; so are, with `recorded_buffers`, buffers that are not in the
    checkpoint, which would be wrong of buffers that the checkpoint has under another name.
    """
    wanted = wanted_by(graph)
    chosen = prefixes or rules.prefix
    others: tuple[str, ...] = ()
    for prefix in chosen:
        if not any(name.startswith(prefix) for name in checkpoint.tensors):
            raise WeightsError(
                "TP0323", f"no name in the checkpoint begins with {prefix!r}", where=str(checkpoint.files[0])
            )
    if not chosen:
        chosen, others = _prefix(wanted, checkpoint, rules)
    table = applied(table_of(checkpoint.tensors, chosen), rules.rules)
    found: dict[str, Found] = {}
    missing: list[str] = []
    misfits: dict[str, str] = {}
    of_the_recording: list[str] = []
    for name, one in wanted.items():
        there = [(alias, table.entries[alias]) for alias in one.names if alias in table.entries]
        may_be_recorded = one.kind == "constant" or (one.kind == "buffer" and recorded_buffers)
        if not there and may_be_recorded and name in (recorded or {}):
            there = [(name, Entry((recorded or {})[name], (name,)))]
            of_the_recording.append(name)
        if not there:
            missing.append(name)
            continue
        found[name] = Found(there[0][0], there[0][1], tuple(entry for _, entry in there[1:]))
        why = next((why for _, entry in there if (why := _misfit(one.form, entry)) is not None), None)
        if why is not None:
            misfits[name] = why
    return Match(
        wanted,
        chosen,
        others,
        found,
        tuple(missing),
        dict(_left_over(wanted, table, checkpoint)),
        misfits,
        tuple(of_the_recording),
    )


def converted(name: str, wanted: Form, entry: Entry, stored_as: StoredAs) -> Stored:
    """The tensor in the dtype in which the port loads it; its bytes are those of the shape in which it does."""
    loaded = stored_as(TensorMeta(wanted.shape, wanted.dtype)).dtype
    stored = entry.stored
    if stored.form.dtype != wanted.dtype:
        stored = Cast(stored, wanted.dtype, name)
    if wanted.dtype in _AS_PAIRS and loaded == _AS_PAIRS[wanted.dtype]:
        return stored
    return stored if loaded == wanted.dtype else Cast(stored, loaded, name)


_AS_PAIRS = {"complex64": "float32", "complex128": "float64"}
"""Complex numbers are pairs already, as they lie in memory."""


def _form(meta: TensorMeta) -> Form:
    return Form(meta.dtype, tuple(int(size) for size in meta.shape))  # type: ignore[arg-type]


def _misfit(wanted: Form, entry: Entry) -> str | None:
    """Why a tensor is not the one that is wanted; a dtype that holds every value of it is no reason."""
    form = entry.stored.form
    if form.shape != wanted.shape:
        return f"has the shape {list(form.shape)}, and the port loads {list(wanted.shape)}"
    if form.dtype != wanted.dtype and not entry.is_cast and not is_wider(form.dtype, wanted.dtype):
        return f"is of {form.dtype}, and the port loads {wanted.dtype}, which does not hold all of its values"
    return None


def _left_over(
    wanted: Mapping[str, Wanted], table: Table, checkpoint: Checkpoint
) -> Iterator[tuple[str, Form]]:
    asked = {name for one in wanted.values() for name in one.names}
    for name, entry in table.entries.items():
        if name not in asked:
            yield name, entry.stored.form
    known = {origin for entry in table.entries.values() for origin in entry.origins} | set(table.dropped)
    for name, stored in checkpoint.tensors.items():
        if name not in known:
            yield name, stored.form


def _prefix(
    wanted: Mapping[str, Wanted], checkpoint: Checkpoint, rules: Rules
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prefix under which the checkpoint has most of the parameters, and others under which it has as many."""
    head_of = {alias: name for name, one in wanted.items() for alias in one.names}
    counted = [name for name, one in wanted.items() if one.kind == "parameter"] or list(wanted)
    parameters = set(counted)
    covered: dict[str, set[str]] = defaultdict(set)
    for name in checkpoint.tensors:
        for prefix, rest in _splits(name):
            if head_of.get(rest) in parameters:
                covered[prefix].add(head_of[rest])
    if rules.rules:
        covered = {
            prefix: _covered(prefix, checkpoint, rules, head_of, parameters) for prefix in {"", *covered}
        }
    most = max(map(len, covered.values()), default=0)
    best = [prefix for prefix, names in covered.items() if len(names) == most] if most else [""]
    return ((best[0],), ()) if len(best) == 1 else (("",), tuple(sorted(best)))


def _covered(
    prefix: str, checkpoint: Checkpoint, rules: Rules, head_of: Mapping[str, str], parameters: set[str]
) -> set[str]:
    """The parameters that are found under a prefix by the rules; none if the rules do not fit there."""
    try:
        table = applied(table_of(checkpoint.tensors, (prefix,)), rules.rules)
    except WeightsError:
        return set()
    return {head_of[name] for name in table.entries if head_of.get(name) in parameters}


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """The ways to part a name at a dot, which goes with the prefix: ("", "a.b"), ("a.", "b")."""
    parts = name.split(".")
    for number in range(len(parts)):
        rest = ".".join(parts[number:])
        yield name.removesuffix(rest), rest
