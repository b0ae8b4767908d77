"""A script that shows a violated constraint without torchport: the graph as Python, inputs like it had, the check."""

from __future__ import annotations

import copy
import operator
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload
from torchport.debug.constraints.base import Violation
from torchport.debug.facts import Sizes, facts_of, number_of
from torchport.debug.nodes import subgraphs_of, tensors_of

_MOST_VALUES = 64
"""Tensors that a graph holds are written out if they are no larger; values do not matter to most constraints."""
_IMPORTED = ("torch", "device", "inf", "nan", "NoneType", "operator", "_operator", "math")
"""Names of a graph's code that every script has."""

_HEAD = '''\
"""{title}

{facts}
Made with torch {version}. Exits with 1 if the node gives the same tensors as it did, and with 0 if not.
"""

from __future__ import annotations

import _operator
import math
import operator
import sys
from math import inf, nan

import torch
from torch import device

NoneType = type(None)


def tensor(shape, stride, dtype, device):
    size = 1 + sum((length - 1) * step for length, step in zip(shape, stride)) if 0 not in shape else 0
    fractions = dtype.is_floating_point or dtype.is_complex
    values = torch.rand(size, device=device).to(dtype) if fractions else torch.zeros(size, dtype=dtype, device=device)
    return values.as_strided(shape, stride)


def expect_violation(value):
    values = value if isinstance(value, (tuple, list)) else [value]
    given = [(tuple(one.shape), one.stride(), one.dtype) for one in values if isinstance(one, torch.Tensor)]
    print({message!r})
    print({node!r}, "gives", given)
    sys.exit(1 if given == {expected} else 0)


'''
_FOOT = """
if __name__ == "__main__":
    torch.manual_seed(0)
    {grad}
        Graph()({inputs})
"""


def expect_violation(value: Any) -> None:
    """Stands in the graph that is written, after the node in question; the script has its own."""


def repro_script(module: torch.fx.GraphModule, violation: Violation, sizes: Sizes | None = None) -> str:
    """The text of the script. A ValueError if the graph calls what a script of its own cannot.

    `sizes` has the values of free sizes with which the constraint is violated, in place of the example's.
    """
    node = _top_node(module, violation.node)
    head = _HEAD.format(
        title=f"{violation.constraint}: {violation.message}".replace('"""', "'''").replace("\\", "/"),
        facts="".join(f"{line}\n" for line in _facts(violation)),
        version=torch.__version__,
        message=str(violation),
        node=violation.node,
        expected=f"[{', '.join(_expected(one, sizes) for one in tensors_of(node))}]",
    )
    inputs = ", ".join(_written(_value(one), sizes) for one in module.graph.nodes if one.op == "placeholder")
    body = "\n\n\n".join(_classes(_with_check(module, node), "Graph"))
    grad = "with torch.no_grad():" if violation.stage != "dynamo" else "with torch.enable_grad():"
    return f"{head}{body}\n\n{_FOOT.format(inputs=inputs, grad=grad)}"


def _facts(violation: Violation) -> Iterator[str]:
    yield f"{violation.op}, node {violation.node} of {violation.graph} ({violation.stage})"
    if violation.module:
        yield f"module {violation.module}"
    if violation.source:
        yield f"at {violation.source}".replace("\\", "/")


def _top_node(module: torch.fx.GraphModule, name: str) -> torch.fx.Node:
    """The node of a graph with a name; of one in a branch, the node that calls the branch."""
    outer, _, inner = name.partition(".")
    for node in module.graph.nodes:
        if (inner and outer in subgraphs_of(node, module)) or (not inner and node.name == name):
            found: torch.fx.Node = node
            return found
    raise ValueError(f"the graph has no node {name}")


def _expected(tensor: Tensor, sizes: Sizes | None) -> str:
    facts = facts_of(tensor, sizes)
    return f"({facts.shape}, {facts.stride}, {facts.dtype})"


def _with_check(module: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.GraphModule:
    """The graph up to a node, whose value is then checked. Of a graph without writing in place, what leads there."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    after = copies[node]
    if after.op == "placeholder":
        after = [one for one in graph.nodes if one.op == "placeholder"][-1]
    with graph.inserting_after(after):
        reached = graph.create_node("call_function", expect_violation, (copies[node],), name="reached")
    for later in reversed(list(graph.nodes)):
        if later is reached:
            break
        graph.erase_node(later)
    graph.output(reached)
    if all(isinstance(one.target, OpOverload) for one in graph.nodes if _calls(one) and one is not reached):
        graph.eliminate_dead_code()
    return torch.fx.GraphModule(module, graph)


def _calls(node: torch.fx.Node) -> bool:
    return node.op.startswith("call_") and node.target is not operator.getitem


def _classes(module: torch.fx.GraphModule, name: str) -> Iterator[str]:
    """The source of a class for a graph, after those for the graphs that it holds."""
    held = _held(module)
    lines = []
    for attribute, value in held.items():
        if isinstance(value, torch.fx.GraphModule):
            yield from _classes(value, f"{name}_{attribute}")
            lines.append(f"self.{attribute} = {name}_{attribute}()")
        elif isinstance(value, Tensor):
            lines.append(f'self.register_buffer("{attribute}", {_written(value, None)}, persistent=False)')
        else:
            raise ValueError(f"the graph holds {attribute}, a {type(value).__name__}")
    code = copy.deepcopy(module.graph).python_code("self")
    source = code.src
    for known, value in code.globals.items():
        if value is expect_violation:
            source = source.replace(known, "expect_violation")
        elif known not in _IMPORTED and re.search(rf"\b{known}\b", source):
            raise ValueError(f"the graph calls {known}, which a script cannot import from torch")
    start = textwrap.indent("\n".join(["super().__init__()", *lines]), " " * 8)
    method = textwrap.indent(source.strip(), " " * 4)
    yield f"class {name}(torch.nn.Module):\n    def __init__(self):\n{start}\n\n{method}"


def _held(module: torch.fx.GraphModule) -> Mapping[str, Any]:
    names = dict.fromkeys(
        str(node.target) for node in module.graph.nodes if node.op in ("get_attr", "call_module")
    )
    return {name: getattr(module, name, None) for name in names}


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def _written(value: Any, sizes: Sizes | None) -> str:
    """A value as an expression of the script; for tensors, one of the same shape, strides, dtype and device."""
    if isinstance(value, torch.SymInt):
        return str(number_of(value, sizes or {}))
    if not isinstance(value, Tensor):
        return repr(value)
    facts = facts_of(value, sizes)
    if type(value) is Tensor and value.numel() <= _MOST_VALUES and facts.device == "cpu":
        return (
            f"torch.tensor({value.tolist()}, dtype={facts.dtype}).as_strided({facts.shape}, {facts.stride})"
        )
    return f"tensor({facts.shape}, {facts.stride}, {facts.dtype}, {facts.device!r})"
