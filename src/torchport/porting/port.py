"""A port and its proof: the files that it lies in, and the check that compares it with the original.

In: a directory that holds a capture and a target's project. Out: a report.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchport.capture.graph import Graph
from torchport.capture.hooks import UNKNOWN
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.recorder import Capture, record, record_graph
from torchport.errors import CaptureError, ManifestError, RunError, UsageError
from torchport.files import write_atomically
from torchport.parity.compare import compare_traces
from torchport.parity.result import Layer
from torchport.parity.tolerance import Fixed, Rule
from torchport.porting.soundness import Evidence, check_trace, check_truth, check_weights
from torchport.runs.report import Report, Seconds, Todo
from torchport.targets.base import Conversion, Progress, Target, find_target
from torchport.trace.writing import read_tensors


def quiet(_: str) -> None:
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
    checked: Conversion | None = None
    """The same code with checks in it, where `conversion` is without: what ships cannot be watched."""
    progress: Progress = quiet
    seen: Callable[[Layer], None] | None = None
    """Is shown each layer as soon as it is judged."""
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: str | Path, *, target: str = "candle") -> Port:
        """A port that was made before, from the directory that it was written to."""
        folder = Path(directory)
        name = _only_port(folder)
        files = {"weights": folder / "rust" / "model.safetensors"}
        conversion = Conversion(folder / "rust", files, (), {"name": name})
        watched = folder / "checked"
        files = {"weights": watched / "model.safetensors"}
        checked = Conversion(watched, files, (), {"name": name}) if watched.is_dir() else None
        return cls(name, find_target(target), folder, conversion=conversion, checked=checked)

    def convert(self, weights: Path | None, checks: str, hints: dict[str, Any]) -> None:
        """Writes the project, and beside one without checks the same with them, for the proof."""
        assert self.capture is not None
        shutil.rmtree(self.folder / "checked", ignore_errors=True)
        graph = self.capture.graph
        self.conversion = self.target.convert(
            graph, weights, self.folder / "rust", checks=checks, hints=hints
        )
        if checks == "none":
            place = self.folder / "checked"
            self.checked = self.target.convert(graph, weights, place, checks="layers", hints=hints)
        if self.source is not None:
            write_atomically(self.folder / "generated" / self.source.name, self.source.read_bytes())

    @property
    def source(self) -> Path | None:
        """The file that a user may edit."""
        assert self.conversion is not None
        return self.target.source(self.conversion)

    def sources(self) -> tuple[str, str] | None:
        """The source as it was generated and as it is now, where both are known."""
        if self.source is None or not (before := self.folder / "generated" / self.source.name).is_file():
            return None
        return before.read_text(), self.source.read_text()

    @property
    def _watched(self) -> Conversion:
        watched = self.checked or self.conversion
        assert watched is not None
        return watched

    @property
    def captures(self) -> Path:
        return self.folder / "capture"

    def check(
        self,
        args: tuple | list | torch.Tensor | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        explain: bool = True,
    ) -> Report:
        """Builds and runs the port and compares every layer with what PyTorch computed.

        Where a layer diverges, `explain` looks for the operation and the cause, and keeps the layer's tensors
        with scripts that draw them and run it alone.
        """
        assert self.conversion is not None
        rule = rule_of(rtol, atol)
        if (broken := self._not_ready()) is not None:
            return broken
        name = self.name
        if args is not None or kwargs is not None:
            given = (args,) if isinstance(args, torch.Tensor) else tuple(args or ())
            name = self._record_again(given, kwargs or {})
        graph = self._look_at_files(name)
        self._must_be_the_twin()
        with self.timed("build", "building the port"):
            program = self.target.build(self._watched, self.progress)
        self.seconds.pop("explain", None)
        report = self._compare(name, graph, program, rule)
        if report.passed:
            shutil.rmtree(self.folder / "snippets", ignore_errors=True)
        return self._explained(report, name, graph) if explain else report

    def _explained(self, report: Report, name: str, graph: Graph) -> Report:
        """The report with the cause, where it can be found; the verdict stands without."""
        if report.first_divergence is None:
            return report
        from torchport.explain import explained

        try:
            with self.timed("explain", "looking for the cause"):
                report = explained(self, report, self.evidence(name, graph))
        except Exception as error:
            self.progress(f"the cause could not be found: {type(error).__name__}: {error}")
            return report
        return self._write(report.model_copy(update={"seconds": Seconds(**self.seconds)}))

    def _must_be_the_twin(self) -> None:
        """Without checks in it, a port is proven by its twin; an edit would be in the one and not in the other."""
        sources = self.sources()
        if self.checked is not None and sources is not None and sources[0] != sources[1]:
            raise UsageError(
                "TP0804",
                f"{self.source} was edited, and has no checks in it by which it could be proven",
                where=str(self.source),
            )

    def _record_again(self, args: tuple, kwargs: Mapping[str, Any]) -> str:
        """Golden values for other inputs; the port stays as it is, and must fit them."""
        if self.model is None:
            raise UsageError(
                "TP0801",
                "a port that was opened from files has no model to record other inputs with",
                fix="set port.model first, or call check() without inputs",
            )
        graph, manifest = read_manifest(self._capture_file("manifest.json"))
        with self.timed("capture", "recording the model on other inputs"):
            if "export_error" in manifest:
                again = self._watched_again(self.model, graph, args, kwargs)
            else:
                lifted = any(weight.kind == "constant" for weight in graph.weights.values())
                constants = read_tensors(self._capture_file("weights.safetensors")) if lifted else {}
                again = record_graph(self.model, graph, constants, args, kwargs)
            again.save(self.captures, f"{self.name}_again")
        return f"{self.name}_again"

    def _watched_again(
        self, model: torch.nn.Module, graph: Graph, args: tuple, kwargs: Mapping[str, Any]
    ) -> Capture:
        """The same for a model that export cannot follow: it must make the same calls."""
        again = record(model, args, kwargs, name=self.name, decompose=lambda op: not self.target.maps(op))
        if again.plan.events != make_plan(graph).events:
            raise CaptureError(
                "TP0208", "on these inputs the model calls other layers than those that were recorded"
            )
        return again

    def _not_ready(self) -> Report | None:
        """The report of a port that cannot be run: operations are missing, or there are no values."""
        assert self.conversion is not None
        if self.conversion.unmapped:
            graph, _ = read_manifest(self._capture_file("manifest.json"))
            todos = ((t.op, t.layer, t.source, t.reason) for t in self.conversion.unmapped)
            return self._unsupported(todos_of(todos, graph))
        if self.capture is not None and not self.capture.has_values:
            raise RunError(
                "TP0702",
                "the model was recorded on the meta device, so there are no values to compare with",
                fix=f"the code is in {self.conversion.folder}; to check it, record the model with weights",
            )
        return None

    def _unsupported(self, todos: list[Todo]) -> Report:
        return self._write(
            Report(
                status="unsupported",
                target=self.target.name,
                model=self.name,
                todos=tuple(todos),
                seconds=Seconds(**self.seconds),
                files={name: str(path) for name, path in self._files().items()},
            )
        )

    def _look_at_files(self, name: str) -> Graph:
        """What is missing is said before anything is built."""
        assert self.conversion is not None
        graph, _ = read_manifest(self._capture_file("manifest.json", name))
        check_trace(self._capture_file("trace.safetensors", name), graph, make_plan(graph))
        check_truth(self._capture_file("truth.safetensors", name))
        if (weights := self._watched.files.get("weights")) is not None:
            check_weights(weights, graph)
        return graph

    def _compare(self, name: str, graph: Graph, program: Path, rule: Rule | None) -> Report:
        assert self.conversion is not None
        trace = self._capture_file("trace.safetensors", name)
        truth = self._capture_file("truth.safetensors", name)
        records = {mode: self.folder / "run" / f"{mode}.safetensors" for mode in ("lockstep", "chained")}
        stopped: list[str] = []
        with self.timed("run", "running the port"):
            for mode, path in records.items():
                complaint = self.target.run(self._watched, program, trace, mode, path)
                stopped += [complaint] if complaint else []
        if left := _TODO.search("\n".join(stopped)):
            return self._unsupported([Todo(op=left.group("op"), layer=self.name, reason=left.group("text"))])
        plan = make_plan(graph)
        with self.timed("compare", "comparing every layer"):
            parity = compare_traces(
                trace,
                records["lockstep"],
                records["chained"],
                calls=plan.calls.values(),
                events=plan.events,
                truth=truth if truth.is_file() else None,
                rule=rule,
                operations={
                    call.name: [node.name for node in graph.modules[call.module].nodes]
                    for call in plan.calls.values()
                },
                seen=self.seen,
            )
        if parity.passed and stopped:
            raise RunError("TP0601", f"the port stopped: {stopped[0]}")
        report = Report.of_parity(
            parity,
            target=self.target.name,
            model=self.name,
            seconds=Seconds(**self.seconds),
            files=self._files(),
        )
        return self._write(report.model_copy(update={"stopped": stopped[0] if stopped else None}))

    def _capture_file(self, ending: str, name: str | None = None) -> Path:
        return self.captures / f"{name or self.name}_{ending}"

    def evidence(self, name: str | None = None, graph: Graph | None = None) -> Evidence:
        """The files that an explanation is drawn from; by default those of the recorded inputs."""
        return Evidence(
            graph or read_manifest(self._capture_file("manifest.json", name))[0],
            trace=self._capture_file("trace.safetensors", name),
            lockstep=self.folder / "run" / "lockstep.safetensors",
            weights=self._capture_file("weights.safetensors", name),
            stored=self._watched.files.get("weights", self.folder / "none"),
        )

    def _files(self) -> dict[str, Path]:
        assert self.conversion is not None
        return {"project": self.conversion.folder, "capture": self.captures}

    def _notes(self) -> tuple[str, ...]:
        writes = read_manifest(self._capture_file("manifest.json"))[1].get("writes", [])
        if not writes:
            return ()
        state = f"the model writes to {', '.join(writes)} when it is called, and the port does not"
        return (f"{state}: one call is proven, what is kept for the next is not",)

    def _write(self, report: Report) -> Report:
        path = self.folder / "report.json"
        report = report.model_copy(update={"report": str(path), "notes": self._notes()})
        report.write(path)
        return report

    @contextmanager
    def timed(self, step: str, what: str) -> Iterator[None]:
        self.progress(what)
        start = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - start, 3)


_TODO = re.compile(r"TODO\(torchport\): (?P<text>(?P<op>\S+).*)")


def todos_of(todos: Iterable[tuple[str, str, str | None, str]], graph: Graph) -> list[Todo]:
    """Where a graph is not known, the reason is that of torch.export."""
    reasons = {
        (module.path or graph.root.class_name): node.kwargs.get("reason")
        for module in graph.modules.values()
        for node in module.nodes
        if node.op == UNKNOWN
    }
    found = [
        Todo(op=op, layer=layer, source=source, reason=(op == UNKNOWN and reasons.get(layer)) or reason)
        for op, layer, source, reason in todos
    ]
    return list(dict.fromkeys(found))


def _only_port(folder: Path) -> str:
    """The name of the port in a directory; recordings on other inputs are not ports."""
    names = {
        path.name.removesuffix("_manifest.json") for path in (folder / "capture").glob("*_manifest.json")
    }
    ports = sorted(name for name in names if name.removesuffix("_again") not in names - {name})
    if len(ports) != 1:
        what = f"holds {len(ports)} ports ({', '.join(ports)})" if ports else "holds no port"
        raise ManifestError(
            "TP0301",
            f"{folder} {what}",
            where=str(folder),
            fix="give the directory that `torchport port --out` wrote, with one port in it",
        )
    return ports[0]


def rule_of(rtol: float | None, atol: float | None) -> Rule | None:
    if rtol is None and atol is None:
        return None
    for label, value in (("--rtol", rtol), ("--atol", atol)):
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError("TP0801", f"{label} is {value}", fix="give a number that is not negative")
    return Fixed(rtol=rtol or 0.0, atol=atol or 0.0)
