"""The tensors of a checkpoint by the names that rules give them. Applying a rule reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import accumulate

from torchport.errors import WeightsError
from torchport.weights import rules as r
from torchport.weights.stored import Stored
from torchport.weights.views import Cast, Joined, View

_ASKED = "port"


@dataclass(frozen=True)
class Entry:
    """A tensor, and the names that what it is made of has in the checkpoint."""

    stored: Stored
    origins: tuple[str, ...]
    is_cast: bool = False
    """Whether it may be cast to the dtype that the port loads, even if digits are lost."""


@dataclass
class Table:
    entries: dict[str, Entry]
    dropped: list[str] = field(default_factory=list)
    """The names in the checkpoint of what rules left out."""

    def take(self, name: str) -> Entry:
        return self.entries.pop(name)

    def put(self, name: str, entry: Entry) -> None:
        if name in self.entries:
            others = ", ".join(self.entries[name].origins)
            message = f"two tensors would be called {name}: {', '.join(entry.origins)} and {others}"
            raise r.wrong(message, fix="Rename one of them, or drop it.")
        self.entries[name] = entry


def table_of(tensors: Mapping[str, Stored], prefixes: Sequence[str]) -> Table:
    """The tensors whose names begin with a prefix, without it; the first prefix that has a name counts."""
    table = Table({})
    for prefix in prefixes:
        for name, stored in tensors.items():
            short = name.removeprefix(prefix)
            if name.startswith(prefix) and short and short not in table.entries:
                table.put(short, Entry(stored, (name,)))
    return table


def applied(table: Table, rules: Sequence[r.Rule]) -> Table:
    """The table after all rules. A rule that matches nothing is an error."""
    for number, rule in enumerate(rules, 1):
        try:
            matched = _apply(rule, table)
        except WeightsError as error:
            raise r.wrong(f"rule {number}: {error.message}", fix=error.fix) from error
        if not matched:
            raise r.wrong(
                f"rule {number} matches no name: {_shown(rule)}",
                fix="A regular expression must match a whole name; `torchport weights inspect` lists the names.",
            )
    return table


def _shown(rule: r.Rule) -> str:
    given = rule.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    return ", ".join(f"{key}: {value}" for key, value in given.items())


@singledispatch
def _apply(rule: r.Rule, table: Table) -> int:
    """Applies a rule, and gives how many names it matched."""
    raise TypeError(f"there is no such rule: {rule}")


@_apply.register
def _(rule: r.Rename, table: Table) -> int:
    found = list(r.matching(table.entries, rule.rename))
    taken = [(table.take(name), r.expanded(match, rule.to)) for name, match in found]
    for entry, name in taken:
        table.put(name, entry)
    return len(found)


@_apply.register
def _(rule: r.Copy, table: Table) -> int:
    found = list(r.matching(table.entries, rule.copy_))
    for name, match in found:
        table.put(r.expanded(match, rule.to), table.entries[name])
    return len(found)


@_apply.register
def _(rule: r.Drop, table: Table) -> int:
    found = list(r.matching(table.entries, rule.drop))
    for name, _ in found:
        table.dropped += table.take(name).origins
    return len(found)


@_apply.register
def _(rule: r.Transpose, table: Table) -> int:
    def turned(stored: Stored) -> Stored:
        rank = len(stored.form.shape)
        axes = rule.axes if rule.axes is not None else [1, 0]
        if sorted(axes) != list(range(rank)):
            raise r.wrong(f"the shape is {list(stored.form.shape)}, and the axes are {axes}")
        return View.of(stored).permuted(axes)

    return _changed(table, rule.transpose, turned)


@_apply.register
def _(rule: r.Cast, table: Table) -> int:
    found = list(r.matching(table.entries, rule.cast))
    for name, _ in found:
        entry = table.take(name)
        if rule.dtype == _ASKED:
            table.put(name, Entry(entry.stored, entry.origins, is_cast=True))
        else:
            table.put(name, Entry(Cast(entry.stored, rule.dtype, name), entry.origins))
    return len(found)


@_apply.register
def _(rule: r.Split, table: Table) -> int:
    found = list(r.matching(table.entries, rule.split))
    for name, match in found:
        entry = table.take(name)
        shape = entry.stored.form.shape
        if rule.axis >= len(shape):
            raise r.wrong(f"{name} has the shape {list(shape)}, and no axis {rule.axis}")
        length = shape[rule.axis]
        sizes = rule.sizes or [length // len(rule.into)] * len(rule.into)
        if len(sizes) != len(rule.into) or sum(sizes) != length:
            raise r.wrong(
                f"{name} has {length} along axis {rule.axis}, which is not split into {len(rule.into)} parts"
                + (f" of {', '.join(map(str, rule.sizes))}" if rule.sizes else " of one size")
            )
        view = View.of(entry.stored)
        for start, size, into in zip(accumulate([0, *sizes]), sizes, rule.into, strict=False):
            part = Entry(view.narrowed(rule.axis, start, size), entry.origins, entry.is_cast)
            table.put(r.expanded(match, into), part)
    return len(found)


@_apply.register
def _(rule: r.Merge, table: Table) -> int:
    groups: dict[str, dict[int, str]] = {}
    for place, regex in enumerate(rule.merge):
        for name, match in r.matching(table.entries, regex):
            group = groups.setdefault(r.expanded(match, rule.into), {})
            if place in group:
                raise r.wrong(f"{group[place]} and {name} are both matched by {regex}, for {rule.into}")
            group[place] = name
    for into, group in groups.items():
        if lacking := [regex for place, regex in enumerate(rule.merge) if place not in group]:
            raise r.wrong(f"{into} needs a tensor that {lacking[0]} matches, and there is none")
        names = [group[place] for place in range(len(rule.merge))]
        if len(set(names)) < len(names):
            raise r.wrong(f"{into} would have {names[0]} twice")
        _join(table, names, into, rule.axis)
    return len(groups)


@_apply.register
def _(rule: r.Stack, table: Table) -> int:
    groups: dict[str, list[str]] = {}
    for name, match in r.matching(table.entries, rule.stack):
        groups.setdefault(r.expanded(match, rule.into), []).append(name)
    for into, names in groups.items():
        rank = len(table.entries[names[0]].stored.form.shape)
        if rule.axis > rank:
            raise r.wrong(f"{into} would have {rank + 1} axes, and no axis {rule.axis}")
        for name in names:
            entry = table.entries[name]
            row = View.of(entry.stored).with_axis(min(rule.axis, len(entry.stored.form.shape)))
            table.entries[name] = Entry(row, entry.origins, entry.is_cast)
        _join(table, r.in_order(names), into, rule.axis)
    return len(groups)


def _join(table: Table, names: Sequence[str], into: str, axis: int) -> None:
    parts = [table.take(name) for name in names]
    forms = [part.stored.form for part in parts]
    others = {(form.dtype, form.shape[:axis], form.shape[axis + 1 :], len(form.shape)) for form in forms}
    if len(others) > 1 or axis >= len(forms[0].shape):
        shown = ", ".join(
            f"{name} {form.dtype} {list(form.shape)}" for name, form in zip(names, forms, strict=True)
        )
        raise r.wrong(f"{into} cannot be joined along axis {axis}: {shown}")
    origins = tuple(origin for part in parts for origin in part.origins)
    joined = Joined(tuple(part.stored for part in parts), axis)
    table.put(into, Entry(joined, origins, all(part.is_cast for part in parts)))


def _changed(table: Table, regex: str, change: Callable[[Stored], Stored]) -> int:
    found = list(r.matching(table.entries, regex))
    for name, _ in found:
        entry = table.take(name)
        try:
            table.put(name, Entry(change(entry.stored), entry.origins, entry.is_cast))
        except WeightsError as error:
            raise r.wrong(f"{name}: {error.message}") from error
    return len(found)
