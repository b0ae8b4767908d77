"""The proof of a port: it is made ready, run along the recording in both modes, compared, and explained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from torchport.arithmetic.classes import EAGER, Arithmetic
from torchport.arithmetic.ported import emulated_values, wide_outputs
from torchport.capture.drawn import drawn_values, random_summary
from torchport.capture.graph import Graph
from torchport.capture.hooks import UNKNOWN
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.weights import stored_weights
from torchport.errors import RunError
from torchport.events import CandidateStopped, Steps
from torchport.explain.bench import Bench
from torchport.explain.explanation import PortedModel, explained_if_possible
from torchport.explain.suspect import RunValues
from torchport.parity.rulebook import RuleBook
from torchport.porting.conversion import Converted
from torchport.porting.notes import notes_on, notes_on_the_program
from torchport.runs.control_flow import ControlFlowSummary, control_flow_of
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report
from torchport.runs.verdict import Reference, compare_run, written
from torchport.targets.base import Artifact, Mode, Stopped, Todo
from torchport.trace.reading import Trace

MODES: tuple[Mode, ...] = ("lockstep", "chained")


def prove(port: Converted, files: RunFolder, graph: Graph, rules: RuleBook, steps: Steps) -> Report:
    """The verdict on a port by the recording in `files`, written to the folder of the run."""
    artifact, target = port.artifact, port.target.name
    with steps.step("build", "building the port"):
        artifact.prepare(steps.tick)
    stopped = _run(artifact, files, steps)
    if stopped is not None and stopped.todo is not None:
        todos = explained_todos((stopped.todo,), graph)
        return written(unsupported(target, files, todos, steps.seconds), files)
    plan = make_plan(graph)
    drawn = drawn_values(graph, plan)
    operations = {
        call.name: [node.name for node in graph.modules[call.module].nodes] for call in plan.calls.values()
    }
    ends = partial(_ends, files, graph)
    reference = Reference(EAGER, partial(_emulated, files, graph), ends, lambda _: {})
    parity = compare_run(files, plan, rules, steps, operations, reference, drawn=drawn)
    if parity.passed and stopped is not None:
        raise RunError("TP0601", f"the port stopped: {stopped.message}")
    report = Report.of_parity(
        parity,
        target=target,
        model=files.name,
        seconds=steps.seconds,
        files=_places(files),
        stopped=None if stopped is None else stopped.message,
    )
    random = random_summary(graph, plan, drawn)
    first = () if random is None else (random.text,)
    notes = (*first, *report.notes, *notes_on_the_program(report), *notes_on(files))
    beside = {"notes": notes, "control_flow": _control_flow(files), "random": random}
    return written(report.model_copy(update=beside), files)


def _emulated(
    files: RunFolder, graph: Graph, arithmetic: Arithmetic, calls: Collection[str]
) -> Mapping[str, Tensor]:
    """What the model computes in a class of arithmetic, by its recording."""
    with Trace(files.captured("trace")) as golden:
        weights = stored_weights(files.captured("weights"), graph)
        return emulated_values(graph, weights, make_plan(graph), golden.get, arithmetic, calls)


def _ends(files: RunFolder, graph: Graph) -> Mapping[str, Tensor]:
    """The outputs of the whole model in float64."""
    with Trace(files.captured("trace")) as golden:
        weights = stored_weights(files.captured("weights"), graph)
        return wide_outputs(graph, weights, make_plan(graph), golden.get)


def explain(
    report: Report, files: RunFolder, graph: Graph, bench: Bench, stored: Path | None, steps: Steps
) -> Report:
    """The report with the cause, if it can be found; the verdict stands without."""
    subject = PortedModel(RunValues.of(files, graph, stored), bench)
    return written(explained_if_possible(report, files, subject, steps), files)


def unsupported(
    target: str, files: RunFolder, todos: tuple[Todo, ...], seconds: Mapping[str, float]
) -> Report:
    """The report on a port that cannot be run to its end, because operations are still to be written."""
    return Report(
        status="unsupported",
        target=target,
        model=files.name,
        todos=todos,
        seconds=dict(seconds),
        files={name: str(path) for name, path in _places(files).items()},
        notes=notes_on(files),
        control_flow=_control_flow(files),
    )


def explained_todos(todos: tuple[Todo, ...], graph: Graph) -> tuple[Todo, ...]:
    """The same, with the reason that torch.export gave for a part of the graph that is not known."""
    reasons = {
        (module.path or graph.root.class_name): node.kwargs.get("reason")
        for module in graph.modules.values()
        for node in module.nodes
        if node.op == UNKNOWN
    }
    found = [
        todo.model_copy(update={"reason": (todo.op == UNKNOWN and reasons.get(todo.layer)) or todo.reason})
        for todo in todos
    ]
    return tuple(dict.fromkeys(found))


def _run(artifact: Artifact, files: RunFolder, steps: Steps) -> Stopped | None:
    """Runs the artifact in both modes; gives why it stopped, the first time that it did."""
    found: list[Stopped] = []
    with steps.step("run", "running the port"):
        for mode in MODES:
            record = files.record(mode)
            record.parent.mkdir(parents=True, exist_ok=True)
            record.unlink(missing_ok=True)
            stopped = artifact.run(files.captured("trace"), mode, record)
            if stopped is not None:
                steps.watch(CandidateStopped(stopped.message))
                found.append(stopped)
    return next((stopped for stopped in found if stopped.todo is not None), found[0] if found else None)


def _places(files: RunFolder) -> dict[str, Path]:
    return {"project": files.project, "capture": files.captures}


def _control_flow(files: RunFolder) -> tuple[ControlFlowSummary, ...]:
    graph, manifest = read_manifest(files.manifest)
    return control_flow_of(graph, manifest.get("idle", []))
