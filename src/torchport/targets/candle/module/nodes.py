"""The nodes of a module as statements and expressions of `forward`."""

from __future__ import annotations

from collections.abc import Mapping

from torchport.capture import graph as g
from torchport.capture.drawn import is_drawn, values_read
from torchport.capture.hooks import UNKNOWN
from torchport.spelling import spelled
from torchport.targets.base import Todo
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported, Value
from torchport.targets.candle.code import Code, as_code, call, code, tensors_of
from torchport.targets.candle.emit import FALLBACK, PAIRS, Emitter, as_pairs
from torchport.targets.candle.lowering import how_to_register
from torchport.targets.candle.module.child import Child, note_call
from torchport.targets.candle.module.flow import write_flow
from torchport.targets.candle.module.loops import find_loop, write_loop
from torchport.targets.candle.module.scope import Scope, is_flow_layer
from torchport.targets.candle.module.unrolled import unrolled_loops, write_unrolled
from torchport.targets.candle.registry import OPS, Several, find
from torchport.targets.coverage import reason_to_refuse


def write_nodes(e: Emitter, children: Mapping[str, Child]) -> None:
    index = 0
    unrolled = unrolled_loops(e)
    while index < len(e.module.nodes):
        if index in unrolled:
            write_unrolled(e, unrolled[index], lambda scope: write_nodes(scope, children))
            index = unrolled[index].end
            continue
        loop = find_loop(e, children, index)
        if loop is None:
            _write_node(e, children, e.module.nodes[index])
            index += 1
        else:
            write_loop(e, children, loop)
            index += len(loop.calls)


def _write_node(e: Emitter, children: Mapping[str, Child], node: g.Node) -> None:
    for index, meta in enumerate(node.outputs):
        if meta is not None:
            e.learn(g.Ref(node.name, index), meta)
    if node.bodies or is_flow_layer(e.graph.modules, node):
        write_flow(e, node, lambda scope: write_nodes(scope, {}))
        return
    refs = list(g.refs([node.args, node.kwargs]))
    called = frozenset({g.path_of(node.target)}) if node.target is not None else frozenset()
    for path in called:
        e.name_calls_of(path, refs)
    outputs = _call_child(e, children, node) if node.op == g.CALL else _operation(e, node)
    reads, calls = e.reads_of(refs), e.calls_of(refs) | called
    if isinstance(outputs, Several):
        _destructure(e, node, outputs.code)
    else:
        for index, output in enumerate(outputs):
            e.values[g.Ref(node.name, index)] = Value(output, "expr", reads, node.hint, calls)
    for ref in refs:
        e.unread[ref.name] -= 1
    if not isinstance(outputs, Several):
        _name_if_shared(e, children, node, len(outputs))
    for index, meta in enumerate(node.outputs):
        if meta is not None and g.Ref(node.name, index) in e.values:
            e.show_sizes(g.Ref(node.name, index))


def _name_if_shared(e: Emitter, children: Mapping[str, Child], node: g.Node, outputs: int) -> None:
    """Binds values that are read more than once to variables."""
    if outputs == 1:
        ref = g.Ref(node.name)
        if e.unread[node.name] > 1 or _feeds_a_loop(e, children, ref):
            e.name_it(ref)
        return
    for ref in (g.Ref(node.name, index) for index in range(outputs)):
        if e.times_read(ref) > 1:
            e.name_it(ref)


def _feeds_a_loop(e: Emitter, children: Mapping[str, Child], ref: g.Ref) -> bool:
    """Whether items of a Vec read the value beside the one that they hand to each other, be it only one item."""
    in_vectors = {key for key, child in children.items() if child.vector is not None}
    return any(ref in node.args[1:] for node in e.module.nodes if node.target in in_vectors)


def _destructure(e: Emitter, node: g.Node, value: Code) -> None:
    """Binds the items of a tuple to variables."""
    names = []
    for index in range(len(node.outputs)):
        ref = g.Ref(node.name, index)
        if e.times_read(ref) == 0 and not _shows_a_size(e, node, index):
            names.append("_")
            continue
        name, reads = e.declare(_output_name(node, index))
        e.values[ref] = Value(as_code(name), "owned", reads)
        names.append(name)
    e.write(code("let {} = {};", tensors_of(names), value))


def _shows_a_size(e: Emitter, node: g.Node, index: int) -> bool:
    """Whether only this result, of those that are read or come before it, has a size that depends on data."""
    outputs = [g.Ref(node.name, other) for other in range(len(node.outputs))]
    known = [ref for ref in outputs if ref.index < index or e.times_read(ref) > 0]
    return bool(
        e.data_sizes_of(outputs[index]).keys() - {name for ref in known for name in e.data_sizes_of(ref)}
    )


