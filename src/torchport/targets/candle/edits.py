"""What a user changed in generated source, and the same change made in other source that was generated likewise.

In: the source as it was generated and as it is now. Out: hunks to show, and edits of tokens that can be carried over.
A variable may be called otherwise there; a name in a place where there is a name is taken for the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|\d+(?:\.\d+)?(?:e[-+]?\d+)?\w*|\w+|[^\w\s]')
_NAME = re.compile(r"[a-z_]\w*")
_CONTEXT = 12
_MOST_PLACES = 4
_MOST_VARIANTS = 6
_NEAR = 6
"""Changes with no more tokens than this between them are one change."""


@dataclass(frozen=True)
class Edit:
    """Some tokens that became another text, and the tokens around them."""

    before: tuple[str, ...]
    old: tuple[str, ...]
    new: str
    after: tuple[str, ...]


def edits_of(generated: str, edited: str) -> list[Edit]:
    """The difference in tokens; white space and comments do not count."""
    ours, theirs = _tokens(generated), _tokens(edited)
    words = [token.group() for token in ours]
    matcher = difflib.SequenceMatcher(None, words, [token.group() for token in theirs], autojunk=False)
    spans: list[tuple[int, int, int, int]] = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            continue
        if spans and a - spans[-1][1] <= _NEAR:
            a, _, c, _ = spans.pop()
        spans.append((a, b, c, d))
    found = []
    for a, b, c, d in spans:
        new = edited[theirs[c].start() : theirs[d - 1].end()] if d > c else ""
        before, after = tuple(words[max(0, a - _CONTEXT) : a]), tuple(words[b : b + _CONTEXT])
        found.append(Edit(before, tuple(words[a:b]), new, after))
    return found


def carried(edits: list[Edit], source: str) -> Iterator[str]:
    """The source with the edits made where they fit, the likeliest places first.

    An edit that fits nowhere belongs to code that is not in this source, and is left out.
    """
    tokens = _tokens(source)
    places = [found for edit in edits if (found := _places(edit, tokens, len(source)))]
    if not places:
        return
    for choice in islice(product(*places), _MOST_VARIANTS):
        result = source
        for start, end, new in sorted(choice, reverse=True):
            result = f"{result[:start]} {new} {result[end:]}"
        yield result


def _places(edit: Edit, tokens: list[re.Match[str]], end: int) -> list[tuple[int, int, str]]:
    """Where the old tokens stand, those with the most of the old surroundings first."""
    size, words = len(edit.old), [token.group() for token in tokens]
    starts = [*(token.start() for token in tokens), end]
    scored = []
    for at in range(len(words) - size + 1):
        names: dict[str, str] = {}
        if _common(edit.old, words[at : at + size], names) < size:
            continue
        left = _common(edit.before[::-1], words[max(0, at - _CONTEXT) : at][::-1], names)
        right = _common(edit.after, words[at + size : at + size + _CONTEXT], names)
        if left + right >= (1 if size else 2):
            scored.append((-(left + right), at, _renamed(edit.new, names)))
    return [
        (starts[at], tokens[at + size - 1].end() if size else starts[at], new)
        for _, at, new in sorted(scored)[:_MOST_PLACES]
    ]


def _common(first: Sequence[str], second: Sequence[str], names: dict[str, str]) -> int:
    """How many tokens are alike from the start; notes in `names` what the second calls the first's variables."""
    number = 0
    for one, other in zip(first, second, strict=False):
        if one != other and not (_NAME.fullmatch(one) and _NAME.fullmatch(other)):
            break
        if one != other:
            names.setdefault(one, other)
        number += 1
    return number


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(
        r"(?<![.\w:])[a-z_]\w*(?!\s*[(:!])", lambda found: names.get(found.group(), found.group()), text
    )


def _tokens(source: str) -> list[re.Match[str]]:
    return [token for token in _TOKEN.finditer(source) if not token.group().startswith("//")]
