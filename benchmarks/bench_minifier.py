"""Twenty seeded faults reduced by torchport and by torch's own fx_minifier: operations left, and graphs that were run.

Every script of torchport's is run in a fresh process and must fail there in the same way. Torch's minifier reduces
operations only; torchport's counts include smaller inputs, plainer values and the fresh process.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._functorch.fx_minifier import minifier as fx_minifier

from benchmarks.minifying.graphs import Graph
from benchmarks.minifying.seeded import SEEDED, Seeded
from torchport.debug.minifier.case import GraphCase, operations_of
from torchport.debug.minifier.laboratory import Laboratory
from torchport.debug.minifier.minifier import Minifier

MOST_OPERATIONS = 3


def by_torch(minifier: Minifier) -> tuple[int, int]:
    """How many graphs torch's own minifier runs, and how many operations it leaves."""
    whole = minifier._whole
    laboratory = Laboratory(minifier._laboratory.check, minifier.limit, wanted=minifier.failure)

    def fails(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
        return minifier.failure.is_kept_by(laboratory.failure_of(GraphCase(module, tuple(inputs))))

    with contextlib.redirect_stderr(io.StringIO()):
        module, _ = fx_minifier(whole.module, list(whole.inputs), fails, dump_state=lambda *_: None)
    return laboratory.queries, len(operations_of(module.graph))


def measure(seeded: Seeded, folder: Path) -> tuple[int, int, int, int, bool]:
    graph: Graph = seeded.graph()
    minifier = seeded.minifier(graph)
    found = minifier.generate_repro_script(folder / f"{seeded.name.replace(' ', '_')}.py")
    holds = (
        found.fails_in_fresh_process
        and found.kind == seeded.kind
        and len(found.operations) <= MOST_OPERATIONS
    )
    queries, left = by_torch(minifier)
    return found.queries + 1, len(found.operations), queries, left, holds


def main() -> int:
    ratios, all_hold = [], True
    print(f"{'fault':30} {'operations':>10} {'torchport':>16} {'fx_minifier':>16}")
    with tempfile.TemporaryDirectory() as folder:
        for seeded in SEEDED:
            before = len(operations_of(seeded.graph()[0].graph))
            queries, left, torch_queries, torch_left, holds = measure(seeded, Path(folder))
            ratios.append(torch_queries / queries)
            all_hold = all_hold and holds
            ours, theirs = f"{queries} runs, {left} left", f"{torch_queries} runs, {torch_left} left"
            print(
                f"{seeded.name:30} {before:>10} {ours:>16} {theirs:>16}{'' if holds else '  FAILS'}",
                flush=True,
            )
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"torch's own minifier runs {geomean:.2f} times as many graphs (geometric mean)")
    return 0 if all_hold and geomean > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
