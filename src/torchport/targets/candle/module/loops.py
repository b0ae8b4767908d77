"""Calls that walk over a whole Vec, each fed by the one before, become a `for` loop."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle.body import Binding, Value
from torchport.targets.candle.code import Code, as_code, code, joined
from torchport.targets.candle.emit import FALLBACK, Emitter
from torchport.targets.candle.module.child import Child, Vector, note_call


@dataclass(frozen=True)
class Loop:
    """The calls of all items of a Vec, one after another."""

    vector: Vector
    calls: Sequence[g.Node]
    carried: int
    """The position of the argument that is the result of the call before; the other arguments stay the same."""


def find_loop(e: Emitter, children: Mapping[str, Child], start: int) -> Loop | None:
    """The loop that begins with a node, if there is one."""
    first = e.module.nodes[start]
    child = children.get(first.target) if first.op == g.CALL and first.target else None
    vector = None if child is None else child.vector
    if vector is None:
        return None
    calls = e.module.nodes[start : start + len(vector.keys)]
    if tuple(node.target for node in calls) != vector.keys or any(len(n.outputs) != 1 for n in calls):
        return None
    carried = _carried(calls)
    if carried is None:
        return None
    for before, after in itertools.pairwise(calls):
        if after.args[carried] != g.Ref(before.name) or e.times_read(g.Ref(before.name)) != 1:
            return None
        if _other_arguments(after, carried) != _other_arguments(first, carried):
            return None
    return Loop(vector, calls, carried)


def _carried(calls: Sequence[g.Node]) -> int | None:
    """The only argument of the second call that is the result of the first; the first argument if there is one call."""
    if len(calls) == 1:
        return 0 if calls[0].args else None
    fed = [index for index, arg in enumerate(calls[1].args) if arg == g.Ref(calls[0].name)]
    return fed[0] if len(fed) == 1 else None


def _other_arguments(node: g.Node, carried: int) -> list[g.Arg]:
    return [arg for index, arg in enumerate(node.args) if index != carried]


def write_loop(e: Emitter, children: Mapping[str, Child], loop: Loop) -> None:
    first, last = loop.calls[0], loop.calls[-1]
    child = children[loop.vector.keys[0]]
    for arg in _other_arguments(first, loop.carried):
        e.name_if_expression(arg)
    for key in loop.vector.keys:
        e.name_calls_of(g.path_of(key), first.args)
    note_call(e, first)
    start = e.values[first.args[loop.carried]]
    _count_as_read(e, loop.calls)
    begin = _first_value(e, first.args[loop.carried])
    (name, reads), (item, _) = _declare_beside(
        e, first.args, last.hint or start.hint or FALLBACK, _item_name(loop.vector.name)
    )
    arguments = [e.values[arg].reference for arg in first.args]
    arguments[loop.carried] = code("&{}", name)
    arguments += child.given_sizes(e)
    e.body.calls_module_trait |= child.is_plain
    e.write(
        code("let mut {} = {};", name, begin),
        code("for {} in &self.{} {{", item, loop.vector.name),
        code("{} = {}.forward({})?;", name, item, joined(", ", arguments)),
        code("}}"),
    )
    e.values[g.Ref(last.name)] = Value(as_code(name), "owned", reads)
    for node in loop.calls:
        if node.outputs[0] is not None:
            e.learn(g.Ref(node.name), node.outputs[0])


def _count_as_read(e: Emitter, calls: Sequence[g.Node]) -> None:
    for node in calls:
        for ref in g.refs(node.args):
            e.unread[ref.name] -= 1


def _first_value(e: Emitter, arg: g.Ref) -> Code:
    """The value that the loop's variable starts with: the value itself if nothing else reads it, else a clone."""
    value = e.values[arg]
    is_read_again = e.unread[arg.name] > 0 or any(e.is_live(name) for name, _ in value.reads)
    is_free = value.form == "expr" or (value.form == "owned" and not value.is_field and not is_read_again)
    return value.code if is_free else value.code.cloned


def _declare_beside(
    e: Emitter, args: Sequence[g.Ref], name: str, item: str
) -> tuple[tuple[str, frozenset[Binding]], tuple[str, frozenset[Binding]]]:
    """The variables of a loop, which hide none of the values that it still reads."""
    for arg in args:
        e.unread[arg.name] += 1
    carried = e.declare(name)
    walking = e.declare(item, beside=[carried[0]])
    for arg in args:
        e.unread[arg.name] -= 1
    return carried, walking


def _item_name(vector: str) -> str:
    """`layer` for `layers`, `entry` for `entries`."""
    if vector.endswith("ies"):
        return vector[:-3] + "y"
    return vector[:-1] if vector.endswith("s") and len(vector) > 2 else "layer"
