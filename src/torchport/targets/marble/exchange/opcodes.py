"""The opcodes of pickles that snapshots need, and those that are refused.

Persistent ids, the extension registry, buffers from outside and the calls of old protocols are none of them.
"""

from __future__ import annotations

import struct
from typing import Any

from torchport.targets.marble.exchange.limits import Limits
from torchport.targets.marble.exchange.machine import Pickle, Step
from torchport.targets.marble.exchange.stubs import CAN_BE_MADE, CAN_BE_NEW, Collected

NEWEST_PROTOCOL = 5
U1, U2, U4, U8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q"))
I4, F8 = struct.Struct("<i"), struct.Struct(">d")


def unpickled(content: bytes, limits: Limits) -> Any:
    """What a pickle holds, as names, inert objects and plain values."""
    return Pickle(content, limits).value(OPCODES, REFUSED)


def _bytes(pickle: Pickle, form: struct.Struct) -> bytes:
    content = pickle.take(pickle.number(form))
    pickle.spend(len(content))
    return content


def _tuple(pickle: Pickle, count: int) -> None:
    items = [pickle.pop() for _ in range(count)]
    pickle.push(tuple(reversed(items)))


def _mark(pickle: Pickle) -> None:
    pickle.spend()
    pickle.marked.append(pickle.stack)
    pickle.stack = []


def _pop(pickle: Pickle) -> None:
    if pickle.stack:
        pickle.stack.pop()
    else:
        pickle.since_mark()


def _dict(pickle: Pickle) -> None:
    items = pickle.since_mark()
    pickle.push({})
    pickle.set_items(items)


def _set_item(pickle: Pickle) -> None:
    value, key = pickle.pop(), pickle.pop()
    pickle.set_items([key, value])


def _proto(pickle: Pickle) -> None:
    version = pickle.number(U1)
    if version > NEWEST_PROTOCOL:
        pickle.refuse("TP0363", f"the pickle is of protocol {version}, this reads up to {NEWEST_PROTOCOL}")


def _frame(pickle: Pickle) -> None:
    if pickle.number(U8) > len(pickle.content) - pickle.position:
        pickle.cut_off()


def _stack_global(pickle: Pickle) -> None:
    name, module = pickle.pop(), pickle.pop()
    pickle.find(module, name)


def _reduce(pickle: Pickle) -> None:
    args = pickle.pop()
    pickle.make(args, pickle.pop(), CAN_BE_MADE)


def _new(pickle: Pickle) -> None:
    args = pickle.pop()
    pickle.make(args, pickle.pop(), CAN_BE_NEW)


OPCODES: dict[int, Step] = {
    0x80: _proto,
    0x95: _frame,
    ord("N"): lambda p: p.push(None, 8),
    0x88: lambda p: p.push(True, 8),
    0x89: lambda p: p.push(False, 8),
    ord("K"): lambda p: p.push(p.number(U1)),
    ord("M"): lambda p: p.push(p.number(U2)),
    ord("J"): lambda p: p.push(p.number(I4)),
    0x8A: lambda p: p.integer(p.number(U1)),
    0x8B: lambda p: p.integer(p.number(I4)),
    ord("G"): lambda p: p.push(p.number(F8)),
    0x8C: lambda p: p.push(p.text(_bytes(p, U1))),
    ord("X"): lambda p: p.push(p.text(_bytes(p, U4))),
    0x8D: lambda p: p.push(p.text(_bytes(p, U8))),
    ord("C"): lambda p: p.push(_bytes(p, U1)),
    ord("B"): lambda p: p.push(_bytes(p, U4)),
    0x8E: lambda p: p.push(_bytes(p, U8)),
    0x96: lambda p: p.push(_bytes(p, U8)),
    ord("]"): lambda p: p.push([]),
    ord("}"): lambda p: p.push({}),
    ord(")"): lambda p: p.push((), 8),
    0x8F: lambda p: p.push(Collected()),
    ord("("): _mark,
    ord("0"): _pop,
    ord("1"): lambda p: p.since_mark(),
    ord("2"): lambda p: p.push(p.top(), 8),
    ord("t"): lambda p: p.push(tuple(p.since_mark())),
    0x85: lambda p: _tuple(p, 1),
    0x86: lambda p: _tuple(p, 2),
    0x87: lambda p: _tuple(p, 3),
    ord("l"): lambda p: p.push(p.since_mark()),
    ord("d"): _dict,
    ord("a"): lambda p: p.extend([p.pop()]),
    ord("e"): lambda p: p.extend(p.since_mark()),
    ord("s"): _set_item,
    ord("u"): lambda p: p.set_items(p.since_mark()),
    0x90: lambda p: p.collect(),
    0x91: lambda p: p.push((p.since_mark(), Collected())[1]),
    ord("h"): lambda p: p.fetch(p.number(U1)),
    ord("j"): lambda p: p.fetch(p.number(U4)),
    ord("q"): lambda p: p.remember(p.number(U1)),
    ord("r"): lambda p: p.remember(p.number(U4)),
    0x94: lambda p: p.remember(len(p.memo)),
    ord("c"): lambda p: p.find(p.line(), p.line()),
    0x93: _stack_global,
    ord("R"): _reduce,
    0x81: _new,
    ord("b"): lambda p: p.build(),
}

REFUSED: dict[int, str] = {
    ord("P"): "an object by a persistent id",
    ord("Q"): "an object by a persistent id",
    0x82: "an object of the extension registry",
    0x83: "an object of the extension registry",
    0x84: "an object of the extension registry",
    0x97: "a buffer from outside",
    0x98: "a buffer from outside",
    ord("i"): "an object by INST",
    ord("o"): "an object by OBJ",
    0x92: "an object by NEWOBJ_EX",
    **{ord(letter): "a value of protocol 0, which snapshots do not have" for letter in "FILSTUVgp"},
}
