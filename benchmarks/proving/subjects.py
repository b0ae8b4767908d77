"""One model ported, proven, and proven once more on inputs of other sizes, by the commands that users have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["pass", "fail", "unsupported", "error", "timeout"]
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Model:
    """A model by its SPEC, and if wanted the axes to leave free and the SPEC of inputs of other sizes."""

    name: str
    spec: str
    dynamic: str | None = None
    elsewhere: str | None = None


@dataclass(frozen=True)
class Proof:
    name: str
    outcome: Outcome
    layers: int
    nearest: float
    """How near the limit the worst layer came."""
    seconds: float
    why: str
    """What stands against a pass; empty for a pass."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        passed = f"{self.layers} layers, nearest {self.nearest:.2f} of the limit"
        return f"{self.outcome}: {passed if self.outcome == 'pass' else self.why}"


def prove(model: Model, folder: Path, most_seconds: float = 900) -> Proof:
    """Ports and proves one model. Of what it writes, the cargo project stays, so that it need not be built again."""
    started = time.perf_counter()
    out = folder / model.name
    wish = [] if model.dynamic is None else ["--dynamic", model.dynamic]
    calls = [["port", model.spec, "--to", "candle", "--out", str(out), *wish]]
    if model.elsewhere is not None:
        calls.append(["check", str(out), model.elsewhere])
    layers, nearest = 0, 0.0
    try:
        for call in calls:
            outcome, report, why = _run(call, most_seconds)
            layers = max(layers, len(report.get("layers", [])))
            nearest = max(nearest, _nearest(report))
            if outcome != "pass":
                return Proof(model.name, outcome, layers, nearest, time.perf_counter() - started, why)
        return Proof(model.name, "pass", layers, nearest, time.perf_counter() - started, "")
    finally:
        for name in ("capture", "run", "snippets"):
            shutil.rmtree(out / name, ignore_errors=True)


def _run(call: list[str], most_seconds: float) -> tuple[Outcome, dict[str, Any], str]:
    command = [sys.executable, "-m", "torchport", *call, "--json"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=most_seconds)
    except subprocess.TimeoutExpired:
        return "timeout", {}, f"{call[0]} did not end within {most_seconds:.0f} s"
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return "error", {}, (done.stderr.strip() or f"exit code {done.returncode}")[-400:]
    outcome: Outcome = report["status"]
    return outcome, report, "" if outcome == "pass" else f"{call[0]}: {_why(report)}"


def _nearest(report: dict[str, Any]) -> float:
    ratios = [(layer.get("own") or {}).get("ratio") or 0.0 for layer in report.get("layers", [])]
    return max(ratios, default=0.0)


def _why(report: dict[str, Any]) -> str:
    if report["status"] == "unsupported" and report.get("todos"):
        return "; ".join(sorted({f"{todo['op']}: {todo['reason']}" for todo in report["todos"]}))
    found = report.get("first_divergence")
    if found:
        return f"{found['layer']}: {found.get('what')}: {found.get('reason')}"
    error = report.get("error") or {}
    return f"{error.get('code', '')} {error.get('message', '')}".strip() or "no reason was given"
