"""Control flow as statements of `forward`: an `if`, a `while`, a `for` over slices; bodies become blocks.

In: a node with bodies, or a call of a layer that is nothing but such a node. Out: statements that bind its results to
variables. The layer has no struct: a probe in the struct around shows its operands and results to a checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from torchport.capture import graph as g
from torchport.targets.candle.body import Value
from torchport.targets.candle.code import (
    Code,
    Parameter,
    Piece,
    as_code,
    call,
    code,
    joined,
    tensors_of,
    tuple_of,
)
from torchport.targets.candle.emit import FALLBACK, Emitter
from torchport.targets.candle.module.scope import Scope, needed_part, read_inputs

WriteNodes = Callable[[Emitter], None]
"""Writes the nodes of a graph, those of a body too."""


def write_flow(e: Emitter, node: g.Node, write_nodes: WriteNodes) -> None:
    if node.op == g.CALL:
        _write_layer(e, node, write_nodes)
        return
    wanted = [index for index in range(len(node.outputs)) if e.times_read(g.Ref(node.name, index))]
    for index, value in zip(wanted, _written(e, node, wanted, write_nodes), strict=True):
        e.values[g.Ref(node.name, index)] = value
        if value.form == "expr" and e.times_read(g.Ref(node.name, index)) > 1:
            e.name_it(g.Ref(node.name, index))


# a layer of control flow


def _write_layer(e: Emitter, node: g.Node, write_nodes: WriteNodes) -> None:
    assert node.target is not None
    layer = e.graph.modules[node.target]
    flow = replace(layer.nodes[0], hint=node.hint)
    wanted = [ref.index for ref in layer.outputs]
    wishes = _operand_names(e.graph, flow)
    for arg, wish in zip(node.args, wishes, strict=True):
        if e.values[arg].form == "expr":
            e.values[arg] = replace(e.values[arg], hint=e.values[arg].hint or wish)
            e.name_it(arg)
    if e.checks == "none":
        operands = {item.name: arg for item, arg in zip(layer.inputs, node.args, strict=True)}
        here = g.map_node(flow, lambda arg: operands[arg.name] if isinstance(arg, g.Ref) else arg)
        values = _written(e, replace(here, name=node.name), wanted, write_nodes)
    else:
        values = _checked(e, node, flow, write_nodes)
    for index, value in enumerate(values):
        e.values[g.Ref(node.name, index)] = value
        if value.form == "expr" and e.times_read(g.Ref(node.name, index)) > 1:
            e.name_it(g.Ref(node.name, index))


def _checked(e: Emitter, node: g.Node, flow: g.Node, write_nodes: WriteNodes) -> list[Value]:
    """A block of its own, in which the operands are what the checker hands on."""
    assert node.target is not None
    layer = e.graph.modules[node.target]
    path = layer.path.removeprefix(f"{e.path}.") if e.path else layer.path
    probe = e.add_field(path, "Probe", code('Probe::new(&{}.pp("{}"))', Parameter.BUILDER, path))
    scope = Scope(e, layer, [e.values[arg] for arg in node.args])
    for item, wish in zip(layer.inputs, _operand_names(e.graph, flow), strict=True):
        _as_reference(scope, g.Ref(item.name), wish)
    names = [scope.values[g.Ref(item.name)].code for item in layer.inputs]
    scope.write(code("check!(self.{} => {});", probe, joined(", ", names)))
    results = _written(scope, flow, [ref.index for ref in layer.outputs], write_nodes)
    for ref in g.refs(node.args):
        e.unread[ref.name] -= 1
    variables = [
        _declared(e, g.Ref(node.name, index), _result_name(e.graph, flow, ref.index))
        for index, ref in enumerate(layer.outputs)
    ]
    result = code("check!(self.{}, {})?", probe, tensors_of(value.code for value in results))
    e.write(_lines(code("let {} = {{", _pattern(variables)), *scope.lines, result, "};"))
    return variables


def _as_reference(scope: Scope, ref: g.Ref, wish: str | None) -> None:
    """The operand as a variable, which the checker then makes a reference."""
    value = scope.values[ref]
    if value.is_field:
        name, reads = scope.declare(wish or _name_of_field(value.code))
        scope.write(code("let {} = &{};", name, value.code))
        value = Value(as_code(name), "ref", reads)
    scope.values[ref] = replace(value, form="ref")


def _name_of_field(field: Code) -> str:
    (name,) = field.removeprefix("self.").parts
    assert isinstance(name, str)
    return name


def _operand_names(graph: g.Graph, flow: g.Node) -> list[str | None]:
    """What the bodies call each operand, if the user's source names it."""
    operands = [len(arg) for arg in flow.args if isinstance(arg, list)]
    body = graph.modules[list(flow.bodies.values())[-1]]
    hints = [item.hint for item in body.inputs]
    if "true" in flow.bodies:
        return ["predicate", *hints]
    if "condition" in flow.bodies:
        return list(hints)
    kept = operands[0] if len(operands) == 3 else 0
    return [*hints[:kept], *([None] * (sum(operands) - kept))]


