"""A script that shows a violated constraint without torchport: the graph as Python, inputs like it had, the check."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload
from torchport.debug.constraints.base import Violation
from torchport.debug.facts import Sizes, facts_of
from torchport.debug.graph_text import TENSOR, GraphText, Values
from torchport.debug.nodes import subgraphs_of, tensors_of

_MOST_VALUES = 64
"""Tensors that a graph holds are written out if they are no larger; values do not matter to most constraints."""

_HEAD = '''\
"""{title}

{facts}
Made with torch {version}. Exits with 1 if the node gives the same tensors as it did, and with 0 if not.
"""

import sys

import torch
{imports}
{tensor}

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
    """The text of the script. NoScript if the graph calls what a script of its own cannot.

    `sizes` has the values of free sizes with which the constraint is violated, in place of the example's.
    """
    node = _top_node(module, violation.node)
    values = Values(_MOST_VALUES, "small", sizes or {})
    graph = GraphText(values, functions={expect_violation: "expect_violation"})
    graph.add(_with_check(module, node), "Graph")
    head = _HEAD.format(
        title=f"{violation.constraint}: {violation.message}".replace('"""', "'''").replace("\\", "/"),
        facts="".join(f"{line}\n" for line in _facts(violation)),
        version=torch.__version__,
        message=str(violation),
        node=violation.node,
        imports="\n".join(sorted(graph.imports)),
        tensor=TENSOR,
        expected=f"[{', '.join(_expected(one, sizes) for one in tensors_of(node))}]",
    )
    placeholders = [one for one in module.graph.nodes if one.op == "placeholder"]
    inputs = ", ".join(values.text(one.name, _value(one)) for one in placeholders)
    grad = "with torch.no_grad():" if violation.stage != "dynamo" else "with torch.enable_grad():"
    return f"{head}{graph.source}\n{_FOOT.format(inputs=inputs, grad=grad)}"


def _facts(violation: Violation) -> Iterator[str]:
    yield f"{violation.op}, node {violation.node} of {violation.graph} ({violation.stage})"
    if violation.module:
        yield f"module {violation.module}"
    if violation.source:
        yield f"at {violation.source}".replace("\\", "/")


def _top_node(module: torch.fx.GraphModule, name: str) -> torch.fx.Node:
    """The node of a graph with a name; of one in a branch, the node that calls the branch."""
    outer, _, inner = name.partition(".")
    nodes: list[torch.fx.Node] = list(module.graph.nodes)
    for node in nodes:
        if (inner and outer in subgraphs_of(node, module)) or (not inner and node.name == name):
            return node
    raise LookupError(f"the graph has no node {name}")


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


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))
