"""The files of one graph in the tree of artifacts: code, nodes, picture, statistics, IR and kernels."""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from torchport.debug.constraints.base import CheckedGraph, Violation
from torchport.debug.drawing import draw
from torchport.debug.internals.breaks_seen import SeenBreak
from torchport.debug.kernels import Kernel, calls_outside, kernels_in
from torchport.debug.nodes import GraphNode
from torchport.debug.repro import Repro
from torchport.debug.statistics import statistics
from torchport.debug.tree import ArtifactTree
from torchport.parity.dtypes import name_of

TRACES = {
    "fx_graph_runnable.py": "script by Inductor that runs the graph",
    "fx_graph_transformed.py": "graph after Inductor's own passes",
    "ir_pre_fusion.txt": "Inductor's IR before fusion",
    "ir_post_fusion.txt": "Inductor's IR after fusion",
}
CODE = "output_code.py"
_FOLDERS = {"dynamo": "fx_graphs"}
_STAGES = {"dynamo": "graph before AOTAutograd", "forward": "forward graph", "backward": "backward graph"}


def file_name(graph: CheckedGraph) -> str:
    """How the files of a graph are called: graph_0 as Dynamo made it, graph_0_forward, graph_0_backward."""
    return graph.name if graph.stage == "dynamo" else f"{graph.name}_{graph.stage}"


def write_graph(
    tree: ArtifactTree, graph: CheckedGraph, module: torch.fx.GraphModule, violations: Sequence[Violation]
) -> None:
    """The code of a graph, its nodes, its statistics and its picture."""
    name, what = file_name(graph), _STAGES.get(graph.stage, f"{graph.stage} graph")
    folder = _FOLDERS.get(graph.stage, "aot_graphs")
    picture = draw(graph.nodes, f"{graph.name}, {what}", {one.node for one in violations})
    with tree.together():
        tree.write(folder, f"{name}.py", readable(module), f"{what}, as code", graph.name)
        tree.write(folder, f"{name}.json", nodes_as_json(graph, violations), f"{what}, as JSON", graph.name)
        tree.write("visualizations", f"{name}.svg", picture, f"{what}, as a picture", graph.name)
        write_statistics(tree, graph, None, None)


def write_breaks(tree: ArtifactTree, breaks: Sequence[SeenBreak]) -> None:
    """Where graphs end early, so that what runs there is in none of them."""
    found = [{"line": one.place, "reason": one.reason} for one in breaks]
    text = json.dumps({"schema": 1, "breaks": found}, indent=2) + "\n"
    tree.write("statistics", "breaks.json", text, "where graphs end early")


def readable(module: torch.fx.GraphModule) -> str:
    """The graph as code, with the shape and dtype of each value."""
    code: str = module.print_readable(print_output=False)
    return code


def nodes_as_json(graph: CheckedGraph, violations: Sequence[Violation]) -> str:
    content = {
        "schema": 1,
        "graph": graph.name,
        "stage": graph.stage,
        "nodes": [_node(node) for node in graph.nodes],
        "violations": [asdict(one) for one in violations],
    }
    return json.dumps(content) + "\n"


def _node(node: GraphNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "kind": node.kind,
        "inputs": node.inputs,
        "tensors": [
            {
                "shape": one.shape,
                "dtype": name_of(one.dtype),
                "stride": one.stride,
                "device": one.device,
                "bytes": one.bytes,
                "has_free_sizes": one.has_free_sizes,
            }
            for one in node.tensors
        ],
        "module": node.module,
        "module_type": node.module_type,
        "source": node.source,
        "code": node.code,
    }


def write_statistics(
    tree: ArtifactTree, graph: CheckedGraph, kernels: Sequence[Kernel] | None, outside: dict[str, int] | None
) -> None:
    text = json.dumps(statistics(graph, kernels, outside), indent=1) + "\n"
    what = f"statistics of the {_STAGES.get(graph.stage, graph.stage)}"
    tree.write("statistics", f"{file_name(graph)}.json", text, what, graph.name)


def write_repro(tree: ArtifactTree, name: str, script: Repro) -> Path | None:
    """The script that runs a graph by itself, and its inputs if they are saved; the path of the script."""
    if script.inputs is not None:
        content = io.BytesIO()
        torch.save(script.inputs, content)
        tree.write("repros", inputs_file(name), content.getvalue(), "inputs of the script", name)
    return tree.write("repros", f"{name}.py", script.script, "script that runs the graph by itself", name)


def inputs_file(name: str) -> str:
    return f"{name}_inputs.pt"


def keep_traces(
    tree: ArtifactTree, graph: CheckedGraph, traces: Path, known_operations: Collection[str]
) -> None:
    """Takes what Inductor left in a folder over into the tree, with its kernels cut out."""
    name = file_name(graph)
    with tree.together():
        for file in sorted(traces.rglob("*")):
            if file.name in TRACES:
                text = file.read_text(encoding="utf-8", errors="replace")
                tree.write("inductor_ir", f"{name}/{file.name}", text, TRACES[file.name], graph.name)
            elif file.stem == Path(CODE).stem:
                code = file.read_text(encoding="utf-8", errors="replace")
                _keep_code(tree, graph, file.name, code, known_operations)


def _keep_code(
    tree: ArtifactTree, graph: CheckedGraph, file: str, code: str, known_operations: Collection[str]
) -> None:
    name = file_name(graph)
    tree.write("inductor_kernels", f"{name}/{file}", code, "all code that Inductor wrote", graph.name)
    if not file.endswith(".py"):
        return
    try:
        kernels = kernels_in(code, known_operations)
    except SyntaxError as error:
        tree.add_problem(f"the kernels of {name} are not cut out: Inductor's code cannot be read: {error}")
        return
    for kernel in kernels:
        what = f"{kernel.language} kernel of {', '.join(kernel.operations)}"
        tree.write("inductor_kernels", f"{name}/{kernel.file}", kernel.source, what, graph.name)
    write_statistics(tree, graph, kernels, calls_outside(code))


def write_failure(tree: ArtifactTree, graph: CheckedGraph, error: BaseException) -> None:
    """What Inductor said when it refused a graph."""
    text = "".join(traceback.format_exception(error))
    tree.write("reports", f"{file_name(graph)}_error.txt", text, "why Inductor refused the graph", graph.name)
