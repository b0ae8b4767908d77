"""The name in the reference that each name of the candidate stands for: rules that rename, and a guess at a rule.

Rules are regular expressions and rename the candidate's names. Each rule is applied to the name that the rules before
it have made, wherever in the name it matches.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchport.errors import UsageError

LOOKED_AT, FEW, LIKELY = 2000, 4, 20
"""The most names of each side that a rule is guessed from, the most prefixes of a name, and the most rules tried."""


@dataclass(frozen=True)
class Rename:
    """A rule `REGEX=REPLACEMENT`, both as `re.sub` takes them; the last `=` divides the two."""

    text: str
    pattern: re.Pattern[str]
    replacement: str

    @classmethod
    def parse(cls, text: str) -> "Rename":
        regex, equals, replacement = text.rpartition("=")
        if not equals:
            raise UsageError(
                "TP0801",
                f"--map {text!r} has no `=`",
                fix=r"Write REGEX=REPLACEMENT, such as --map '^model\.='.",
            )
        rule = cls(text, compiled(regex, "--map"), replacement)
        rule("")  # `re` checks a replacement only when it is first used.
        return rule

    def __call__(self, name: str) -> str:
        try:
            return self.pattern.sub(self.replacement, name)
        except (re.error, IndexError) as error:
            message = f"--map {self.text!r}: the replacement is wrong: {error}"
            raise UsageError("TP0801", message, fix=r"Groups are \1, \2 or \g<name>.") from error


def compiled(regex: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        message = f"{option} {regex!r} is no regular expression: {error}"
        raise UsageError(
            "TP0801", message, fix="Escape a literal dot or bracket with a backslash."
        ) from error


def rename(names: Iterable[str], rules: Sequence[Rename]) -> tuple[dict[str, str], list[Rename]]:
    """The old name for each new name, and the rules that matched nothing."""
    renamed: dict[str, str] = {}
    unused = set(range(len(rules)))
    for name in names:
        new = name
        for number, rule in enumerate(rules):
            if rule.pattern.search(new):
                unused.discard(number)
                new = rule(new)
        if new in renamed:
            message = f"--map gives {renamed[new]} and {name} the same name, {new}"
            raise UsageError(
                "TP0801", message, fix="Anchor the rule with ^ or $, or --ignore one of the names."
            )
        renamed[new] = name
    return renamed, [rules[number] for number in sorted(unused)]


def guess(reference: Iterable[str], candidate: Iterable[str]) -> tuple[str, int] | None:
    """The rule that changes a prefix and so pairs most names of candidate and reference, and how many it pairs."""
    wanted, found = list(reference)[:LOOKED_AT], list(candidate)[:LOOKED_AT]
    prefixes: dict[str, list[str]] = defaultdict(list)
    for name in wanted:
        for prefix, rest in _splits(name):
            prefixes[rest].append(prefix)
    seen: Counter[tuple[str, str]] = Counter()
    for name in found:
        # The longest ending that both have in common is the best evidence.
        old, rest = next((split for split in _splits(name) if split[1] in prefixes), ("", ""))
        seen.update((old, new) for new in prefixes.get(rest, [])[:FEW])
    known = set(wanted)
    gains = {pair: _gain(*pair, known, found) for pair, _ in seen.most_common(LIKELY)}
    if not any(gains.values()):
        return None
    old, new = max(gains, key=lambda pair: gains[pair])
    return f"^{re.escape(old)}={new}", gains[old, new]


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """The ways to part a name at a dot, which goes with the prefix: ("", "a.b"), ("a.", "b")."""
    parts = name.split(".")
    for number in range(len(parts)):
        rest = ".".join(parts[number:])
        yield name.removesuffix(rest), rest


def _gain(old: str, new: str, wanted: set[str], found: Iterable[str]) -> int:
    return sum(name.startswith(old) and new + name.removeprefix(old) in wanted for name in found)
