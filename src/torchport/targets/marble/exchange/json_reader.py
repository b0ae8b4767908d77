"""Reads MARBLE's JSON element by element: the text is held once, and each neuron or synapse only until it is a row.

Whatever is wrong raises a GraphFileError with the place, such as `synapses[17].weight` or a line and a column.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.extras import EXTRAS_KEY, with_extras
from torchport.targets.marble.exchange.plain import Plain
from torchport.targets.marble.exchange.rows import NeuronRows, RowError, SynapseRows
from torchport.targets.marble.exchange.trees import LARGEST_INTEGER, checked_tree

SPACE = re.compile(r"[ \t\n\r]*")
MOST_DIGITS = 20
"""An integer of 64 bits has at most 19 and a sign."""


def graph_in(text: str) -> Plain:
    """The graph in the text of a file."""
    return _Document(text).graph()


class _Document:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.neurons, self.synapses = NeuronRows(), SynapseRows()
        self.decoder = json.JSONDecoder(
            object_pairs_hook=_object, parse_int=_integer_of, parse_float=_float_of, strict=True
        )

    def graph(self) -> Plain:
        others: dict[str, Any] = {}
        found: set[str] = set()
        for _ in self.items_in("{", "}"):
            key = self.value("a key")
            if type(key) is not str:
                raise self.malformed("a key is not a text")
            if key in found:
                raise GraphFileError("TP0362", f"the key {key!r:.60} is there twice", where="top level")
            found.add(key)
            self.expect(":")
            self.part(key, others)
        self.require_end()
        if missing := {"neurons", "synapses"} - found:
            raise GraphFileError("TP0362", f"there is no {min(missing)!r}", where="top level")
        states = checked_tree(others.get("hidden_states"), "hidden_states")
        return with_extras(self.neurons.columns(), self.synapses.columns(), others.get(EXTRAS_KEY), states)

    def part(self, key: str, others: dict[str, Any]) -> None:
        if key == "neurons":
            self.elements(key, self.neurons.add)
        elif key == "synapses":
            self.elements(key, self.synapses.add)
        elif key in (EXTRAS_KEY, "hidden_states"):
            others[key] = self.value(key)
        else:
            raise GraphFileError("TP0362", f"the key {key!r:.60} is not known", where="top level")

    def elements(self, key: str, add: Callable[[Any], None]) -> None:
        for index in self.items_in("[", "]"):
            element = self.value(f"{key}[{index}]")
            try:
                add(element)
            except RowError as wrong:
                raise GraphFileError("TP0362", str(wrong), where=f"{key}[{index}]") from None

    def value(self, where: str) -> Any:
        """The next value, whatever it is, by Python's own parser."""
        self.skip("")
        try:
            value, self.position = self.decoder.raw_decode(self.text, self.position)
        except json.JSONDecodeError as error:
            self.position = error.pos
            raise self.malformed(error.msg, where) from None
        except RecursionError:
            raise GraphFileError("TP0366", "it is nested too deep", where=where) from None
        except RowError as wrong:
            raise GraphFileError("TP0362", str(wrong), where=where) from None
        return value

    def skip(self, character: str) -> bool:
        """Passes white space, and this character if it is next."""
        match = SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        if character and self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def expect(self, character: str) -> None:
        if not self.skip(character):
            raise self.malformed(f"{character!r} is missing")

    def items_in(self, opening: str, closing: str) -> Iterator[int]:
        """Stops at every item between two brackets, and gives its number; the caller reads the item."""
        self.expect(opening)
        if self.skip(closing):
            return
        for index in itertools.count():
            yield index
            if not self.skip(","):
                self.expect(closing)
                return

    def require_end(self) -> None:
        self.skip("")
        if self.position != len(self.text):
            raise self.malformed("something follows the graph")

    def malformed(self, reason: str, where: str | None = None) -> GraphFileError:
        line = self.text.count("\n", 0, self.position) + 1
        column = self.position - self.text.rfind("\n", 0, self.position)
        place = f"line {line}, column {column}" + (f", {where}" if where else "")
        if self.position >= len(self.text.rstrip()) or reason.startswith("Unterminated"):
            return GraphFileError("TP0361", f"the JSON ends before its end: {reason}", where=place)
        return GraphFileError("TP0361", f"this is not JSON: {reason}", where=place)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        raise RowError(f"the key {next(key for key in keys if keys.count(key) > 1)!r:.60} is there twice")
    return made


def _integer_of(digits: str) -> int:
    if len(digits) > MOST_DIGITS or not -LARGEST_INTEGER <= (value := int(digits)) < LARGEST_INTEGER:
        raise RowError(f"an integer has more than 64 bits: {digits[:20]}… of {len(digits):,} digits")
    return value


def _float_of(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise RowError(f"a number is beyond float64: {digits:.40}; infinity is written Infinity")
    return value
