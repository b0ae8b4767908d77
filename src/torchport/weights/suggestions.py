"""What a missing weight may be called in a checkpoint: suggestions by shape and name, and a rules file of them.

A suggestion is for a person to judge. Nothing is ever extracted by one.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchport.parity.metrics import Form
from torchport.weights.matching import Match
from torchport.weights.rules import in_order

_LIKELY = 0.35
"""How alike two names must be for a suggestion, from 0 to 1."""
_PARTS = (2, 3)


class Suggestion(NamedTuple):
    """What one weight, or all that differ from it in numbers alone, may be in the checkpoint."""

    name: str
    from_name: str
    how: str
    """rename, transpose or split."""
    likeness: float
    text: str


def suggested(match: Match, names: Iterable[str] | None = None) -> list[Suggestion]:
    """For missing or misfitting weights the likeliest tensor that nothing asks for, each for one weight if it fits."""
    asked = [*match.missing, *match.misfits] if names is None else list(names)
    found = [_turned(match, name) for name in asked if name in match.misfits]
    by_numbers: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for other in match.left_over:
        by_numbers[_numbers(other)].append(other)
    ranked = [
        one
        for name in asked
        if name not in match.misfits
        for one in _candidates(name, match.wanted[name].form, by_numbers[_numbers(name)], match.left_over)
    ]
    given: dict[str, Suggestion] = {}
    taken: dict[str, str] = {}
    for one in sorted(ranked, key=lambda one: -one.likeness):
        used_for = taken.get(one.from_name)
        if one.name not in given and (used_for is None or used_for == one.how == "split"):
            given[one.name], taken[one.from_name] = one, one.how
    return [one for one in found if one is not None] + [given[name] for name in asked if name in given]


def _turned(match: Match, name: str) -> Suggestion | None:
    wanted, own = match.wanted[name].form.shape, match.found[name].entry.stored.form.shape
    if len(wanted) != 2 or own != wanted[::-1]:
        return None
    return Suggestion(name, name, "transpose", 1.0, f"{name} is to be transposed")


def _candidates(
    name: str, form: Form, others: Iterable[str], left_over: dict[str, Form]
) -> Iterator[Suggestion]:
    for other in others:
        its, likeness = left_over[other], alike(name, other)
        if likeness < _LIKELY or not its.shape or not form.shape:
            continue
        if its.shape == form.shape:
            yield Suggestion(name, other, "rename", likeness, f"{name} is {other}, which has the same shape")
        elif len(form.shape) == 2 and its.shape == form.shape[::-1]:
            text = f"{name} is {other}, which is to be transposed"
            yield Suggestion(name, other, "transpose", likeness * 0.95, text)
        elif its.shape[1:] == form.shape[1:] and its.shape[0] in [count * form.shape[0] for count in _PARTS]:
            text = f"{name} is one of {its.shape[0] // form.shape[0]} parts of {other}"
            yield Suggestion(name, other, "split", likeness * 0.8, text)


def alike(name: str, other: str) -> float:
    """How alike two names are, from 0 to 1."""
    name, other = name.lower(), other.lower()
    ours, theirs = (set(re.split(r"[._]", one)) for one in (name, other))
    if {name.rpartition(".")[2], other.rpartition(".")[2]} == {"weight", "bias"}:
        return 0.0
    whole = difflib.SequenceMatcher(None, name, other).ratio()
    return 0.5 * whole + 0.5 * len(ours & theirs) / len(ours | theirs)


def _numbers(name: str) -> tuple[str, ...]:
    """The numbers that stand alone in a name: which of several layers it is of."""
    return tuple(part for part in name.split(".") if part.isdigit())


def starting_rules(match: Match, checkpoint: str) -> str:
    """A rules file that has a rule for each suggestion, and comments on what is left for a person to decide."""
    lines = [
        f"# Rules for {checkpoint}, to begin with: they go by shapes and names alone, so read each.",
        "# A regular expression matches a whole name. Kinds of rules: rename, copy, drop, transpose, split, merge,",
        "# stack, cast.",
    ]
    if match.others:
        lines.append(f"# The weights are under each of {', '.join(map(repr, match.others))}. Choose one:")
        lines.append(f"prefix: {_quoted(match.others[0])}")
    elif match.prefixes != ("",):
        lines.append(f"prefix: [{', '.join(map(_quoted, match.prefixes))}]")
    found = suggested(match)
    lines.append("rules:" if found else "rules: []")
    lines += _rules(found)
    known = {one.name for one in found}
    for name in (*match.missing, *match.misfits):
        if name not in known:
            form = match.wanted[name].form
            lines.append(f"# nothing found for {name}, {form.dtype} {list(form.shape)}")
    used = {one.from_name for one in found}
    for name in in_order([name for name in match.left_over if name not in used]):
        form = match.left_over[name]
        lines.append(f"# nothing asks for {name}, {form.dtype} {list(form.shape)}")
    return "\n".join(lines) + "\n"


def _rules(found: Sequence[Suggestion]) -> Iterator[str]:
    """One rule for all suggestions that differ in numbers alone."""
    takers: dict[str, list[Suggestion]] = defaultdict(list)
    for one in found:
        takers[one.from_name].append(one)
    groups: dict[tuple[str, ...], list[Suggestion]] = defaultdict(list)
    for from_name, asking in takers.items():
        into = [_template(one.name) for one in asking]
        groups[asking[0].how, _template(from_name), *into] += asking
    for (how, template, *into), alike_ones in groups.items():
        yield from _rule(how, template, into, alike_ones)


def _rule(how: str, template: str, into: Sequence[str], found: Sequence[Suggestion]) -> Iterator[str]:
    likeness = min(one.likeness for one in found)
    yield f"  # {found[0].text}{f' (and {len(found) - 1} more)' if len(found) > 1 else ''}; likeness {likeness:.2f}"
    regex = _quoted(re.escape(template).replace(r"\{\}", r"(\d+)"))
    if how == "split":
        yield f"  - split: {regex}"
        yield f"    into: [{', '.join(_quoted(_numbered(one)) for one in into)}]  # in the order of the rows: check"
        return
    if how == "transpose":
        yield f"  - transpose: {regex}"
    if _numbered(into[0]) != _numbered(template):
        yield f"  - rename: {regex}"
        yield f"    to: {_quoted(_numbered(into[0]))}"


def _template(name: str) -> str:
    """What names have in common that differ in numbers alone: `h.{}.mlp.weight`."""
    return ".".join("{}" if part.isdigit() else part for part in name.split("."))


def _numbered(template: str) -> str:
    """A template as a replacement: its n-th number is the n-th group."""
    parts = template.split("{}")
    return parts[0] + "".join(rf"\{place}{part}" for place, part in enumerate(parts[1:], 1))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