# kinds of control flow


def _written(e: Emitter, node: g.Node, wanted: list[int], write_nodes: WriteNodes) -> list[Value]:
    """Writes control flow, and gives the results at some positions."""
    if not wanted:
        return []
    return _KINDS[node.op](_Flow(e, node, wanted, write_nodes))


@dataclass(frozen=True)
class _Flow:
    """One piece of control flow while it is written into the code of `e`."""

    e: Emitter
    node: g.Node
    wanted: list[int]
    """The positions of the results that are read."""
    write_nodes: WriteNodes

    def body(self, role: str) -> g.Module:
        return self.e.graph.modules[self.node.bodies[role]]

    def block(self, body: g.Module, values: Sequence[Value], held: Iterable[str] = ()) -> Scope:
        """A body, written as a block."""
        scope = Scope(self.e, body, values, held)
        self.write_nodes(scope)
        return scope

    def operands(self, refs: Sequence[g.Ref]) -> list[Value]:
        """Operands as code that a body may read any number of times."""
        for ref in refs:
            self.e.name_if_expression(ref)
        return [self.e.values[ref] for ref in refs]

    def count_as_read(self, refs: Iterable[g.Ref]) -> None:
        for ref in refs:
            self.e.unread[ref.name] -= 1

    def result(self, index: int) -> Value:
        """A variable for one result."""
        return _declared(
            self.e, g.Ref(self.node.name, index), _result_name(self.e.graph, self.node, index), always=True
        )


def _cond(flow: _Flow) -> list[Value]:
    predicate, operands = flow.node.args
    values = flow.operands(operands)
    condition = call("ops::is_true", flow.e.ref(predicate))
    branches = []
    for role in ("true", "false"):
        branch = flow.block(needed_part(flow.body(role), flow.wanted), values)
        branches.append(_block_lines(branch, tensors_of(branch.given_away(branch.module.outputs))))
    flow.count_as_read([predicate, *operands])
    results = [flow.result(index) for index in flow.wanted]
    head = code("let {} = if {} {{", _pattern(results), condition)
    flow.e.write(_lines(head, *branches[0], "} else {", *branches[1], "};"))
    return results


def _while_loop(flow: _Flow) -> list[Value]:
    carried, closed_over = flow.node.args
    values = flow.operands(closed_over)
    start = read_inputs(flow.body("condition")) & set(range(len(carried)))
    state = _State(flow, carried, flow.body("body"), start | set(flow.wanted), ())
    held = _names([*state.values, *values])
    test = flow.block(flow.body("condition"), [*state.values, *values], held)
    (condition,) = test.module.outputs
    holds = call("ops::is_true", test.ref(condition))
    step = flow.block(state.body, [*state.values, *values], held)
    flow.count_as_read(closed_over)
    head: list[Piece] = [code("while {} {{", holds)]
    if test.lines:
        head = ["loop {", *test.lines, code("if !{} {{", holds), "break;", "}"]
    assignment = state.assignment(step, step.given_away(step.module.outputs))
    flow.e.write(*state.lets, _lines(*head, *step.lines, *assignment, "}"))
    return [state.values[index] for index in flow.wanted]


