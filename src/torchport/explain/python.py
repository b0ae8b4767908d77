"""A few operations as a Python function that a reader can run: `y = torch.ops.aten.gelu.default(x)`."""

from __future__ import annotations

from typing import Any

from torchport.capture import graph as g


def function_of(graph: g.Graph) -> str:
    """The source of `reference(inputs…, weights…)`, which returns a list of tensors."""
    root = graph.root
    names = [item.name for item in root.inputs] + list(root.params)
    many = {node.name for node in root.nodes if len(node.outputs) > 1}
    lines = [f"def reference({', '.join(names)}):"]
    for node in root.nodes:
        words = [_word(arg, many) for arg in node.args]
        words += [f"{name}={_word(arg, many)}" for name, arg in node.kwargs.items()]
        lines.append(f"    {node.name} = torch.ops.{node.op}({', '.join(words)}){_where(node)}")
    lines.append(f"    return {_word(list(root.outputs), many)}")
    return "\n".join(lines)


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
