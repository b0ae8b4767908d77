"""A few operations as a Python function that a reader can run: `y = torch.ops.aten.gelu.default(x)`.

In: a graph without free sizes. Out: the source of the function, and the weights that it takes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from torchport.capture import graph as g


def function_of(graph: g.Graph) -> str:
    """The source of `reference(inputs…, weights…)`, which returns a list of tensors."""
    root = graph.root
    names = [*(item.name for item in root.inputs), *weight_names(graph)]
    lists = {node.name for node in root.nodes if len(node.outputs) > 1}
    lines = [f"def reference({', '.join(names)}):"]
    for node in root.nodes:
        value = _recorded_outputs(graph, node, lists) if node.op == g.CALL else _call(node, lists)
        lines.append(f"    {node.name} = {value}")
    lines.append(f"    return {_expression(list(root.outputs), lists)}")
    return "\n".join(lines)


def weight_names(graph: g.Graph) -> dict[str, str]:
    """The parameter of the function for each weight → the weight's name in the graph, stand-ins of calls included."""
    found = dict(graph.root.params)
    for key, module in graph.modules.items():
        if key:
            found |= {_identifier(weight): weight for weight in module.params.values()}
    return found


def _recorded_outputs(graph: g.Graph, node: g.Node, lists: Collection[str]) -> str:
    """What stands for a call: the weights that hold the values that it gave when the model was recorded."""
    assert node.target is not None
    values = [_identifier(weight) for weight in graph.modules[node.target].params.values()]
    return f"[{', '.join(values)}]" if node.name in lists else values[0]


def _identifier(weight: str) -> str:
    return re.sub(r"\W", "_", weight)


def _call(node: g.Node, lists: Collection[str]) -> str:
    """An operation with its arguments, and the line of the user's code that it came from."""
    arguments = [_expression(arg, lists) for arg in node.args]
    arguments += [f"{name}={_expression(arg, lists)}" for name, arg in node.kwargs.items()]
    comment = f"  # {node.source}" if node.source else ""
    return f"torch.ops.{node.op}({', '.join(arguments)}){comment}"


def _expression(arg: Any, lists: Collection[str]) -> str:
    """An argument as Python writes it; `lists` names the values of several tensors, of which one is picked."""
    if isinstance(arg, g.Ref):
        return f"{arg.name}[{arg.index}]" if arg.name in lists else arg.name
    if isinstance(arg, g.Dtype | g.Layout | g.MemoryFormat):
        return f"torch.{arg.name}"
    if isinstance(arg, g.Device):
        return repr(arg.name)
    if isinstance(arg, list | tuple):
        return f"[{', '.join(_expression(item, lists) for item in arg)}]"
    if isinstance(arg, float) and arg in (float("inf"), float("-inf")):
        return f'float("{arg}")'
    return repr(arg)
