"""Where values enter and leave a plain graph, by its metadata if torchport wrote it, or else by the synapses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.plain import Integers, Plain
from torchport.targets.marble.files.computable import is_input

DTYPES = ("float32", "float64", "float16", "bfloat16")
MOST_VALUES = 10_000_000


@dataclass(frozen=True)
class Beginning:
    """An input: its name, and the neurons that it gives values to."""

    name: str
    shape: tuple[int, ...]
    rows: Integers


@dataclass(frozen=True)
class Ending:
    """An output: the neurons whose values it has."""

    shape: tuple[int, ...]
    rows: Integers


@dataclass(frozen=True)
class Borders:
    name: str
    dtype: str
    inputs: list[Beginning]
    outputs: list[Ending]


def borders_of(plain: Plain) -> Borders:
    name = plain.metadata.get("model")
    return Borders(name if type(name) is str else "graph", _dtype(plain), _inputs(plain), _outputs(plain))


def _dtype(plain: Plain) -> str:
    dtypes = plain.metadata.get("dtypes", ["float32"])
    if type(dtypes) is list and len(dtypes) == 1 and dtypes[0] in DTYPES:
        return str(dtypes[0])
    raise GraphFileError(
        "TP0368", f"all neurons must be of one dtype of {', '.join(DTYPES)}", where="metadata.dtypes"
    )


def _inputs(plain: Plain) -> list[Beginning]:
    all_rows = np.flatnonzero(is_input(plain))
    if "inputs" not in plain.metadata:
        return [Beginning("input", all_rows.shape, all_rows)] if len(all_rows) else []
    found = []
    for number, entry in enumerate(_list(plain.metadata["inputs"], "inputs")):
        where = f"metadata.inputs[{number}]"
        shape, rows = _shape_and_rows(entry, len(plain.neurons), where)
        name = entry.get("name")
        if type(name) is not str:
            _refuse("it has no name", where)
        found.append(Beginning(name, shape, rows))
    together = np.concatenate([np.zeros(0, np.int64), *(one.rows for one in found)])
    if not np.array_equal(np.sort(together), all_rows):
        _refuse("these are not the neurons that are inputs, each once", "metadata.inputs")
    return found


def _outputs(plain: Plain) -> list[Ending]:
    if "outputs" in plain.metadata:
        entries = enumerate(_list(plain.metadata["outputs"], "outputs"))
        found = [
            Ending(*_shape_and_rows(entry, len(plain.neurons), f"metadata.outputs[{number}]"))
            for number, entry in entries
        ]
    else:
        is_read = np.zeros(len(plain.neurons), bool)
        is_read[plain.synapses.source] = True
        rows = np.flatnonzero(~is_read)
        found = [Ending(rows.shape, rows)] if len(rows) else []
    if not found:
        raise GraphFileError("TP0368", "the graph has no output: every neuron is read by another")
    return found


def _shape_and_rows(entry: Any, neurons: int, where: str) -> tuple[tuple[int, ...], Integers]:
    if type(entry) is not dict:
        _refuse("it is not an object", where)
    shape, runs = entry.get("shape"), entry.get("rows")
    if (
        type(shape) is not list
        or not all(type(size) is int and size > 0 for size in shape)
        or len(shape) > 16
    ):
        _refuse("it has no shape of sizes above 0", where)
    if type(runs) is not list or not all(_is_run(run, neurons) for run in runs):
        _refuse(f"its rows are not runs of neurons, [first, count], below {neurons:,}", where)
    size = sum(count for _, count in runs)
    if size != math.prod(shape):
        _refuse(f"it has {size:,} neurons, and the shape {shape}", where)
    if size > MOST_VALUES:
        raise GraphFileError("TP0366", f"it has more than {MOST_VALUES:,} values", where=where)
    parts = [np.arange(first, first + count) for first, count in runs]
    return tuple(shape), np.concatenate([np.zeros(0, np.int64), *parts])


def _is_run(run: Any, neurons: int) -> bool:
    if type(run) is not list or len(run) != 2 or not all(type(number) is int for number in run):
        return False
    first, count = run
    return bool(first >= 0 and count >= 1 and first + count <= neurons)


def _list(value: Any, key: str) -> list[Any]:
    if type(value) is not list:
        _refuse("it is not a list", f"metadata.{key}")
    return list(value)


def _refuse(reason: str, where: str) -> NoReturn:
    raise GraphFileError("TP0362", reason, where=where)
