"""The pairs of tensors of A and B that are compared, and the names that only one of them has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchport.diff import mapping
from torchport.diff.sources import Source
from torchport.errors import ReportError

EXAMPLES = 3


class Both(NamedTuple):
    """A name that both have: the name in A, the name in B, and the names that the two tensors are stored under."""

    name: str
    candidate_name: str
    golden: str
    candidate: str


@dataclass(frozen=True)
class Names:
    both: list[Both]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]
    suggestion: str | None


class Choice:
    """The choice of names to compare: those that match one of `only`, if there are any, and none of `ignore`."""

    def __init__(self, ignore: Iterable[str], only: Iterable[str]) -> None:
        self.ignore = {mapping.compiled(regex, "--ignore"): False for regex in ignore}
        self.only = {mapping.compiled(regex, "--only"): False for regex in only}
        self.left_out: dict[str, None] = {}

    def takes(self, name: str) -> bool:
        wanted = _found(self.only, name) or not self.only
        if _found(self.ignore, name) or not wanted:
            self.left_out[name] = None
            return False
        return True

    def unused(self) -> Iterator[str]:
        for option, patterns in (("--ignore", self.ignore), ("--only", self.only)):
            for pattern, matched in patterns.items():
                if not matched:
                    yield f"{option} {pattern.pattern!r} matches no name"


def match(golden: Source, candidate: Source, rules: Sequence[mapping.Rename], choice: Choice) -> Names:
    """Pairs the names of A with the names of B after `rules`; raises a ReportError if there is no pair."""
    for letter, source in (("A", golden), ("B", candidate)):
        if not source.tensors:
            raise ReportError("TP0342", f"{letter} holds no tensors", where=source.given)
    renamed, unused = mapping.rename(_names(candidate), rules)
    wanted = [name for name in _names(golden) if choice.takes(name)]
    offered = {new: old for new, old in renamed.items() if choice.takes(new)}
    both = list(_pairs(wanted, offered, golden, candidate))
    known = set(wanted)
    only_in_a = tuple(name for name in wanted if name in golden.tensors and name not in offered)
    only_in_b = tuple(new for new, old in offered.items() if old in candidate.tensors and new not in known)
    guessed = mapping.guess(only_in_a, only_in_b)
    suggestion = None if guessed is None else f"--map '{guessed[0]}' would pair {guessed[1]} more"
    if not both:
        raise _nothing_in_common(golden, candidate, only_in_a, only_in_b, suggestion)
    warnings = [f"--map {rule.text!r} matches no name of B" for rule in unused]
    warnings.extend(choice.unused())
    return Names(both, only_in_a, only_in_b, tuple(choice.left_out), tuple(warnings), suggestion)


def _found(patterns: dict[re.Pattern[str], bool], name: str) -> bool:
    """Whether one of the patterns matches `name`; each pattern that does is marked as used."""
    matching = [pattern for pattern in patterns if pattern.search(name)]
    patterns.update(dict.fromkeys(matching, True))
    return bool(matching)


def _names(source: Source) -> list[str]:
    """The names of the tensors, then the aliases of tensors."""
    aliases = (name for name in source.aliases if name not in source.tensors)
    return [*source.tensors, *(name for name in aliases if source.resolve(name) is not None)]


def _pairs(
    wanted: Iterable[str], offered: dict[str, str], golden: Source, candidate: Source
) -> Iterator[Both]:
    """Each pair of stored tensors once, however many names it has."""
    seen = set()
    for name in wanted:
        if name not in offered:
            continue
        at_a, at_b = golden.resolve(name), candidate.resolve(offered[name])
        assert at_a is not None and at_b is not None
        if (at_a, at_b) not in seen:
            seen.add((at_a, at_b))
            yield Both(name, offered[name], at_a, at_b)


def _nothing_in_common(
    golden: Source,
    candidate: Source,
    only_in_a: Sequence[str],
    only_in_b: Sequence[str],
    suggestion: str | None,
) -> ReportError:
    where = f"{golden.given} and {candidate.given}"
    if not only_in_a and not only_in_b:
        return ReportError("TP0342", "--ignore and --only leave nothing to compare", where=where)
    message = f"no name is in both: A has {_examples(only_in_a)}; B has {_examples(only_in_b)}"
    return ReportError("TP0342", message, where=where, fix=suggestion and f"{suggestion}.")


def _examples(names: Sequence[str]) -> str:
    if not names:
        return "none left"
    return ", ".join(names[:EXAMPLES]) + (
        f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
    )