def _scan(flow: _Flow) -> list[Value]:
    return _over_slices(flow, *flow.node.args)


def _map(flow: _Flow) -> list[Value]:
    return _over_slices(flow, [], *flow.node.args)


def _over_slices(flow: _Flow, init: list[g.Ref], xs: list[g.Ref], closed_over: list[g.Ref]) -> list[Value]:
    """A `for` over the first axis of `xs`, with the results of every step stacked at its end."""
    e = flow.e
    sources, values = flow.operands(xs), flow.operands(closed_over)
    stacked = [index for index in flow.wanted if index >= len(init)]
    kept = {index for index in flow.wanted if index < len(init)}
    state = _State(flow, init, flow.body("body"), kept, stacked)
    collected = {index: _declared(e, g.Ref(flow.node.name, index), "steps", always=True) for index in stacked}
    counter, number = e.declare("i")
    slices = [
        Value(source.code.method("get", counter), "expr", source.reads | number, item.hint or "x")
        for source, item in zip(sources, state.body.inputs[len(init) :], strict=False)
    ]
    held = [*_names([*state.values, *collected.values(), *sources, *values]), counter]
    step = Scope(e, state.body, [*state.values, *slices, *values], held)
    for ref in (g.Ref(item.name) for item in state.body.inputs):
        if step.unread[ref.name] > 1:
            step.name_if_expression(ref)
    flow.write_nodes(step)
    results = step.given_away(step.module.outputs)
    pushes = [
        code("{}.push({});", vector.code, result)
        for vector, result in zip(collected.values(), results, strict=False)
    ]
    flow.count_as_read([*xs, *closed_over])
    flow.e.write(
        *state.lets,
        *(code("let mut {} = Vec::new();", vector.code) for vector in collected.values()),
        _lines(
            code("for {} in 0..{}.dim(0)? {{", counter, sources[0].code),
            *step.lines,
            *pushes,
            *state.assignment(step, results[len(stacked) :]),
            "}",
        ),
    )
    done = {
        index: Value(
            call("Tensor::stack", vector.reference, 0),
            "expr",
            vector.reads,
            _result_name(e.graph, flow.node, index),
        )
        for index, vector in collected.items()
    }
    return [done[index] if index in done else state.values[index] for index in flow.wanted]


def _associative_scan(flow: _Flow) -> list[Value]:
    xs, closed_over = flow.node.args
    e, body = flow.e, flow.body("body")
    sources, values = flow.operands(xs), flow.operands(closed_over)
    scope = Scope(e, body, [*sources, *sources, *values])
    sides = []
    for side, first in (("left", 0), ("right", len(xs))):
        names: list[Piece] = []
        for item in body.inputs[first : first + len(xs)]:
            name, reads = scope.declare(item.hint or side)
            scope.values[g.Ref(item.name)] = Value(as_code(name), "ref", reads)
            names.append(name if scope.unread[item.name] else f"_{name}")
        sides.append(code("[{}]", joined(", ", names)))
    flow.write_nodes(scope)
    items = code("Ok([{}])", joined(", ", scope.given_away(body.outputs)))
    closure = _lines("{", *scope.lines, items, "}") if scope.lines else items
    flow.count_as_read([*xs, *closed_over])
    given = code("[{}]", joined(", ", (source.reference for source in sources)))
    results = {index: flow.result(index) for index in flow.wanted}
    bound = [results[index].code if index in results else as_code("_") for index in range(len(xs))]
    scanned = call("ops::associative_scan", given, code("|{}, {}| {}", *sides, closure))
    e.write(code("let [{}] = {};", joined(", ", bound), scanned))
    return list(results.values())


_KINDS: dict[str, Callable[[_Flow], list[Value]]] = {
    "torchport.cond.default": _cond,
    "torchport.while_loop.default": _while_loop,
    "torchport.scan.default": _scan,
    "torchport.map.default": _map,
    "torchport.associative_scan.default": _associative_scan,
}


# what a loop carries


