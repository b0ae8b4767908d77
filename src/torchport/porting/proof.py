"""The proof of a port: it is made ready, run along the recording in both modes, compared, and explained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from torchport.arithmetic.classes import EAGER, Arithmetic
from torchport.arithmetic.ported import emulated_values, wide_outputs
from torchport.capture.graph import Graph
from torchport.capture.hooks import UNKNOWN
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.unrolled import steps_written_out
from torchport.capture.weights import stored_weights
from torchport.errors import RunError
from torchport.events import CandidateStopped, Steps
from torchport.explain.bench import Bench
from torchport.explain.explanation import PortedModel, explained_if_possible
from torchport.explain.suspect import RunValues
from torchport.parity.rulebook import RuleBook
from torchport.porting.conversion import Converted
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
    operations = {
        call.name: [node.name for node in graph.modules[call.module].nodes] for call in plan.calls.values()
    }
    ends = partial(_ends, files, graph)
    reference = Reference(EAGER, partial(_emulated, files, graph), ends, lambda _: {})
    parity = compare_run(files, plan, rules, steps, operations, reference)
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
    notes = (*report.notes, *_notes_on_the_program(report), *_notes(files))
    beside = {"notes": notes, "control_flow": _control_flow(files)}
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
        notes=_notes(files),
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


def _notes(files: RunFolder) -> tuple[str, ...]:
    """What is true of the port beside the verdict."""
    graph, manifest = read_manifest(files.manifest)
    return (
        *_notes_on_state(files),
        *_notes_on_idle_bodies(files),
        *_notes_on_what_is_unknown(manifest),
        *dict.fromkeys(_notes_on_loops(graph)),
    )


def _notes_on_the_program(report: Report) -> tuple[str, ...]:
    """A target may leave unsaid what its artifact gives in the end."""
    if report.program is not None or report.stopped is not None:
        return ()
    return ("the port does not say what it gives in the end: only what its model computes is proven",)


def _notes_on_state(files: RunFolder) -> tuple[str, ...]:
    """What the capture of the port's own inputs says of buffers that the model writes to."""
    writes = read_manifest(RunFolder(files.path, files.about).manifest)[1].get("writes", [])
    if not writes:
        return ()
    state = f"the model writes to {', '.join(writes)} when it is called, and the port does not"
    return (f"{state}: one call is proven, what is kept for the next is not",)


def _notes_on_idle_bodies(files: RunFolder) -> tuple[str, ...]:
    """What the capture of these inputs says of branches and loops that did not run."""
    idle = _idle(files)
    if not idle:
        return ()
    missing = f"{', '.join(idle)} did not run on these inputs, so nothing is proven of what is computed there"
    return (f"{missing}: check the port on inputs that take the other way, too",)


def _notes_on_loops(graph: Graph) -> Iterator[str]:
    """Which loops of Python run as often as they did on the example inputs, and no other number of times."""
    for path, source, count in steps_written_out(graph):
        place = f"{path or graph.root.class_name}{f' ({source})' if source else ''}"
        said = f"{place} repeats one step {count} times, as torch.export wrote it out"
        yield f"{said}: the port is made for that length alone; a scan of torch._higher_order_ops runs at any length"


def _notes_on_what_is_unknown(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Why torch.export could not follow the model, and what to write instead."""
    error = manifest.get("export_error")
    if error is None:
        return ()
    place = f" ({error['where']})" if error["where"] else ""
    return (f"{error['message']}{place}: {error.get('fix') or 'see the TODOs'}",)


def _control_flow(files: RunFolder) -> tuple[ControlFlowSummary, ...]:
    return control_flow_of(read_manifest(files.manifest)[0], _idle(files))


def _idle(files: RunFolder) -> list[str]:
    """The bodies of control flow that did not run on these inputs."""
    idle: list[str] = read_manifest(files.manifest)[1].get("idle", [])
    return idle
