"""A script that runs a graph of Dynamo's by itself, without torchport and without the model that it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from torchport.debug.graph_text import TENSOR, GraphText, Values, inputs_source
from torchport.explain.literals import INLINE

InputsOf = Literal["random", "saved"]
MOST_NUMBERS = 4_096
"""The most whole numbers of an input that a script holds: random ones might be no indices, or no ids of tokens."""

_ABOUT_INPUTS = {
    "random": "Random numbers of the shapes, dtypes and strides that the graph was compiled for.",
    "saved": "What the graph was compiled for.",
}
_HEAD = '''"""{title}

{comment}
Run it with Python; it needs torch {version} and nothing else.
"""
'''
_LOADING = """
TENSORS = torch.load(Path(__file__).with_name({file!r}), weights_only=True)
"""
_MAIN = '''
def run(backend=None):
    """The outputs and gradients of the graph: as eager torch computes them, or compiled."""
    torch.manual_seed(0)
    graph, given = Graph(), inputs()
    if backend is not None:
        torch.compiler.reset()
        graph = torch.compile(graph, backend=backend)
    made = graph(*given)
    outputs = [one for one in (made if isinstance(made, (tuple, list)) else [made]) if isinstance(one, torch.Tensor)]
    wanted = [one for one in outputs if one.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
    gradients = [one.grad for one in given if isinstance(one, torch.Tensor) and one.grad is not None]
    return [one.detach() for one in (*outputs, *gradients)]


if __name__ == "__main__":
    for eager, compiled in zip(run(), run("inductor"), strict=True):
        difference = (eager.double() - compiled.double()).abs().max().item() if eager.numel() else 0.0
        print(f"{list(eager.shape)} {eager.dtype}: differs by at most {difference:.3g}")
'''


@dataclass(frozen=True)
class Repro:
    script: str
    inputs: dict[str, Tensor] | None
    """What is to be saved beside the script with torch.save; None if the script makes its inputs."""


def repro(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    title: str,
    comment: str = "",
    inputs_of: InputsOf = "random",
    inputs_file: str = "inputs.pt",
) -> Repro:
    """The script for a graph and the inputs that Dynamo had for it. Raises NoScript if there cannot be one."""
    values = Values(MOST_NUMBERS, "whole numbers") if inputs_of == "random" else Values(INLINE, "known")
    held = Values(INLINE, "known")
    graph = GraphText(held)
    graph.add(module, "Graph")
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    given = inputs_source(names, inputs, values, _ABOUT_INPUTS[inputs_of])
    saved = {**held.saved, **values.saved}
    parts = [
        _HEAD.format(title=title, comment=f"{comment}\n" if comment else "", version=torch.__version__),
        *(["from pathlib import Path\n"] if saved else []),
        "import torch",
        *sorted(graph.imports),
        TENSOR,
        *([_LOADING.format(file=inputs_file)] if saved else []),
        f"\n{graph.source}\n{given}",
        _MAIN.lstrip(),
    ]
    return Repro("\n".join(parts), saved or None)