def _output_name(node: g.Node, index: int) -> str:
    names = {
        "aten.topk.default": ("values", "indices"),
        "aten.sort.default": ("values", "indices"),
        "aten.max.dim": ("values", "indices"),
        "aten.min.dim": ("values", "indices"),
    }.get(node.op)
    if names:
        return names[index]
    base = node.hint or (node.name if node.op == g.CALL else FALLBACK)
    return f"{base}_{index}" if node.op == g.CALL else base


# operations


def _operation(e: Emitter, node: g.Node) -> list[Code] | Several:
    """The operation by its entry in the table, or a TODO."""
    try:
        function = find(node.op, is_complex=_is_complex(e, node))
        if function is None:
            raise Unsupported(_why_not_mapped(node))
        for meta in node.outputs:
            if meta is not None and as_pairs(meta).dtype not in rust.DTYPES:
                raise Unsupported(f"candle has no dtype {meta.dtype}")
        _must_be_seen(e, node)
        args = Args(node)
        result = function(e, args)
        args.check_all_read()
    except Unsupported as reason:
        return _todo(e, node, str(reason))
    if isinstance(result, Several):
        return result
    outputs = [result] if isinstance(result, Code) else result
    for index in range(len(outputs), len(node.outputs)):
        if e.times_read(g.Ref(node.name, index)) > 0:
            return _todo(e, node, f"its result {index} is read, which is not computed")
    is_shown = e.checks == "ops" or (e.checks != "none" and node.name in e.shown)
    if is_shown and len(outputs) == 1:
        return [code('check!(self.probe, "{}", {})?', node.name, outputs[0])]
    return outputs


def _must_be_seen(e: Emitter, node: g.Node) -> None:
    """Raises for random numbers that nobody allowed, or of which nobody would see what they are drawn from."""
    if not is_drawn(node):
        return
    if isinstance(e, Scope):
        raise Unsupported(
            "it draws random numbers in a body of control flow, where no check can hand them on"
        )
    if not e.allows_random:
        raise Unsupported(
            f"{reason_to_refuse(node.op)}; {spelled('[[allow_random=True]]')} leaves what depends on them unproven"
        )
    counts = {one.name: len(one.outputs) for one in e.module.nodes if one.op != g.CALL}
    if len(node.outputs) > 1 or any(counts.get(ref.name, 1) > 1 for ref in g.refs(values_read(node))):
        raise Unsupported("it draws random numbers from one of several results of an operation")


def _is_complex(e: Emitter, node: g.Node) -> bool:
    """Whether an operation reads or gives complex numbers."""
    results = any(meta is not None and meta.dtype in PAIRS for meta in node.outputs)
    return results or any(ref in e.complex for ref in g.refs([node.args, node.kwargs]))


def _why_not_mapped(node: g.Node) -> str:
    if node.op in OPS:
        return "it is not known for complex numbers"
    if node.op == UNKNOWN:
        reason = node.kwargs.get("reason")
        known = "its operations are not known"
        return f"{known}, write them here ({reason})" if reason else known
    advice = how_to_register(node.op) or reason_to_refuse(node.op)
    return advice or "no row of the operation table maps it; see CONTRIBUTING.md for how to add one"


def _todo(e: Emitter, node: g.Node, reason: str) -> list[Code]:
    for ref in dict.fromkeys(g.refs([node.args, node.kwargs])):
        # A value that only the missing operation reads is still computed, so that it can be checked.
        e.name_if_expression(ref)
    layer = e.module.path or e.graph.root.class_name
    e.body.todos.append(Todo(op=node.op, layer=layer, source=node.source, reason=reason))
    place = f" at {node.source}" if node.source else ""
    message = f"{node.op} in {e.module.class_name}{place}: {reason}".replace('"', "'")
    e.write(code("// TODO(torchport): {}", message))
    return [code('torchport_runtime::todo("{}")?', message)] * max(1, len(node.outputs))


# calls of children


def _call_child(e: Emitter, children: Mapping[str, Child], node: g.Node) -> list[Code] | Several:
    assert node.target is not None
    note_call(e, node)
    child = children[node.target]
    if child.is_plain:
        value = e.values[node.args[0]]
        if value.form == "expr":
            return [e.receiver(node.args[0]).method("apply", f"&{child.place}")]
        e.body.calls_module_trait = True
        return [call(f"{child.place}.forward", value.reference)]
    arguments = [e.ref(arg) for arg in node.args]
    result = call(f"{child.place}.{child.method}", *arguments, *child.given_sizes(e))
    return [result] if len(node.outputs) == 1 else Several(result)
