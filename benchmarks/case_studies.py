"""The figures of docs/case-studies.md, from what `torchport bench` and constraints found.

    torchport bench --all --runs 20 --device cuda --out docs/case-studies/NAME.json
    python -m benchmarks.case_studies --constraints
    python -m benchmarks.case_studies

The first command measures, the second holds the models against constraints, on the CPU, and the third writes the
figures of both into the page. Of rows for the same model and backend on the same machine, the newest is shown.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from torchport.bench.models import MODELS, built
from torchport.bench.results import Results, Row
from torchport.debug import (
    Constraint,
    DebugOptions,
    LayoutConstraint,
    MemoryConstraint,
    UnsupportedOpsConstraint,
    debug_run,
)
from torchport.explain.repro import counted

PAGE = Path(__file__).parent.parent / "docs" / "case-studies.md"
FOLDER = PAGE.with_suffix("")
CONSTRAINTS = FOLDER / "constraints.json"
STUDIES: dict[str, Constraint] = {
    "bert": LayoutConstraint(),
    "resnet": UnsupportedOpsConstraint(["aten.convolution.default"]),
    "ssm": MemoryConstraint(max_bytes="4MB"),
}
"""By model, the constraint that it is held against."""
FIGURE = re.compile(r"(<!-- figures: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--constraints", action="store_true", help="hold the models against constraints anew")
    if parser.parse_args().constraints:
        found = {name: _violations(name) for name in STUDIES}
        CONSTRAINTS.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(with_figures(PAGE.read_text()))
    return 0


def with_figures(page: str) -> str:
    """The page with every figure as the files have it now."""
    figures = {"speed": _speed, "constraint": _constraint}
    return FIGURE.sub(lambda found: f"{found[1]}{figures[found[3]](found[2])}{found[4]}", page)


def _violations(name: str) -> dict[str, Any]:
    """How many operations of a model violate its constraint, and at which of the user's lines."""
    model, args, kwargs = built(MODELS[name], small=False, device="cpu")
    options = DebugOptions("mock", [STUDIES[name]], gradients=False, compare=False)
    with tempfile.TemporaryDirectory() as root:
        report = debug_run(model, args, kwargs, name=name, root=root, options=options)
    found = report.constraints.violations
    lines = Counter(_from_package(one.source) for one in found)
    ops = {line: sorted({one.op for one in found if _from_package(one.source) == line}) for line in lines}
    rows = [{"line": line, "ops": ops[line], "count": count} for line, count in lines.most_common()]
    return {"lines": rows}


def _from_package(source: str | None) -> str:
    """A place in the user's code, from the package or the folder of sources on."""
    return re.sub(r".*/(?:site-packages|src)/", "", source or "–")


def _speed(model: str) -> str:
    rows: dict[tuple[str, str], tuple[Results, Row]] = {}
    files = (file for file in FOLDER.glob("*.json") if file != CONSTRAINTS)
    for results in sorted(map(_results, files), key=lambda one: one.created):
        for row in results.rows:
            if row.model == model and row.status == "measured" and row.backend != "eager":
                machine = f"{results.device}, {counted(results.threads, 'thread')}, torch {results.torch.split('+')[0]}"
                rows[machine, row.backend] = results, row
    lines = [
        "| on | backend | compile s | eager ms | backend ms | speed-up | peak MB | graphs | breaks | verdict |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(_line(machine, row) for (machine, _), (_, row) in sorted(rows.items(), reverse=True)),
    ]
    return "\n".join(lines) + "\n"


def _results(file: Path) -> Results:
    return Results.model_validate_json(file.read_text())


def _line(machine: str, row: Row) -> str:
    assert row.eager is not None and row.latency is not None and row.peak_memory_bytes is not None
    cells = [
        machine,
        row.backend,
        f"{row.compile_seconds:.1f}",
        f"{row.eager.median:.2f}",
        f"{row.latency.median:.2f}",
        f"{row.speedup:.2f} ×",
        f"{row.peak_memory_bytes / 1e6:.0f}",
        str(row.graphs),
        str(row.breaks),
        row.verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _constraint(model: str) -> str:
    found = json.loads(CONSTRAINTS.read_text())[model]
    lines = ["| line | violations | by |", "|---|---:|---|"]
    for one in found["lines"]:
        lines.append(f"| `{one['line']}` | {one['count']} | {', '.join(f'`{op}`' for op in one['ops'])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
