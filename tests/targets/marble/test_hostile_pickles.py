"""A hostile pickle runs nothing: each is refused with a code, and what it would have done is not done."""

from __future__ import annotations

import builtins
import copyreg
import functools
import importlib
import os
import pickle
import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.targets.marble.test_legacy import graph, written
from torchport.errors import GraphFileError
from torchport.targets.marble.exchange import legacy
from torchport.targets.marble.exchange.limits import Limits
from torchport.targets.marble.exchange.stubs import ALLOWED


class Calls:
    """Is pickled as a call of a function."""

    def __init__(self, function: Any, *args: Any, state: Any = None, items: Any = None) -> None:
        self.parts = (function, args, state, items)

    def __reduce__(self) -> Any:
        return self.parts


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def name(module: str, attribute: str) -> bytes:
    return b"c" + f"{module}\n{attribute}\n".encode()


MARKER = "marker-of-a-hostile-pickle"
CODE = f"open({MARKER!r}, 'w')"
SHELL = f"touch {MARKER}"
WITHIN = {
    "os.system": Calls(os.system, SHELL),
    "builtins.eval": Calls(eval, CODE),
    "builtins.exec": Calls(exec, CODE),
    "builtins.getattr": Calls(getattr, Calls(importlib.import_module, "os"), "system"),
    "builtins.__import__": Calls(builtins.__import__, "antigravity"),
    "functools.partial": Calls(functools.partial, os.system, SHELL),
    "a call within arguments": Calls(tuple, [Calls(os.system, SHELL)]),
    "a call within the state": Calls(tuple, state={"a": Calls(os.system, SHELL)}),
    "copyreg._reconstructor": Calls(copyreg._reconstructor, types.SimpleNamespace, object, None),  # type: ignore[attr-defined]
    "copyreg.add_extension": Calls(copyreg.add_extension, "os", "system", 240),
    "an array of objects": np.array([Calls(os.system, SHELL)], dtype=object),
    "a structured array": np.zeros(2, [("a", "f8"), ("b", "O")]),
    "an array of dates": np.zeros(2, "M8[s]"),
    "a path": Path(MARKER),
    "a tensor of torch": torch.ones(2),
    "a storage of torch": torch.ones(2).untyped_storage(),
    "a module of torch": torch.nn.Linear(1, 1),
    "bytes by a codec": Calls(__import__("codecs").encode, "a", "latin1"),
    "a dtype by a text": Calls(np.dtype, "O"),
    "a set": Calls(set, [1]),
}


