"""The whole job: capture, convert, build, run, compare, report.

`port(model, args)` is the Python way in, the `*_spec` functions are what the command line calls.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.recorder import Capture, GoldenRecorder, record, record_graph
from torchport.capture.spec import load_file, load_spec
from torchport.capture.trace import read_tensors
from torchport.errors import CaptureError, ManifestError, RunError, SpecError, UsageError
from torchport.files import write_atomically
from torchport.parity.compare import compare_traces
from torchport.parity.tolerance import Fixed, Rule
from torchport.report.model import Report, Seconds, Todo
from torchport.targets.base import Conversion, Progress, Target, find_target


def _quiet(_: str) -> None:
    pass


@dataclass
class Port:
    """A model somewhere else. `check()` proves it, on the recorded inputs or on others."""

    name: str
    target: Target
    folder: Path
    model: torch.nn.Module | None = None
    capture: Capture | None = None
    conversion: Conversion | None = None
    progress: Progress = _quiet
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: str | Path, *, target: str = "candle") -> Port:
        """A port that was made before, from the directory that it was written to."""
        folder = Path(directory)
        found = [p for p in (folder / "capture").glob("*_manifest.json") if "_again_" not in p.name]
        if len(found) != 1:
            raise ManifestError(
                "TP0301", f"{folder} holds no port", fix="give the directory that `torchport port --out` wrote"
            )
        name = found[0].name.removesuffix("_manifest.json")
        conversion = Conversion(folder / "rust", {}, (), {"name": name})
        return cls(name, find_target(target), folder, conversion=conversion)

    @property
    def captures(self) -> Path:
        return self.folder / "capture"

    def check(
        self,
        args: tuple | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Report:
        """Builds and runs the port and compares every layer with what PyTorch computed."""
        assert self.conversion is not None
        rule = _rule(rtol, atol)
        name = self.name
        if args is not None:
            name = self._record_again(args, kwargs)
        if (broken := self._not_ready()) is not None:
            return broken
        with self._timed("build", "building the port"):
            program = self.target.build(self.conversion, self.progress)
        return self._compare(name, program, rule)

    def _record_again(self, args: tuple, kwargs: Mapping[str, Any] | None) -> str:
        """Golden values for other inputs; the port stays as it is, and must fit them."""
        assert self.model is not None
        graph, _ = read_manifest(self.captures / f"{self.name}_manifest.json")
        with self._timed("capture", "recording the model on other inputs"):
            saved = read_tensors(self.captures / f"{self.name}_weights.safetensors")
            again = record_graph(self.model, graph, saved, tuple(args), kwargs or {})
            again.save(self.captures, f"{self.name}_again")
        return f"{self.name}_again"

    def _not_ready(self) -> Report | None:
        """The report of a port that cannot be run: operations are missing, or there are no values."""
        assert self.conversion is not None
        todos = tuple(Todo(op=t.op, layer=t.layer, source=t.source, reason=t.reason) for t in self.conversion.unmapped)
        if todos:
            return self._write(
                Report(
                    status="unsupported",
                    target=self.target.name,
                    model=self.name,
                    todos=todos,
                    seconds=Seconds(**self.seconds),
                    files=self._files(),
                )
            )
        if self.capture is not None and not self.capture.has_values:
            raise RunError(
                "TP0702",
                "the model was recorded on the meta device, so there are no values to compare with",
                fix=f"the Rust is in {self.conversion.folder}; bring weights and record the model with them to check it",
            )
        return None

    def _compare(self, name: str, program: Path, rule: Rule | None) -> Report:
        assert self.conversion is not None
        trace = self.captures / f"{name}_trace.safetensors"
        truth = self.captures / f"{name}_truth.safetensors"
        records = {mode: self.folder / "run" / f"{mode}.safetensors" for mode in ("lockstep", "chained")}
        stopped = {}
        with self._timed("run", "running the port"):
            for mode, path in records.items():
                stopped[mode] = self.target.run(self.conversion, program, trace, mode, path)
        graph, _ = read_manifest(self.captures / f"{name}_manifest.json")
        plan = make_plan(graph)
        with self._timed("compare", "comparing every layer"):
            parity = compare_traces(
                trace,
                records["lockstep"],
                records["chained"],
                calls=plan.calls.values(),
                events=plan.events,
                truth=truth if truth.is_file() else None,
                rule=rule,
            )
        if parity.passed and any(stopped.values()):
            raise RunError("TP0601", f"the port stopped: {next(filter(None, stopped.values()))}")
        report = Report.of_parity(
            parity,
            target=self.target.name,
            model=self.name,
            seconds=Seconds(**self.seconds),
            files=self._files(),
        )
        return self._write(report)

    def _files(self) -> dict[str, str]:
        assert self.conversion is not None
        return {"project": str(self.conversion.folder), "capture": str(self.captures)}

    def _write(self, report: Report) -> Report:
        path = self.folder / "report.json"
        report = report.model_copy(update={"report": str(path)})
        report.write(path)
        return report

    @contextmanager
    def _timed(self, step: str, what: str) -> Iterator[None]:
        self.progress(what)
        start = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - start, 3)


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
    progress: Progress = _quiet,
) -> Port:
    """Captures a model and converts it. `check()` of what comes back builds, runs and compares it."""
    chosen = find_target(target)
    if checks not in ("none", "layers", "ops"):
        raise UsageError("TP0801", f"checks is {checks!r}", fix="it is one of none, layers and ops")
    name = safe_name(name or type(model).__name__)
    folder = Path(out) if out is not None else Path("torchport-out") / name
    result = Port(name, chosen, folder, model, progress=progress)
    with result._timed("capture", "capturing the model"):
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
    result.capture = capture
    with result._timed("convert", "writing the code"):
        result.conversion = chosen.convert(
            capture.graph, files.get("weights"), folder / "rust", checks=checks, hints=dict(hints or {})
        )
    return result


def safe_name(name: str) -> str:
    """A name that is fit for files and crates."""
    text = re.sub(r"[^0-9A-Za-z_-]+", "_", name).strip("_-")
    return text or "model"


def _rule(rtol: float | None, atol: float | None) -> Rule | None:
    if rtol is None and atol is None:
        return None
    for label, value in (("--rtol", rtol), ("--atol", atol)):
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError("TP0801", f"{label} is {value}", fix="give a number that is not negative")
    return Fixed(rtol=rtol or 0.0, atol=atol or 0.0)


def read_hints(path: Path | None) -> dict[str, Any]:
    """`{"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}`."""
    if path is None:
        return {}
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError("TP0107", f"the hints cannot be read: {error}", where=str(path)) from error
    dims, dynamic = data.get("dims", {}), data.get("dynamic", {})
    unknown = set(data) - {"dims", "dynamic"}
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in dims.values())
    axes = all(isinstance(v, list) and all(isinstance(i, int) for i in v) for v in dynamic.values())
    if unknown or not numbers or not axes:
        raise SpecError(
            "TP0107",
            f"the hints have {'unknown keys ' + ', '.join(sorted(unknown)) if unknown else 'a value of the wrong type'}",
            where=str(path),
            fix='write {"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}',
        )
    return data


def _wish(dynamic: str | None, hints: Mapping[str, Any]) -> str | dict[str, tuple[int, ...]] | None:
    if dynamic is not None or not hints.get("dynamic"):
        return dynamic
    return {name: tuple(axes) for name, axes in hints["dynamic"].items()}


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
    progress: Progress,
) -> Report:
    find_target(target)
    _rule(rtol, atol)
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
        dynamic=_wish(dynamic, wishes),
        hints=wishes.get("dims"),
        checks=checks,
        progress=progress,
    )
    return made.check(rtol=rtol, atol=atol)


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
    subject = load_spec(spec)
    progress("capturing the model")
    capture = record(
        subject.model, subject.args, subject.kwargs, name=safe_name(name), dynamic=_wish(dynamic, wishes), ops=ops
    )
    return _summary(capture, capture.save(out, name))


def record_script(script: Path, *, name: str, out: Path, progress: Progress) -> dict[str, Any]:
    """Runs a user's script, which records by `GoldenRecorder`; what it recorded last is saved."""
    if not script.is_file():
        raise SpecError("TP0102", f"there is no file {script}")
    made: list[GoldenRecorder] = []
    with GoldenRecorder.watching(made):
        progress(f"running {script}")
        load_file(script)
    recorded = [recorder for recorder in made if recorder.capture is not None]
    if not recorded or recorded[-1].capture is None:
        raise CaptureError(
            "TP0206",
            f"{script} recorded nothing",
            where=str(script),
            fix="the script must call GoldenRecorder(dir).record(model, …)",
        )
    capture = recorded[-1].capture
    return _summary(capture, capture.save(out, name))


