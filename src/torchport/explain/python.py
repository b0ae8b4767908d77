"""A few operations as a Python function that a reader can run: `y = torch.ops.aten.gelu.default(x)`."""

from __future__ import annotations

import re
from typing import Any

from torchport.capture import graph as g


def function_of(graph: g.Graph) -> str:
    """The source of `reference(inputs…, weights…)`, which returns a list of tensors."""
    root = graph.root
    names = [*(item.name for item in root.inputs), *weight_names(graph)]
    many = {node.name for node in root.nodes if len(node.outputs) > 1}
    lines = [f"def reference({', '.join(names)}):"]
    for node in root.nodes:
        if node.op == g.CALL:
            lines.append(f"    {node.name} = {_given(graph, node, many)}")
            continue
        words = [_word(arg, many) for arg in node.args]
        words += [f"{name}={_word(arg, many)}" for name, arg in node.kwargs.items()]
        lines.append(f"    {node.name} = torch.ops.{node.op}({', '.join(words)}){_where(node)}")
    lines.append(f"    return {_word(list(root.outputs), many)}")
    return "\n".join(lines)


def weight_names(graph: g.Graph) -> dict[str, str]:
    """What the function calls a weight → its name in the graph; also what stands for the calls."""
    found = dict(graph.root.params)
    for key, module in graph.modules.items():
        if key:
            found |= {_identifier(weight): weight for weight in module.params.values()}
    return found


def _given(graph: g.Graph, node: g.Node, many: set[str]) -> str:
    assert node.target is not None
    values = [_identifier(weight) for weight in graph.modules[node.target].params.values()]
    return f"[{', '.join(values)}]" if node.name in many else values[0]


def _identifier(weight: str) -> str:
    return re.sub(r"\W", "_", weight)


def _where(node: g.Node) -> str:
    return f"  # {node.source}" if node.source else ""


def _word(arg: Any, many: set[str]) -> str:
    if isinstance(arg, g.Ref):
        return f"{arg.name}[{arg.index}]" if arg.name in many else arg.name
    if isinstance(arg, g.Dtype | g.Layout | g.MemoryFormat):
        return f"torch.{arg.name}"
    if isinstance(arg, g.Device):
        return repr(arg.name)
    if isinstance(arg, list | tuple):
        return f"[{', '.join(_word(item, many) for item in arg)}]"
    if isinstance(arg, float) and arg in (float("inf"), float("-inf")):
        return f'float("{arg}")'
    return repr(arg)
