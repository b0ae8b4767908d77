"""The peak memory that constraints see by liveness, beside what torch measures when the same graph is run.

    python -m benchmarks.bench_peak_memory
    python -m benchmarks.bench_peak_memory --device cuda --only resnet18

A graph is run node by node and freed as it goes. On the CPU, torch's profiler tells what was allocated; on CUDA, the
counter of its allocator does. It fails if any graph's peak is more than a tenth off.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from torchport.capture.torch_internals import storage_id
from torchport.debug.backends.holding import Holder
from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints import CheckedGraph
from torchport.debug.constraints.peak import peak_memory

BOUND = 0.1
"""How far the peak may be from what is measured, as a share of it."""
Graphs = dict[str, tuple[CheckedGraph, torch.fx.GraphModule]]


def graphs_of(model: nn.Module, x: Tensor, *, train: bool) -> Graphs:
    """The graphs of a compilation by stage, as constraints see them and as they are run."""
    modules: dict[str, torch.fx.GraphModule] = {}
    hold = Holder.hold

    def noting(self: Holder, name: str, stage: Any, module: torch.fx.GraphModule, sizes: Any = None) -> None:
        modules[stage] = module
        hold(self, name, stage, module, sizes)

    backend = aot_mock_backend()
    with patch.object(Holder, "hold", noting), torch.set_grad_enabled(train):
        result = torch.compile(model, backend=backend)(x)
        if train:
            result.sum().backward()
    return {graph.stage: (graph, modules[graph.stage]) for graph in backend.session.graphs}


def measured_peak(module: torch.fx.GraphModule, stage: str, device: str) -> int:
    """The most bytes that torch sees allocated at a time while a graph runs, beyond what was so before."""
    with torch.no_grad():
        if device == "cpu":
            return _profiled(lambda: run_and_free(module, stage))
        run_and_free(module, stage)  # Libraries take their workspaces in the first run, and keep them.
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run_and_free(module, stage)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before


def _profiled(run: Callable[[], None]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(file))
        events = [
            event for event in json.loads(file.read_text())["traceEvents"] if event.get("name") == "[memory]"
        ]
    events.sort(key=lambda event: event["ts"])
    totals = [event["args"]["Total Allocated"] for event in events]
    return int(max(totals) - (totals[0] - events[0]["args"]["Bytes"]))


def run_and_free(module: torch.fx.GraphModule, stage: str) -> None:
    """Runs a graph as its caller would: inputs are made first, and those that are not the caller's are given away."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    values = _made_inputs(inputs)
    callers = [value for value, node in zip(values, inputs) if stage == "forward" or "primals" in node.name]

    class Freeing(torch.fx.Interpreter):
        def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
            return values.pop(0)

    interpreter = Freeing(module)
    for node in module.graph.nodes:
        interpreter.env[node] = interpreter.run_node(node)
        for last_used in interpreter.user_to_last_uses.get(node, []):
            del interpreter.env[last_used]
    del callers


def _made_inputs(inputs: list[torch.fx.Node]) -> list[Any]:
    """Tensors like the inputs of a graph, which share memory if those do."""
    storages: dict[int, Tensor] = {}
    made = []
    for node in inputs:
        fake = node.meta["val"]
        size = fake.untyped_storage().nbytes() // fake.element_size()
        base = storages.setdefault(
            storage_id(fake), torch.full((size,), 0.5, device=fake.device).to(fake.dtype)
        )
        made.append(base.as_strided(fake.shape, fake.stride(), fake.storage_offset()))
    return made


def resnet18() -> tuple[nn.Module, Tensor, bool]:
    import torchvision

    return torchvision.models.resnet18(), torch.randn(4, 3, 160, 160), False


def transformer() -> tuple[nn.Module, Tensor, bool]:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(8, 64, 32), True


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor, bool]]] = {
    "resnet18": resnet18,
    "transformer": transformer,
}
"""Models by name: the model, its input, and whether a training step is compiled."""


def measured(name: str, device: str) -> Iterator[tuple[str, int, int]]:
    """The stage of every graph of a model, its peak by liveness, and what torch measures."""
    model, x, train = MODELS[name]()
    for stage, (graph, module) in graphs_of(model.to(device), x.to(device), train=train).items():
        if stage != "dynamo":
            yield stage, peak_memory(graph).bytes, measured_peak(module, stage, device)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=MODELS, nargs="+", default=list(MODELS))
    chosen = parser.parse_args()
    off = 0
    print(f"{'model':<12} {'stage':<9} {'by liveness':>12} {'measured':>12} {'ratio':>6}")
    for name in chosen.only:
        for stage, told, real in measured(name, chosen.device):
            off += abs(told - real) > BOUND * real
            print(f"{name:<12} {stage:<9} {told:>12,} {real:>12,} {told / real:>6.3f}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
