"""The first lines of `forward`: free sizes that the body reads are taken from the shapes of the inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchport.capture import graph as g
from torchport.targets.candle.code import Code, code, joined
from torchport.targets.candle.emit import Emitter


def take_sizes(e: Emitter) -> None:
    """Writes a `let` for each size; a size that no input shows must be given by the caller."""
    needed = e.sizes & _words([*e.body.statements, e.body.result])
    lines: list[Code] = []
    for item in e.module.inputs:
        found = _shown_by(item, needed)
        lines += _lets(e, item, found)
        needed -= found.keys()
        e.body.variables |= found.keys()
    for symbol in sorted(needed):
        line = _from_a_multiple(e, symbol)
        if line is None:
            e.body.given_sizes.append(symbol)
        else:
            lines.append(line)
            e.body.variables.add(symbol)
    e.body.statements[:0] = lines


def _words(written: Iterable[Code]) -> set[str]:
    """All words of some code: a size may have been asked for by an operation that was written without it."""
    return {word for code in written for word in re.findall(r"\w+", code.filled(lambda part: "_"))}


def _shown_by(item: g.Input, needed: set[str]) -> dict[str, int]:
    """The sizes that are an axis of an input as they stand, each with the first axis that shows it."""
    return {
        dim.expr: axis
        for axis, dim in reversed(list(enumerate(item.meta.shape)))
        if isinstance(dim, g.Sym) and isinstance(dim.expr, str) and dim.expr in needed
    }


def _lets(e: Emitter, item: g.Input, found: dict[str, int]) -> Iterator[Code]:
    name, rank = e.values[g.Ref(item.name)].code, item.meta.rank
    if len(found) > 1 and 2 <= rank <= 5:
        by_axis = {axis: symbol for symbol, axis in found.items()}
        symbols = [by_axis.get(axis, "_") for axis in range(rank)]
        yield code("let ({}) = {}.dims{}()?;", joined(", ", symbols), name, rank)
    else:
        for symbol, axis in sorted(found.items()):
            yield code("let {} = {}.dim({})?;", symbol, name, axis)


def _from_a_multiple(e: Emitter, symbol: str) -> Code | None:
    """A `let` for a size of which an input shows a multiple."""
    for item in e.module.inputs:
        for axis, dim in enumerate(item.meta.shape):
            expr = dim.expr if isinstance(dim, g.Sym) else None
            if isinstance(expr, tuple) and expr[0] == "mul" and len(expr) == 3 and expr[2] == symbol:
                name, factor = e.values[g.Ref(item.name)].code, e.slot(expr[1], "factor")
                return code("let {} = {}.dim({})? / {};", symbol, name, axis, factor)
    return None
