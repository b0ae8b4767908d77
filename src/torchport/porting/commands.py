"""The whole job: capture, convert, build, run, compare, report.

`port(model, args)` is the Python way in, the `*_spec` functions are what the command line calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import Capture, GoldenRecorder, record
from torchport.capture.spec import load_spec, run_script
from torchport.capture.symbols import parse_dynamic
from torchport.errors import CaptureError, DiskError, UsageError
from torchport.files import write_atomically
from torchport.parity.result import Layer
from torchport.porting.hints import read_hints, wished_axes
from torchport.porting.port import Port, quiet, rule_of, todos_of
from torchport.runs.report import Report
from torchport.targets.base import Progress, find_target

__all__ = ["Port", "check_port", "codegen", "port", "port_spec", "record_script", "record_spec"]


def port(
    model: torch.nn.Module,
    args: tuple | list | torch.Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = "candle",
    out: str | Path | None = None,
    name: str | None = None,
    dynamic: str | dict[str, tuple[int, ...]] | None = None,
    hints: Mapping[str, Any] | None = None,
    checks: str = "layers",
    progress: Progress = quiet,
    seen: Callable[[Layer], None] | None = None,
) -> Port:
    """Captures a model and converts it. `check()` of what comes back builds, runs and compares it."""
    chosen = find_target(target)
    if checks not in ("none", "layers", "ops"):
        raise UsageError("TP0801", f"checks is {checks!r}", fix="it is one of none, layers and ops")
    parse_dynamic(dynamic)
    name = safe_name(name or type(model).__name__)
    folder = Path(out) if out is not None else Path("torchport-out") / name
    _must_be_writable(folder)
    # A report that lies there is of another capture; it must not outlive that one.
    (folder / "report.json").unlink(missing_ok=True)
    result = Port(name, chosen, folder, model, progress=progress, seen=seen)
    with result.timed("capture", "capturing the model"):
        capture = record(
            model,
            args,
            kwargs,
            name=name,
            dynamic=dynamic,
            ops=checks == "ops",
            decompose=lambda op: not chosen.maps(op),
        )
        files = capture.save(result.captures)
    if capture.export_error is not None:
        progress(f"{capture.export_error}; recorded by hooks, with TODOs for what these cannot see")
    result.capture = capture
    with result.timed("convert", "writing the code"):
        result.convert(files.get("weights"), checks, dict(hints or {}))
    return result


def _must_be_writable(folder: Path) -> None:
    """A port takes minutes to make; that it cannot be written is said before."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        what = "is not a directory" if not there.is_dir() else "does not allow it"
        raise DiskError("TP0330", f"cannot write to {folder}: {there} {what}", where=str(folder))


def safe_name(name: str) -> str:
    """A name that is fit for files and crates."""
    text = re.sub(r"[^0-9A-Za-z_-]+", "_", name).strip("_-")
    return text or "model"


def _spec_name(spec: str) -> str:
    return safe_name(spec.rpartition(":")[2])


def port_spec(
    spec: str,
    *,
    target: str,
    out: Path | None,
    name: str | None,
    dynamic: str | None,
    hints: Path | None,
    checks: str,
    rtol: float | None,
    atol: float | None,
    explain: bool = True,
    progress: Progress,
    seen: Callable[[Layer], None] | None = None,
) -> Report:
    find_target(target)
    rule_of(rtol, atol)
    wishes = read_hints(hints)
    progress(f"loading {spec}")
    subject = load_spec(spec)
    made = port(
        subject.model,
        subject.args,
        subject.kwargs,
        target=target,
        out=out,
        name=name or _spec_name(spec),
        dynamic=wished_axes(dynamic, wishes),
        hints=wishes.get("dims"),
        checks=checks,
        progress=progress,
        seen=seen,
    )
    return made.check(rtol=rtol, atol=atol, explain=explain)


def record_spec(
    spec: str,
    *,
    name: str,
    out: Path,
    dynamic: str | None,
    hints: Path | None,
    ops: bool,
    progress: Progress,
) -> dict[str, Any]:
    wishes = read_hints(hints)
    _must_be_writable(out)
    subject = load_spec(spec)
    progress("capturing the model")
    capture = record(
        subject.model,
        subject.args,
        subject.kwargs,
        name=safe_name(name),
        dynamic=wished_axes(dynamic, wishes),
        ops=ops,
    )
    return _summary(capture, capture.save(out))


def record_script(script: Path, *, name: str, out: Path, progress: Progress) -> dict[str, Any]:
    """Runs a user's script, which records by `GoldenRecorder`; what it recorded last is saved."""
    _must_be_writable(out)
    made: list[GoldenRecorder] = []
    with GoldenRecorder.watching(made):
        progress(f"running {script}")
        run_script(script)
    captures = [recorder.capture for recorder in made if recorder.capture is not None]
    if not captures:
        raise CaptureError(
            "TP0206",
            f"{script} recorded nothing",
            where=str(script),
            fix="the script must call GoldenRecorder(dir).record(model, …)",
        )
    last = captures[-1].named(safe_name(name))
    return _summary(last, last.save(out))


def _summary(capture: Capture, files: Mapping[str, Path]) -> dict[str, Any]:
    error = capture.export_error
    facts = ("code", "message", "where", "fix")
    return {
        "name": capture.name,
        "status": "unsupported" if error else "recorded",
        **({"export_error": {fact: getattr(error, fact) for fact in facts}} if error else {}),
        "modules": len(capture.graph.modules),
        "calls": len(capture.plan.calls),
        "tensors": len(capture.golden),
        "dynamic": {f"{s.input}:{s.axis}": s.name for s in capture.graph.symbols},
        "files": {kind: str(path) for kind, path in files.items()},
    }


def codegen(
    manifest: Path, *, out: Path | None, model: str | None, analyze_only: bool, checks: str
) -> dict[str, Any]:
    """Writes the code of a manifest to `out`, or only says what would convert and what not."""
    from torchport.targets.candle.project import format_rust
    from torchport.targets.candle.writer import generate

    if model is not None and not model.isidentifier():
        raise UsageError("TP0801", f"--model is {model!r}", fix="give a name of letters, digits and _")
    graph, _ = read_manifest(manifest)
    generated = generate(graph, checks=checks, model=model)
    target = None if analyze_only else out
    if target is not None:
        write_atomically(target, format_rust(generated.source))
    operations = {node.op for module in graph.modules.values() for node in module.nodes} - {"call"}
    todos = todos_of(((t.op, t.layer, t.source, t.reason) for t in generated.todos), graph)
    unsupported = {todo.op for todo in todos}
    return {
        "model": generated.model,
        "config": generated.config,
        "converted": sorted(operations - unsupported),
        "unsupported": sorted(unsupported),
        "todos": [todo.model_dump() for todo in todos],
        "files": [] if target is None else [str(target)],
    }


def check_port(
    directory: Path,
    spec: str | None,
    *,
    rtol: float | None,
    atol: float | None,
    explain: bool = True,
    progress: Progress,
) -> Report:
    """Proves a port that was made before, on the inputs that were recorded or on those of a SPEC."""
    rule_of(rtol, atol)
    made = Port.open(directory)
    made.progress = progress
    if spec is None:
        return made.check(rtol=rtol, atol=atol, explain=explain)
    subject = load_spec(spec)
    made.model = subject.model
    return made.check(subject.args, subject.kwargs, rtol=rtol, atol=atol, explain=explain)
