"""Loops that torch.export wrote out step by step become a `for` again.

The number of steps stays that of the example inputs: other code of the module may depend on it. So an axis that is
taken slice by slice must have the length that it had, and a tensor of another length is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from torchport.capture import graph as g
from torchport.capture.unrolled import Unrolled, find_unrolled
from torchport.targets.candle.body import Value
from torchport.targets.candle.code import Code, as_code, code, joined, tuple_of
from torchport.targets.candle.emit import FALLBACK, Emitter
from torchport.targets.candle.module.scope import Scope

WriteNodes = Callable[[Emitter], None]
Slices = dict[g.Ref, tuple[g.Ref, int, g.TensorMeta | None]]
"""What a step takes of an `unbind` → the tensor that is taken apart, along which axis, and what a slice is."""


def unrolled_loops(e: Emitter) -> dict[int, Unrolled]:
    """The loops of a module, by the positions of their first nodes. A check of every operation needs each by itself."""
    if e.checks == "ops" or e.shown or isinstance(e, Scope):
        return {}
    metas = g.value_metas(e.module, e.graph.weights)
    return {loop.start: loop for loop in find_unrolled(e.module, metas)}


def write_unrolled(e: Emitter, loop: Unrolled, write_nodes: WriteNodes) -> None:
    first, template = loop.nodes(e.module, 0), loop.nodes(e.module, 1)
    slices = _slices(e, loop, template)
    outside = _outside(e, loop, template, slices)
    for ref in outside:
        e.name_if_expression(ref)
    for key in {node.target for node in template if node.target is not None}:
        e.name_calls_of(g.path_of(key), ())
    e.write(*_guards(e, template, slices, loop))
    carried = _start(e, loop, outside)
    vectors = {refs: _vector(e, refs) for refs in loop.collected}
    counter, _ = e.declare("t")

    now = dict(zip((node.name for node in first), (node.name for node in template), strict=True))
    pushed = [g.Ref(now[refs[0].name], refs[0].index) for refs in vectors]
    carried_on = [g.Ref(now[ref.name], ref.index) for ref in carried]
    nodes = _step(loop, template, slices, counter)
    body = replace(e.module, inputs=(), params={}, nodes=nodes, outputs=(*pushed, *carried_on))
    known = {ref: (e.values[ref], e.metas[ref]) for ref in outside}
    known |= {ref: (value, e.metas[loop.init[ref]]) for ref, value in carried.items()}
    variables = [*(value for value, _ in known.values()), *vectors.values()]
    scope = Scope(e, body, [], [counter, *(str(v.code.parts[0]) for v in variables if v.code.is_identifier)])
    scope.sizes, scope.outside = set(), set(known)
    for ref, (value, meta) in known.items():
        scope.values[ref], scope.metas[ref] = value, meta
    scope.complex |= {ref for ref in known if loop.init.get(ref, ref) in e.complex}
    write_nodes(scope)
    e.sizes |= scope.sizes - {counter}
    results = scope.given_away(body.outputs)
    pushes = [code("{}.push({});", v.code, r) for v, r in zip(vectors.values(), results, strict=False)]
    head = code("for {} in 0..{} {{", counter, e.slot(loop.count, None))
    assignment = _assignment(list(carried.values()), results[len(pushed) :])
    e.write(joined("\n", [head, *scope.lines, *pushes, *assignment, "}"]))
    _bind(e, loop, carried, vectors)


def _slices(e: Emitter, loop: Unrolled, template: tuple[g.Node, ...]) -> Slices:
    by_name = {node.name: node for node in e.module.nodes[: loop.start]}
    found: Slices = {}
    for at, path in sorted(loop.advancing):
        arg = _at(template[at], path)
        if isinstance(arg, g.Ref):
            unbind = by_name[arg.name]
            source = unbind.args[0]
            axis = unbind.args[1] if len(unbind.args) > 1 else unbind.kwargs.get("dim", 0)
            found[arg] = (source, axis, unbind.outputs[arg.index])
    return found


def _at(node: g.Node, path: tuple[int, ...]) -> g.Arg:
    """An argument of a node by its path, which begins in (args, kwargs)."""
    arg: g.Arg = (node.args, list(node.kwargs.values()))
    for index in path:
        arg = arg[index]
    return arg


def _outside(e: Emitter, loop: Unrolled, template: tuple[g.Node, ...], slices: Slices) -> list[g.Ref]:
    """The values that every step reads and none computes."""
    inside = {node.name for node in e.module.nodes[loop.start : loop.end]}
    read = [ref for ref in g.refs([[node.args, node.kwargs] for node in template]) if ref.name not in inside]
    sources = [source for source, _, _ in slices.values()]
    return list(dict.fromkeys([*(ref for ref in read if ref not in slices), *sources]))


def _guards(e: Emitter, template: tuple[g.Node, ...], slices: Slices, loop: Unrolled) -> list[Code]:
    """Checks that what is taken slice by slice is as long as it was."""
    taken = [(source, axis) for source, axis, _ in slices.values()]
    advancing = {at for at, _ in loop.advancing}
    taken += [
        (node.args[0], node.args[1])
        for at, node in enumerate(template)
        if at in advancing
        and node.op in ("aten.select.int", "aten.slice.Tensor")
        and node.args[0] in e.values
    ]
    lines = []
    for source, axis in dict.fromkeys(taken):
        shape = e.metas[source].shape
        size = shape[axis]
        if isinstance(size, int):
            place = axis % len(shape)
            lines.append(code("ops::expect_length({}, {}, {})?;", e.ref(source), place, e.slot(size, "size")))
    return lines


def _start(e: Emitter, loop: Unrolled, outside: list[g.Ref]) -> dict[g.Ref, Value]:
    """Declares what is carried, by the names of the first step, and counts what the loop reads as read."""
    reads = Counter(
        ref.name for node in e.module.nodes[loop.start : loop.end] for ref in g.refs([node.args, node.kwargs])
    )
    kept = {ref.name for ref in outside}
    starts = []
    for init in loop.init.values():
        value = e.values[init]
        if value.form == "expr" and list(loop.init.values()).count(init) > 1:
            value = e.name_it(init)
        is_last = e.unread[init.name] == reads[init.name] and init not in outside
        is_free = value.form == "expr" or (
            e.is_own(init) and is_last and list(loop.init.values()).count(init) == 1
        )
        starts.append(value.code if is_free else value.code.cloned)
    # A name may hide what only the start reads, but only if that is read before all of the new names are known.
    hidden = {init.name for init in loop.init.values()} - kept if len(starts) == 1 else set()
    for name in hidden:
        e.unread[name] -= reads[name]
    carried: dict[g.Ref, Value] = {}
    last = dict(
        zip((n.name for n in loop.nodes(e.module, 0)), loop.nodes(e.module, loop.count - 1), strict=True)
    )
    for ref, start in zip(loop.init, starts, strict=True):
        name, binding = e.declare(last[ref.name].hint or e.values[loop.init[ref]].hint or FALLBACK)
        carried[ref] = Value(as_code(name), "owned", binding)
        e.values[g.Ref(last[ref.name].name, ref.index)] = carried[ref]
        e.write(code("let mut {} = {};", name, start))
    for name, times in reads.items():
        if name not in hidden:
            e.unread[name] -= times
    return carried


def _vector(e: Emitter, refs: tuple[g.Ref, ...]) -> Value:
    name, binding = e.declare("steps")
    e.write(code("let mut {} = Vec::new();", name))
    return Value(as_code(name), "owned", binding)


def _step(loop: Unrolled, template: tuple[g.Node, ...], slices: Slices, counter: str) -> tuple[g.Node, ...]:
    """The nodes of one step, in which what advances depends on the counter."""

    def place(value: int) -> g.Sym:
        return g.Sym(counter if value == 1 else ("add", counter, value - 1))

    def change(arg: g.Arg, at: int, path: tuple[int, ...]) -> g.Arg:
        if isinstance(arg, list | tuple):
            return type(arg)(change(item, at, (*path, index)) for index, item in enumerate(arg))
        if (at, path) in loop.advancing and type(arg) is int:
            return place(arg)
        return g.Ref(_slice_name(arg)) if isinstance(arg, g.Ref) and arg in slices else arg

    taken = [
        g.Node(_slice_name(ref), "aten.select.int", (source, axis, place(ref.index)), {}, (meta,))
        for ref, (source, axis, meta) in slices.items()
    ]
    return (*taken, *(replace(node, args=change(node.args, at, (0,))) for at, node in enumerate(template)))


def _slice_name(ref: g.Ref) -> str:
    return f"{ref.name}__slice"


def _assignment(carried: list[Value], results: list[Code]) -> list[Code]:
    if not carried:
        return []
    return [code("{} = {};", tuple_of(value.code for value in carried), tuple_of(results))]


def _bind(
    e: Emitter, loop: Unrolled, carried: dict[g.Ref, Value], vectors: dict[tuple[g.Ref, ...], Value]
) -> None:
    """Makes the results known: the last values of what is carried, and the vectors of the values of all steps."""
    for node in e.module.nodes[loop.start : loop.end]:
        for index, meta in enumerate(node.outputs):
            if meta is not None:
                e.learn(g.Ref(node.name, index), meta)
    for refs, vector in vectors.items():
        e.collected[refs] = vector
        for ref in refs:
            known = e.values.get(ref, vector)
            e.values[ref] = replace(known, reads=known.reads | vector.reads)