class _State:
    """The variables that a loop carries from step to step."""

    def __init__(
        self, flow: _Flow, init: list[g.Ref], body: g.Module, kept: set[int], further: Sequence[int]
    ):
        """`kept` are the positions that are read outside the body; `further` are results that are not carried."""
        self.positions = sorted(_live(body, kept, further, len(init)))
        self.body = needed_part(body, [*further, *self.positions])
        self.further = len(further)
        self.lets: list[Code] = []
        self.values: list[Value] = [Value(as_code("_"), "owned")] * len(init)
        """The variable of each position; one that nothing reads has none."""
        e = flow.e
        for index, ref in enumerate(init):
            start = _start(e, ref, init) if index in self.positions else None
            e.unread[ref.name] -= 1
            if start is None:
                continue
            self.values[index] = flow.result(index)
            changes = body.outputs[index] != g.Ref(body.inputs[index].name)
            name = self.values[index].code
            self.lets.append(code("let mut {} = {};" if changes else "let {} = {};", name, start))

    def assignment(self, step: Scope, results: Sequence[Code]) -> list[Code]:
        """The statement with which a step ends: what it computed is what is carried on."""
        refs = step.module.outputs[self.further :]
        changed = [
            (self.values[index].code, result)
            for index, result, ref in zip(self.positions, results, refs, strict=True)
            if ref != g.Ref(step.module.inputs[index].name)
        ]
        if not changed:
            return []
        names, new = zip(*changed, strict=True)
        return [code("{} = {};", tuple_of(names), tuple_of(new))]


def _live(body: g.Module, kept: set[int], further: Sequence[int], carried: int) -> set[int]:
    """The positions of what is carried that anything depends on."""
    live = set(kept)
    while True:
        needed = read_inputs(needed_part(body, [*further, *sorted(live)])) & set(range(carried))
        if needed <= live:
            return live
        live |= needed


def _start(e: Emitter, ref: g.Ref, init: Sequence[g.Ref]) -> Code:
    """The value that a variable starts with: the value itself if nothing else reads it, else a clone."""
    value = e.values[ref]
    if value.form == "expr" and init.count(ref) > 1:
        value = e.name_it(ref)
    is_free = value.form == "expr" or e.is_free(ref, 1)
    return value.code if is_free else value.code.cloned


# blocks


def _block_lines(scope: Scope, result: Code) -> list[Code]:
    """A block that ends in an expression; a variable that is only the result is not declared."""
    (name,) = result.parts if result.is_identifier else ("",)
    head = f"let {name} = "
    if name and scope.lines and scope.lines[-1].startswith(head):
        return [*scope.lines[:-1], scope.lines[-1].removeprefix(head).removesuffix(";")]
    return [*scope.lines, result]


def _declared(e: Emitter, ref: g.Ref, name: str, *, always: bool = False) -> Value:
    """A variable for a value, or `_` if nothing reads it."""
    if not always and e.times_read(ref) == 0:
        return Value(as_code("_"), "owned")
    unique, reads = e.declare(name)
    e.values[ref] = Value(as_code(unique), "owned", reads)
    return e.values[ref]


def _result_name(graph: g.Graph, flow: g.Node, index: int) -> str:
    """What the user calls a result: the name of what is carried, or the variable that it is assigned to."""
    body = graph.modules[list(flow.bodies.values())[-1]]
    carried = len(flow.args[0]) if flow.op in _CARRYING else 0
    if index < carried and body.inputs[index].hint:
        return body.inputs[index].hint or FALLBACK
    if flow.hint and len(flow.outputs) == 1:
        return flow.hint
    meta = flow.outputs[index]
    if index < carried and meta is not None and meta.rank == 0:
        return {"bool": "going"}.get(meta.dtype, FALLBACK if meta.is_float else "count")
    return FALLBACK


_CARRYING = frozenset({"torchport.while_loop.default", "torchport.scan.default"})


def _names(values: Iterable[Value]) -> list[str]:
    """The variables that values are in."""
    return [str(value.code.parts[0]) for value in values if value.code.is_identifier]


def _pattern(values: Sequence[Value]) -> Code:
    return tensors_of(value.code for value in values)


def _lines(*lines: Piece) -> Code:
    """Several lines as one statement."""
    return joined("\n", lines)
