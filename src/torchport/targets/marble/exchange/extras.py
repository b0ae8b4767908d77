"""What MARBLE's formats have no place for, kept under one key of its own that MARBLE's loader passes over.

    {"version": 1, "metadata": {…}, "hidden_states": {"lstm.h": {"dtype": "float32", "shape": [1, 4], "values": […]}}}

Hidden states are here, and not under the key `hidden_states` beside the neurons, since MARBLE's loader raises on that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import kind_of, shown
from torchport.targets.marble.exchange.plain import MOST_DIMENSIONS, Neurons, Plain, Synapses
from torchport.targets.marble.exchange.trees import checked_tree

EXTRAS_KEY = "torchport"
VERSION = 1
KEYS = {"version", "metadata", "hidden_states"}
STATE_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("float16", "float32", "float64"),
)
MOST_STATE_VALUES = 10_000_000
KEPT_STATES = "hidden_states"
"""The key of the metadata under which the hidden states of a file that MARBLE wrote are kept, as they are."""


def extras_of(plain: Plain) -> dict[str, Any]:
    states = {name: _written(state) for name, state in plain.hidden_states.items()}
    return {"version": VERSION, "metadata": plain.metadata, "hidden_states": states}


def with_extras(neurons: Neurons, synapses: Synapses, extras: Any, marble_states: Any = None) -> Plain:
    """The graph with its extras, if the file has some, and the hidden states that MARBLE itself wrote."""
    metadata, states = _opened(extras)
    if marble_states:
        if KEPT_STATES in metadata:
            raise GraphFileError(
                "TP0362", "the file has two sets of MARBLE's hidden states", where="hidden_states"
            )
        metadata[KEPT_STATES] = marble_states
    return Plain(neurons, synapses, metadata, states)


def _opened(extras: Any) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    if extras is None:
        return {}, {}
    if type(extras) is not dict:
        raise GraphFileError("TP0362", f"it is {kind_of(extras)}, and not an object", where=EXTRAS_KEY)
    _require_version(extras.get("version"))
    if unknown := sorted(extras.keys() - KEYS):
        raise GraphFileError("TP0362", f"the key {unknown[0]!r} is not known", where=EXTRAS_KEY)
    metadata, states = extras.get("metadata", {}), extras.get("hidden_states", {})
    for name, part in (("metadata", metadata), ("hidden_states", states)):
        if type(part) is not dict:
            raise GraphFileError(
                "TP0362", f"it is {kind_of(part)}, and not an object", where=f"{EXTRAS_KEY}.{name}"
            )
    return checked_tree(metadata, "metadata"), _states(states)


def _states(states: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    opened: dict[str, npt.NDArray[Any]] = {}
    values = 0
    for name, state in states.items():
        opened[name] = _state(name, state)
        values += opened[name].size
        if values > MOST_STATE_VALUES:
            message = f"there are more than {MOST_STATE_VALUES:,} values"
            raise GraphFileError("TP0366", message, where=f"{EXTRAS_KEY}.hidden_states")
    return opened


def _require_version(version: Any) -> None:
    if type(version) is not int or version < 1:
        raise GraphFileError(
            "TP0362", f"it is not a version: {shown(version)}", where=f"{EXTRAS_KEY}.version"
        )
    if version > VERSION:
        raise GraphFileError(
            "TP0363", f"the graph is of version {version}, this reads {VERSION}", where=EXTRAS_KEY
        )


def _written(state: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": state.dtype.name, "shape": list(state.shape), "values": state.ravel().tolist()}


def _state(name: str, state: Any) -> npt.NDArray[Any]:
    where = f"{EXTRAS_KEY}.hidden_states.{name}"
    if type(state) is not dict or state.keys() != {"dtype", "shape", "values"}:
        raise GraphFileError("TP0362", "it does not have a dtype, a shape and values alone", where=where)
    dtype, shape, values = state["dtype"], state["shape"], state["values"]
    if type(dtype) is not str or dtype not in STATE_DTYPES:
        raise GraphFileError("TP0362", f"the dtype is none of {', '.join(STATE_DTYPES)}", where=where)
    if (
        type(shape) is not list
        or len(shape) > MOST_DIMENSIONS
        or any(type(n) is not int or n < 0 for n in shape)
    ):
        raise GraphFileError("TP0362", "the shape is not a list of sizes", where=where)
    if type(values) is not list or len(values) != math.prod(shape):
        raise GraphFileError(
            "TP0362", f"there are not as many values as the shape {shape} needs", where=where
        )
    _require_values(values, np.dtype(dtype), where)
    return np.array(values, dtype).reshape(shape)


def _require_values(values: list[Any], dtype: np.dtype[Any], where: str) -> None:
    """Raises if one of the values is of another kind than the dtype, or would be changed by it."""
    kind = {"b": bool, "f": float}.get(dtype.kind, int)
    for index, value in enumerate(values):
        if type(value) is not kind or not _fits(value, dtype):
            raise GraphFileError("TP0362", f"value {index} is no {dtype.name}: {shown(value)}", where=where)


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    if dtype.kind == "f" and math.isfinite(value):
        with np.errstate(over="ignore"):
            return bool(float(dtype.type(value)) == value)
    return True