def _summary(capture: Capture, files: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "name": capture.name,
        "status": "unsupported" if capture.export_error else "recorded",
        **({"export_error": str(capture.export_error)} if capture.export_error else {}),
        "modules": len(capture.graph.modules),
        "calls": len(capture.plan.calls),
        "tensors": len(capture.golden),
        "dynamic": {f"{s.input}:{s.axis}": s.name for s in capture.graph.symbols},
        "files": {kind: str(path) for kind, path in files.items()},
    }


def codegen(
    manifest: Path, *, out: Path, model: str | None, analyze_only: bool, checks: str
) -> dict[str, Any]:
    from torchport.targets.candle.project import format_rust
    from torchport.targets.candle.writer import generate

    graph, _ = read_manifest(manifest)
    generated = generate(graph, checks=checks, model=model)
    if not analyze_only:
        write_atomically(out, format_rust(generated.source))
    operations = {node.op for module in graph.modules.values() for node in module.nodes} - {"call"}
    unsupported = {todo.op for todo in generated.todos}
    return {
        "model": generated.model,
        "config": generated.config,
        "converted": sorted(operations - unsupported),
        "unsupported": sorted(unsupported),
        "todos": [{"op": t.op, "layer": t.layer, "source": t.source, "reason": t.reason} for t in generated.todos],
        "files": [] if analyze_only else [str(out)],
    }


def check_port(
    directory: Path, spec: str, *, rtol: float | None, atol: float | None, progress: Progress
) -> Report:
    """Proves a port that was made before, on the inputs of another SPEC."""
    made = Port.open(directory)
    subject = load_spec(spec)
    made.model, made.progress = subject.model, progress
    return made.check(subject.args, subject.kwargs, rtol=rtol, atol=atol)
