"""What the commands call: each takes what a command line gives, and returns what the command prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchport.capture.graph import body_keys
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import Capture, GoldenRecorder, record
from torchport.capture.spec import load_spec, run_script
from torchport.capture.symbols import parse_dynamic
from torchport.errors import CaptureError, UsageError
from torchport.events import Message, Watcher
from torchport.explain.repro import Minified
from torchport.parity.rulebook import rules_for
from torchport.porting import ctrl_c
from torchport.porting.conversion import converted_manifest, names_of_a_port
from torchport.porting.hints import read_hints, wished_axes
from torchport.porting.overwriting import must_not_lose_work
from torchport.porting.port import (
    Port,
    folder_of_port,
    must_be_writable,
    port,
    safe_name,
)
from torchport.porting.proof import explained_todos
from torchport.porting.rewritten import minify_rewritten, snippet_port
from torchport.runs.changing import BEFORE, changing, put_back_if_interrupted
from torchport.runs.folder import OF_A_VERDICT, REPORT_FILE, open_folder
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.spelling import spelled
from torchport.targets.base import Target, WritesCode
from torchport.targets.registry import DEFAULT, find_target, options_for

__all__ = ["check_port", "codegen", "minify_run", "port_spec", "record_script", "record_spec"]

_VERDICTS = ("pass", "fail")


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
    options: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
    explain: bool = True,
    force: bool = False,
    watch: Watcher,
) -> Report:
    """Ports a model and proves the port; `options` are those of the target.

    A run with a verdict that was there before stays as it was unless the new port comes to one, too.
    """
    rules_for(rtol, atol)
    wishes = read_hints(hints)
    given = {**options, **({"hints": wishes["dims"]} if wishes.get("dims") else {})}
    chosen = find_target(target)
    options_for(chosen, given)
    free = wished_axes(dynamic, wishes)
    parse_dynamic(free)
    name = safe_name(name or _spec_name(spec))
    folder = folder_of_port(out, name)
    must_be_writable(folder)
    if not force:
        must_not_lose_work(folder, chosen)

    def make() -> Report:
        watch(Message(f"loading {spec}"))
        subject = load_spec(spec)
        made = port(
            subject.model,
            subject.args,
            subject.kwargs,
            target=target,
            out=folder,
            name=name,
            dynamic=free,
            watch=watch,
            force=force,
            **given,
        )
        return made.check(rtol=rtol, atol=atol, explain=explain)

    with ctrl_c.during_a_port(folder):
        return _in_place_of_a_verdict(folder, chosen, make)


@contextmanager
def unless_it_ends(folder: Path, target: Target) -> Iterator[None]:
    """Within, a port is made; a run with a verdict that was there before is put back if that ends in an error.

    If there is no such run, what is written so far is kept: the port may be there although it cannot be built.
    """
    put_back_if_interrupted(folder)
    there = (folder / REPORT_FILE).is_file()
    with changing(folder, names_of_a_port(target, folder)) if there else nullcontext():
        yield


def _in_place_of_a_verdict(folder: Path, target: Target, make: Callable[[], Report]) -> Report:
    """The report of a port that is made; a run with a verdict that was there before gives way to another verdict alone.

    If there is no such run, what is written is kept, also if the port cannot be built or has TODOs.
    """
    try:
        with unless_it_ends(folder, target):
            report = make()
            if report.status in _VERDICTS or _earlier_status(folder) not in _VERDICTS:
                return report
            raise _NoVerdict(report)
    except _NoVerdict as end:
        elsewhere = spelled("give another folder ([[out]]) to keep this one")
        kept = f"{folder} keeps the run that was there, which has a verdict: {elsewhere}"
        notes = (*end.report.notes, kept)
        return end.report.model_copy(update={"notes": notes, "files": {}, "report": None})


class _NoVerdict(Exception):
    """A port came to no verdict, so that what was there before is put back."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.status)
        self.report = report


