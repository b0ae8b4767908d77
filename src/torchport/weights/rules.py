"""Rules that make a port's tensors of a checkpoint's: a YAML file, of which every rule is checked before anything runs.

Each rule is applied to what the rules before it have made. Its regular expressions match whole names, never a part of
one; a replacement may use their groups as `\\1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from torchport.errors import WeightsError
from torchport.parity import dtypes


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def _dtype(name: str) -> str:
    if name not in dtypes.DTYPES:
        raise ValueError(f"{name!r} is no dtype such as float32")
    return name


Regex = Annotated[str, AfterValidator(_regex)]
Axis = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Rename(_Rule):
    """Calls a tensor otherwise."""

    rename: Regex
    to: str


class Copy(_Rule):
    """Gives a tensor a second name, as weights have that are tied in the checkpoint and not in the port."""

    copy_: Regex = Field(alias="copy")
    to: str


class Drop(_Rule):
    """Leaves tensors out."""

    drop: Regex


class Transpose(_Rule):
    """Puts the axes into another order: the two of a matrix, or as `axes` says."""

    transpose: Regex
    axes: list[Axis] | None = None


class Split(_Rule):
    """Takes a tensor apart along an axis: into equal parts, or into parts of these sizes."""

    split: Regex
    into: Annotated[list[str], Field(min_length=2)]
    axis: Axis = 0
    sizes: list[Size] | None = None


class Merge(_Rule):
    """Joins tensors along an axis, one for each regular expression, in that order."""

    merge: Annotated[list[Regex], Field(min_length=2)]
    into: str
    axis: Axis = 0


class Stack(_Rule):
    """Puts tensors of one shape into one with an axis more, in the order of the numbers in their names."""

    stack: Regex
    into: str
    axis: Axis = 0


class Cast(_Rule):
    """Another dtype; the one that the port loads, if none is given. What it cannot hold is refused."""

    cast: Regex
    dtype: Annotated[str, AfterValidator(_dtype)] | Literal["port"] = "port"


Rule = Rename | Copy | Drop | Transpose | Split | Merge | Stack | Cast
KINDS: dict[str, type[Rule]] = {
    "rename": Rename,
    "copy": Copy,
    "drop": Drop,
    "transpose": Transpose,
    "split": Split,
    "merge": Merge,
    "stack": Stack,
    "cast": Cast,
}


class Rules(BaseModel):
    """What a rules file holds: rules in order, and the names in a checkpoint that its tensors' names begin with."""

    model_config = ConfigDict(frozen=True)

    prefix: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


def read_rules(path: Path) -> Rules:
    """The rules in a YAML file."""
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise wrong(f"there is no file {path}", path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(f"the rules cannot be read: {error}", path) from error
    except yaml.YAMLError as error:
        raise wrong(f"the rules are no YAML: {' '.join(str(error).split())}", path) from error
    if data is None:
        return Rules()
    if not isinstance(data, dict) or data.keys() - {"prefix", "rules"}:
        raise wrong("a rules file has `rules`, a list, and may have `prefix`, and nothing else", path)
    listed, prefix = data.get("rules") or [], data.get("prefix") or []
    prefixes = [prefix] if isinstance(prefix, str) else prefix
    if not isinstance(listed, list) or not isinstance(prefixes, list):
        raise wrong("`rules` is a list, and `prefix` is a name or a list of names", path)
    if any(not isinstance(one, str) for one in prefixes):
        raise wrong("each `prefix` is a name", path)
    return Rules(prefix=tuple(prefixes), rules=tuple(_rule(one, n, path) for n, one in enumerate(listed, 1)))


def _rule(given: Any, number: int, path: Path) -> Rule:
    kinds = [name for name in given if name in KINDS] if isinstance(given, dict) else []
    if len(kinds) != 1:
        raise wrong(f"rule {number} is none, or several, of {', '.join(KINDS)}: {given!r}", path)
    try:
        return KINDS[kinds[0]].model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise wrong(f"rule {number} ({kinds[0]}) is wrong at {place}: {first['msg']}", path) from error


def wrong(message: str, path: Path | None = None, fix: str | None = None) -> WeightsError:
    return WeightsError("TP0323", message, where=None if path is None else str(path), fix=fix)


def matching(names: Iterable[str], regex: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The names that a regular expression matches from their beginning to their end."""
    pattern = re.compile(regex)
    for name in names:
        if found := pattern.fullmatch(name):
            yield name, found


def expanded(match: re.Match[str], template: str) -> str:
    """A replacement with the groups of a match put in."""
    try:
        return match.expand(template)
    except (re.error, IndexError) as error:
        raise wrong(
            f"the replacement {template!r} is wrong: {error}", fix=r"Groups are \1, \2 or \g<name>."
        ) from error


def in_order(names: Sequence[str]) -> list[str]:
    """Names in the order of the numbers in them: layer 2 before layer 10."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]

    return sorted(names, key=key)
