"""Control flow as a layer of its own: what a module runs by torch.cond and the like becomes a call.

In: the modules of a graph. Out: the same, in which every control-flow operation of a module is the only operation of a
further module. So its operands and results are values of a trace: they are recorded, put back in lock-step and judged,
and an error inside a body is blamed on the control flow that ran it. Inside bodies nothing is recorded, because how
often they run depends on values; control flow there stays an operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchport.capture import graph as g
from torchport.capture.control_flow import CONTROL_FLOW


def with_flow_layers(modules: Mapping[str, g.Module], weights: Mapping[str, g.Weight]) -> dict[str, g.Module]:
    bodies = g.body_keys(modules)
    result: dict[str, g.Module] = {}
    for key, module in modules.items():
        flows = [node for node in module.nodes if node.bodies and key not in bodies]
        metas = g.value_metas(module, weights) if flows else {}
        layers = {node.name: _layer(node, metas) for node in flows}
        nodes = tuple(_call(node, layers) for node in module.nodes)
        result[key] = replace(module, nodes=nodes)
        result |= {layer.key: layer for layer in layers.values()}
    return result


def _call(node: g.Node, layers: Mapping[str, g.Module]) -> g.Node:
    if node.name not in layers:
        return node
    key = layers[node.name].key
    return replace(node, op=g.CALL, args=tuple(g.refs(node.args)), target=key, bodies={})


def _layer(node: g.Node, metas: Mapping[g.Ref, g.TensorMeta]) -> g.Module:
    """A module that takes the operands of a node one by one, and runs it. `metas` are those of the node's module."""
    inputs: list[g.Input] = []

    def as_input(arg: g.Arg) -> g.Arg:
        if not isinstance(arg, g.Ref):
            return arg
        inputs.append(g.Input(f"operand_{len(inputs)}", metas[arg]))
        return g.Ref(inputs[-1].name)

    own = replace(g.map_node(node, as_input), hint=None)
    return g.Module(
        key=next(iter(node.bodies.values())).rpartition(".")[0],
        type=CONTROL_FLOW[node.op].written,
        inputs=tuple(inputs),
        nodes=(own,),
        outputs=tuple(g.Ref(node.name, index) for index in range(len(node.outputs))),
    )
