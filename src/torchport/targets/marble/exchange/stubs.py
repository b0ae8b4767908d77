"""What a pickle is read into: names and inert objects, none of which can be called or imports anything.

ALLOWED is the list of the names that a snapshot of MARBLE may have, each with what may be done to it. A name that is
not on the list is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from torchport.targets.marble.exchange.labels import shown

MARBLE_CORE = (
    *("Core", "Neuron", "Synapse", "DataLoader", "AttentionModule"),
    *("MemorySystem", "ShortTermMemory", "LongTermMemory"),
)
NUMERIC_DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
BYTE_ORDERS = ("<", ">", "|", "=")


class Role(Enum):
    """What a name stands for, and so what may be done to it."""

    OBJECT = "an object of MARBLE"
    FUNCTION = "a function of MARBLE, which is only a name here"
    DEQUE = "a deque"
    DATETIME = "a date"
    ARRAY = "an array of numpy"
    BUFFER = "an array of numpy over bytes"
    ARRAY_TYPE = "the class of arrays"
    DTYPE = "a dtype of numpy"
    SCALAR = "a number of numpy"


CAN_BE_MADE = {Role.OBJECT, Role.DEQUE, Role.DATETIME, Role.ARRAY, Role.BUFFER, Role.DTYPE, Role.SCALAR}
CAN_BE_NEW = {Role.OBJECT}
TAKES_STATE = {Role.OBJECT: dict, Role.ARRAY: tuple, Role.DTYPE: tuple}
TAKES_ITEMS = {Role.DEQUE}


@dataclass(frozen=True)
class Name:
    """A name of the list."""

    module: str
    name: str
    role: Role

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _listed() -> dict[tuple[str, str], Name]:
    functions = ("default_combine_fn", "default_loss_fn", "default_weight_update_fn", "default_q_encoding")
    by_role: dict[Role, list[tuple[str, str]]] = {
        Role.OBJECT: [
            *(("marble_core", name) for name in MARBLE_CORE),
            ("marble_neuronenblitz.core", "Neuronenblitz"),
            ("marble_neuronenblitz", "Neuronenblitz"),
            ("marble_brain", "Brain"),
            ("marble_main", "MARBLE"),
            ("data_compressor", "DataCompressor"),
            ("marble_lobes", "LobeManager"),
            ("meta_parameter_controller", "MetaParameterController"),
            ("neuromodulatory_system", "NeuromodulatorySystem"),
        ],
        Role.FUNCTION: [("marble_neuronenblitz.core", name) for name in functions],
        Role.DEQUE: [("collections", "deque")],
        Role.DATETIME: [("datetime", "datetime")],
        Role.ARRAY: [("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")],
        Role.BUFFER: [("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")],
        Role.ARRAY_TYPE: [("numpy", "ndarray")],
        Role.DTYPE: [("numpy", "dtype")],
        Role.SCALAR: [("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar")],
    }
    return {pair: Name(*pair, role) for role, pairs in by_role.items() for pair in pairs}


ALLOWED = _listed()


class Made:
    """What a pickle makes by one of the names: its arguments, and the state that it was given later."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: Name, args: tuple[Any, ...]) -> None:
        self.name = name
        self.args = args
        self.state: Any = None

    def attributes(self, arguments: tuple[str, ...]) -> dict[str, Any]:
        """What the object would have as attributes, if its constructor takes these arguments."""
        return {**dict(zip(arguments, self.args)), **(self.state or {})}


class Collected:
    """A set in a pickle. Nothing that is read is in one, so its items are dropped."""

    __slots__ = ()


def not_numeric(made: Made) -> str | None:
    """What an array, a number or a dtype of numpy has that is not plain numbers, such as objects; None if nothing."""
    args, state = made.args, made.state
    match made.name.role:
        case Role.DTYPE:
            if not args or args[0] not in NUMERIC_DTYPES:
                return f"an array of dtype {shown(args[0] if args else None)}"
            if state is not None and (len(state) < 5 or state[1] not in BYTE_ORDERS or any(state[2:5])):
                return "an array of a dtype with parts"
        case Role.ARRAY if state is not None:
            if len(state) != 5 or type(state[4]) is not bytes or not _is_dtype(state[2]):
                return "an array of objects"
        case Role.SCALAR:
            if len(args) != 2 or type(args[1]) is not bytes or not _is_dtype(args[0]):
                return "an object of numpy"
        case Role.BUFFER:
            if len(args) != 4 or type(args[0]) is not bytes or not _is_dtype(args[1]):
                return "an array of objects"
    return None


def _is_dtype(value: Any) -> bool:
    return type(value) is Made and value.name.role is Role.DTYPE


def number_in(value: Any) -> Any:
    """The Python number in a number of numpy or an array without axes; any other value is given back as it is."""
    if type(value) is not Made:
        return value
    content: Any = None
    if value.name.role is Role.SCALAR:
        dtype, content = value.args
    elif value.name.role is Role.ARRAY and value.state is not None and value.state[1] == ():
        dtype, content = value.state[2], value.state[4]
    elif value.name.role is Role.BUFFER and value.args[2] == ():
        dtype, content = value.args[1], value.args[0]
    if content is None:
        return value
    order = dtype.state[1] if dtype.state else "="
    numpy_dtype = np.dtype(dtype.args[0]).newbyteorder(order)
    return np.frombuffer(content, numpy_dtype)[0].item() if len(content) == numpy_dtype.itemsize else value