@pytest.mark.parametrize("attack", WITHIN.values(), ids=WITHIN.keys())
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("place", ["alone", "metadata", "core"])
def test_nothing_is_run(attack: Any, protocol: int, place: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps(attack if place == "alone" else {place: {"a": attack}}, protocol)
    modules = set(sys.modules)
    with pytest.raises(GraphFileError, match=r"TP0365.*byte \d"):
        legacy.loads(content, verify=False)
    assert not list(tmp_path.iterdir())
    assert set(sys.modules) == modules


def test_the_attacks_would_work_on_pickle_itself(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for key in (
        "os.system",
        "builtins.eval",
        "builtins.exec",
        "a call within arguments",
        "an array of objects",
    ):
        pickle.loads(pickle.dumps(WITHIN[key]))
        assert [path.name for path in tmp_path.iterdir()] == [MARKER]
        (tmp_path / MARKER).unlink()


CORE = name("marble_core", "Core")
DEQUE = name("collections", "deque")
BY_HAND = {
    "a name by STACK_GLOBAL": text("os") + text("system") + b"\x93.",
    "a name by INST": b"(S'true'\nios\nsystem\n.",
    "a name by OBJ": b"(" + CORE + b"o.",
    "a dotted name": name("marble_core", "Core.__init__.__globals__") + b".",
    "a listed name of another module": name("os", "Core") + b".",
    "a submodule": name("marble_core.os", "system") + b".",
    "the extension registry": b"\x82\xf0.",
    "the extension registry in two bytes": b"\x83\xf0\x00.",
    "the extension registry in four bytes": b"\x84\xf0\x00\x00\x00.",
    "a persistent id": b"Pos\n.",
    "a persistent id of the stack": text("os") + b"Q.",
    "a buffer from outside": b"\x97.",
    "NEWOBJ_EX": CORE + b")}\x92.",
    "NEWOBJ of a deque": DEQUE + b")\x81.",
    "NEWOBJ of a function": name("marble_neuronenblitz.core", "default_loss_fn") + b")\x81.",
    "REDUCE of a function": name("marble_neuronenblitz.core", "default_loss_fn") + b")R.",
    "REDUCE of the class of arrays": name("numpy", "ndarray") + b")R.",
    "REDUCE of an object": CORE + b")R)R.",
    "REDUCE of a text": text("os.system") + b")R.",
    "BUILD of a name": CORE + b"}(" + text("__init__") + b"Nub.",
    "BUILD of a list": b"]}b.",
    "BUILD of a dict": b"}}b.",
    "BUILD of a deque": DEQUE + b")R}b.",
    "APPEND to an object": CORE + b")RNa.",
    "APPEND to a name": CORE + b"Na.",
    "SETITEM of an object": CORE + b")RNNs.",
    "ADDITEMS to a list": b"](Ne0](N\x90.",
    "an array of objects": name("numpy._core.multiarray", "_reconstruct") + b")R(K\x01)N\x89]tb.",
    "a number of an object": name("numpy._core.multiarray", "scalar") + b"N]\x86R.",
}


@pytest.mark.parametrize("content", BY_HAND.values(), ids=BY_HAND.keys())
def test_opcodes_that_no_snapshot_needs_are_refused(content: bytes) -> None:
    copyreg.add_extension("os", "system", 240)
    try:
        with pytest.raises(GraphFileError, match=r"TP0365.*byte \d"):
            legacy.loads(content, verify=False)
    finally:
        copyreg.remove_extension("os", "system", 240)


@pytest.mark.parametrize("key", ["__setstate__", "__class__", "__dict__", "__reduce__", "__init__"])
def test_special_names_in_a_state_are_only_text(key: str) -> None:
    """State is kept as it is in the file, and never set on an object."""
    state = b"}(" + text(key) + CORE + text("neurons") + b"]" + text("synapses") + b"]u"
    content = b"}(" + text("core") + CORE + b")R" + state + b"bu."
    assert len(legacy.loads(content, verify=False).neurons) == 0


def test_state_that_changes_after_it_was_set_does_not_change_the_object() -> None:
    """As in MARBLE, which copies a state into the object: both see the same graph."""
    state = b"}(" + text("neurons") + b"]" + text("synapses") + b"]u\x94"
    later = b"h\x00" + text("neurons") + text("none") + b"s0"
    content = b"}(" + text("core") + CORE + b")R" + state + b"b" + later + b"u."
    assert len(legacy.loads(content, verify=False).neurons) == 0


LIMITS = Limits(file_bytes=10**6, memory_bytes=10**7, opcodes=10**5)
GREEDY = {
    "a long of 2 GB": (b"\x8b\xff\xff\xff\x7f.", "TP0366"),
    "a long of a negative size": (b"\x8b\xff\xff\xff\xff.", "TP0366"),
    "a long of 255 bytes": (b"\x8a\xff" + bytes(255) + b".", "TP0366"),
    "bytes of 16 EB": (b"\x8e" + b"\xff" * 8 + b".", "TP0361"),
    "a text of 4 GB": (b"X\xff\xff\xff\xff.", "TP0361"),
    "a bytearray of 1 TB": (b"\x96" + struct.pack("<Q", 2**40) + b".", "TP0361"),
    "a frame of 16 EB": (b"\x95" + b"\xff" * 8 + b".", "TP0361"),
    "a memo of four billion": (b"Nr\xff\xff\xff\xff.", "TP0362"),
    "half a million lists": (b"(" + b"]" * 90_000 + b"l.", "TP0366"),
    "too many opcodes": (b"N0" * 100_000 + b"N.", "TP0366"),
    "marks": (b"(" * 90_000 + b".", "TP0366"),
    "tuples in tuples": (b")" + b"\x85" * 80_000 + b".", "TP0362"),
    "a list in itself": (b"]\x94h\x00a.", "TP0362"),
    "a state that grows": (
        CORE
        + b")R"
        + b"}("
        + b"".join(text(f"{n:04}") + b"N" for n in range(9000))
        + b"u\x94"
        + b"bh\x00" * 9999,
        "TP0366",
    ),
}


@pytest.mark.parametrize(("content", "code"), GREEDY.values(), ids=GREEDY.keys())
def test_a_pickle_that_asks_for_too_much_is_refused(content: bytes, code: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        legacy.loads(content, verify=False, limits=LIMITS)
    assert caught.value.code == code


def doubled(first: bytes, times: int) -> bytes:
    """A list of two of the list before, so many times over: few bytes, and very many values when it is walked."""
    levels = [f"](h{chr(level)}h{chr(level)}e\x94".encode("latin-1") for level in range(times)]
    return b"".join([first, b"\x94", *(b"0" + level for level in levels)])


@pytest.mark.parametrize(
    "branch",
    [
        doubled(b"]", 30),
        doubled(text("a" * 100_000), 18),
        b"]\x94h\x00a",
        b"}\x94" + text("a") + b"h\x00s",
        b"]" + b"\x85" * 50_000,
    ],
    ids=["lists of lists", "much text", "a list in itself", "a dict in itself", "tuples in tuples"],
)
@pytest.mark.parametrize("place", ["metadata", "hidden_states", "params"])
def test_metadata_that_unfolds_without_end_is_refused(branch: bytes, place: str) -> None:
    extras = text("torchport") + b"}(" + text("version") + b"K\x01" + text(place)
    value = b"}(" + text("a") + b"j\x00\x00\x01\x00u"
    params = value if place == "params" else b"}"
    core = text("core") + CORE + params + b"\x85R}(" + text("neurons") + b"]" + text("synapses") + b"]ub"
    hidden = text("hidden_states")
    if place == "params":
        core = core.replace(text("a"), hidden)
        content = branch + b"r\x00\x00\x01\x000}(" + core + b"u."
    else:
        content = branch + b"r\x00\x00\x01\x000}(" + core + extras + value + b"uu."
    with pytest.raises(GraphFileError, match="TP036[26]"):
        legacy.loads(content, verify=False)


def test_only_the_names_of_the_list_are_found_and_none_is_a_real_object() -> None:
    for (module, attribute), listed in ALLOWED.items():
        assert (listed.module, listed.name) == (module, attribute)
        assert not callable(listed)
    roots = {module.partition(".")[0] for module, _ in ALLOWED}
    assert roots.isdisjoint(
        {"os", "sys", "builtins", "functools", "copyreg", "torch", "importlib", "operator"}
    )


def test_a_whole_snapshot_with_one_forbidden_name_is_refused() -> None:
    content = written(graph())
    attack = name("os", "system") + text(SHELL) + b"\x85R0"
    with pytest.raises(GraphFileError, match="TP0365: the pickle asks for 'os'.'system'"):
        legacy.loads(content[:2] + attack + content[2:])
