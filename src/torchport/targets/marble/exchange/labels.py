"""A column of names, such as the type of every neuron: each name once, and a number for each row."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchport.errors import GraphFileError

LONGEST_NAME = 4096


@dataclass(frozen=True, eq=False)
class Labels:
    """Row i has the name `names[codes[i]]`."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
            raise GraphFileError("TP0362", "the numbers of names are not a row of integers")
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.names):
            raise GraphFileError("TP0362", f"a row has a name beyond the {len(self.names)} that there are")
        for name in self.names:
            require_text(name, "a name")
            if len(name) > LONGEST_NAME:
                raise GraphFileError("TP0366", f"a name has {len(name):,} characters: {name[:40]!a}…")
        if len(set(self.names)) != len(self.names):
            raise GraphFileError("TP0362", "a name is listed twice")
        object.__setattr__(self, "codes", codes.astype(np.int32, copy=False))

    @classmethod
    def of(cls, names: Iterable[str]) -> Labels:
        collected = LabelCollector()
        for name in names:
            collected.add(name)
        return collected.labels()

    @classmethod
    def same(cls, name: str, count: int) -> Labels:
        """The same name for every row."""
        return cls((name,), np.broadcast_to(np.int32(0), count))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str:
        return self.names[int(self.codes[row])]

    def tolist(self) -> list[str]:
        return self.chosen(self.names, slice(None))

    def chosen(self, texts: Sequence[str], rows: slice) -> list[str]:
        """For each of the rows the text that `texts` has for its name."""
        return [texts[code] for code in self.codes[rows].tolist()]

    def taken(self, rows: npt.NDArray[np.int64]) -> Labels:
        """These rows, in this order."""
        return Labels(self.names, self.codes[rows])

    def rows_of(self, name: str) -> npt.NDArray[np.bool_]:
        """Which rows have this name."""
        if name not in self.names:
            return np.zeros(len(self), bool)
        return np.asarray(self.codes == self.names.index(name))

    def equals(self, other: Labels) -> bool:
        if len(self) != len(other):
            return False
        numbers = {name: code for code, name in enumerate(self.names)}
        in_ours = np.array([numbers.get(name, -1) for name in other.names] or [-1], np.int32)
        return bool(np.array_equal(self.codes, in_ours[other.codes]))


class LabelCollector:
    """Makes a column of names, row by row."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._codes = array("i")

    def add(self, name: str) -> None:
        self._codes.append(self._numbers.setdefault(name, len(self._numbers)))

    def labels(self) -> Labels:
        return Labels(tuple(self._numbers), np.array(self._codes, np.int32))


def require_text(text: object, place: str) -> None:
    """Raises if this is not a text that can be written as UTF-8."""
    if type(text) is not str:
        raise GraphFileError("TP0362", f"{place} is not a text but {kind_of(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise GraphFileError("TP0362", f"{place} has half of a surrogate pair in it: {text[:40]!a}") from None


KINDS = {
    type(None): "nothing",
    list: "a list",
    tuple: "a tuple",
    dict: "an object",
    str: "a text",
    bytes: "bytes",
    int: "an integer",
    float: "a number",
    bool: "a bool",
}


def kind_of(value: object) -> str:
    """The kind of a value, in words for an error."""
    return KINDS.get(type(value), f"of the class {type(value).__name__}")


def shown(value: object) -> str:
    """A value for an error: itself if it is short and plain, and otherwise its kind. It may be nested very deep."""
    if value is None or type(value) in (bool, int, float, str):
        return f"{value!r:.60}"
    return kind_of(value)