def _earlier_status(folder: Path) -> str | None:
    """The status of the run that is being replaced."""
    try:
        return Report.from_json((folder / BEFORE / REPORT_FILE).read_text(encoding="utf-8")).status
    except (OSError, ValueError):
        return None


def record_spec(
    spec: str,
    *,
    name: str,
    out: Path,
    dynamic: str | None,
    hints: Path | None,
    ops: bool,
    allow_random: bool = False,
    watch: Watcher,
) -> dict[str, Any]:
    wishes = read_hints(hints)
    must_be_writable(out)
    subject = load_spec(spec)
    watch(Message("capturing the model"))
    capture = record(
        subject.model,
        subject.args,
        subject.kwargs,
        name=safe_name(name),
        dynamic=wished_axes(dynamic, wishes),
        ops=ops,
        allow_random=allow_random,
    )
    return _summary(capture, capture.save(out))


def record_script(script: Path, *, name: str, out: Path, watch: Watcher) -> dict[str, Any]:
    """Runs a user's script, which records by `GoldenRecorder`; what it recorded last is saved."""
    must_be_writable(out)
    made: list[GoldenRecorder] = []
    with GoldenRecorder.watching(made):
        watch(Message(f"running {script}"))
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
    manifest: Path,
    *,
    out: Path | None,
    port: Path | None = None,
    model: str | None,
    analyze_only: bool,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes the code of a manifest to `out`, or a whole port, or only says what would convert and what not."""
    target = find_target(DEFAULT)
    if not isinstance(target, WritesCode):
        raise UsageError("TP0801", f"the target {target.name} writes no code")
    graph, _ = read_manifest(manifest)
    file = None if analyze_only else out
    given = options_for(target, dict(options))
    code = target.write_code(graph, file, given, model)
    if port is not None:
        must_be_writable(port)
        must_not_lose_work(port, target, fix="Give another folder to --port, or remove this one.")
        ported = converted_manifest(manifest, graph, target, port, given)
        file = ported.artifact.folder
    written = [module for key, module in graph.modules.items() if key not in body_keys(graph.modules)]
    operations = {node.op for module in written for node in module.nodes} - {"call"}
    todos = explained_todos(code.todos, graph)
    unsupported = {todo.op for todo in todos}
    return {
        "model": code.model,
        "config": code.config,
        "names": [asdict(name) for name in code.names],
        "converted": sorted(operations - unsupported),
        "unsupported": sorted(unsupported),
        "todos": [todo.model_dump() for todo in todos],
        "files": [] if file is None else [str(file)],
    }


def check_port(
    directory: Path,
    spec: str | None,
    *,
    rtol: float | None,
    atol: float | None,
    explain: bool = True,
    watch: Watcher,
) -> Report:
    """Proves a port that was made before, on the inputs that were recorded or on those of a SPEC.

    The latter is a run of its own, in the folder `checks` of the port's.
    """
    rules_for(rtol, atol)
    made = Port.open(directory)
    made.watch = watch
    with ctrl_c.during_a_check(directory):
        if spec is None:
            return made.check(rtol=rtol, atol=atol, explain=explain)
        subject = load_spec(spec)
        made.model = subject.model
        return made.check(
            subject.args,
            subject.kwargs,
            rtol=rtol,
            atol=atol,
            explain=explain,
            name=_spec_name(spec),
            inputs=spec,
        )


def minify_run(directory: Path, *, watch: Watcher) -> Minified:
    """Checks a port again, or the culprit of two models, and reduces what fails to the least that still does."""
    files = open_folder(directory)
    with ctrl_c.during_a_check(directory):
        if files.about.project is not None:
            made = Port.open(directory)
            made.watch = watch
            return made.minify()
        report = Run.open(directory).report
        layer = Port.open(snippet_port(report, files))
        layer.watch = watch
        with changing(files.path, OF_A_VERDICT):
            return minify_rewritten(report, files, layer)
