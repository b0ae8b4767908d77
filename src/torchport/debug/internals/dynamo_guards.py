"""The guards of compiled code: what Dynamo exports of each, and what the tree of guards really checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torchport.debug.internals.dynamo_records import RawFrame, RawGuard
from torchport.debug.internals.needs import Need

NEEDS = (
    Need("guard tree", "torch._dynamo.guards", "GuardManagerWrapper", "guards: the exact checks of each graph"),
    Need("dictionaries in the guard tree", "torch._C._dynamo.guards", "DictGuardManager.get_key_value_managers",
         "guards: checks on the entries of dictionaries"),
    Need("shape guards in the guard tree", "torch._C._dynamo.guards", "RootGuardManager.get_epilogue_lambda_guards",
         "guards: conditions on free sizes of functions that were compiled before"),
    Need("guards", "torch._guards", "Guard.create_fn_name", "guards: the kind of each guard and the line it came from"),
)  # fmt: skip

SHAPES = "SHAPE_ENV"
SAME = "DUPLICATE_INPUT"
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
_COMMENT = re.compile(r"\s{2,}# ")
_PLACE = re.compile(r"# (?P<place>[^#\s]+:\d+) in ")


class _Leaf(NamedTuple):
    """A check in the tree of guards."""

    source: str
    kind: str
    code: str
    place: str


def plain_name(name: str) -> str:
    """The name of the user's function that a resume function belongs to; any other name as it is."""
    found = _RESUMED.match(name)
    return found["name"] if found else name


def read_stack(stack: Iterable[Any] | None) -> tuple[RawFrame, ...]:
    return tuple(
        RawFrame(one.filename, one.lineno or 0, plain_name(one.name), getattr(one, "colno", None))
        for one in stack or ()
    )


def exported(guards: Iterable[Any]) -> list[RawGuard]:
    """The guards of a graph as Dynamo exports them; some of them are never checked, and have no code."""
    return [
        RawGuard(
            source=str(one.name),
            kind=str(one.create_fn_name()),
            code=list(one.code_list or ()),
            stack=read_stack(one.user_stack),
        )
        for one in guards
    ]


def checked(manager: Any, known: list[RawGuard]) -> list[RawGuard]:
    """What the tree of guards checks, with kind and line from the guards that are known by their code or source."""
    by_code = {code: guard for guard in known for code in guard.code}
    by_source = {(guard.source, guard.kind): guard for guard in known}
    by_end = {guard.stack[-1][:2]: guard.stack for guard in known if guard.stack}
    found: dict[tuple[str, str, int], RawGuard] = {}
    codes: set[str] = set()
    for leaf in _leaves(manager):
        if leaf.code in codes:
            continue
        codes.add(leaf.code)
        origin = by_code.get(leaf.code) or by_source.get((leaf.source, leaf.kind))
        source, kind = (origin.source, origin.kind) if origin else (leaf.source, leaf.kind)
        alone = len(found) if kind == SHAPES else -1
        stack = origin.stack if origin else _stack_to(leaf.place, by_end)
        guard = found.setdefault((source, kind, alone), RawGuard(source, kind, [], stack, leaf.place))
        guard.code.append(leaf.code)
    return list(found.values())


def _stack_to(place: str, by_end: dict[tuple[str, int], tuple[RawFrame, ...]]) -> tuple[RawFrame, ...]:
    """The stack that ends at a place, of which the beginning of the file is cut off; () if there is none."""
    file, _, line = place.rpartition(":")
    if not file:
        return ()
    found = (stack for end, stack in by_end.items() if end[1] == int(line) and end[0].endswith(file))
    return next(found, ())


def _leaves(manager: Any) -> Iterator[_Leaf]:
    root = manager.root
    yield from _leaves_below(root, "")
    for guard in root.get_epilogue_lambda_guards():
        for leaf in _parts(guard, "", SHAPES):
            yield leaf._replace(kind=SAME) if " is " in leaf.code else leaf


def _leaves_below(node: Any, source: str) -> Iterator[_Leaf]:
    for guard in node.get_leaf_guards():
        yield from _parts(guard, source, type(guard).__name__)
    if hasattr(node, "get_key_value_managers"):
        for _, pair in sorted(node.get_key_value_managers().items()):
            for child in pair:
                if child is not None:
                    yield from _leaves_below(child, child.get_source())
    for child in node.get_child_managers():
        yield from _leaves_below(child, child.get_source())


def _parts(guard: Any, source: str, kind: str) -> Iterator[_Leaf]:
    for part in guard.verbose_code_parts():
        place = _PLACE.search(part)
        yield _Leaf(source, kind, _COMMENT.split(part, 1)[0].strip(), place["place"] if place else "")
