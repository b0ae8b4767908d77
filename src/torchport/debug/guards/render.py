"""A `GuardReport` as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchport.debug.guards.model import Compilation, FailedGuard, GraphBreak, Guard, GuardReport, Place
from torchport.explain.repro import counted

WIDTH = 110


def render(report: GuardReport, guards: bool = False) -> str:
    sections = [
        [headline(report)],
        list(_graphs(report, guards)),
        list(_breaks(report)),
        list(_recompilations(report)),
        list(_limits(report)),
        list(_skipped(report)),
        list(_failures(report)),
        [line for note in report.notes for line in _wrapped(f"note: {note}", "")],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def headline(report: GuardReport) -> str:
    """All counts in one line."""
    counts = [
        counted(len(report.graphs), "graph"),
        counted(len(report.breaks), "graph break"),
        counted(len(report.recompilations), "recompilation"),
    ]
    if report.limits:
        counts.append(f"the recompile limit reached {_times(len(report.limits))}")
    if report.skipped:
        counts.append(counted(len(report.skipped), "function") + " skipped")
    if report.failures:
        counts.append(counted(len(report.failures), "failure"))
    calls = f" in {counted(report.calls, 'call')}" if report.calls else ""
    return f"{report.subject}{calls}: {', '.join(counts)}; compiled for {report.compile_seconds:.2f} s"


def _graphs(report: GuardReport, guards: bool) -> Iterator[str]:
    shown = [one for one in report.compilations if one.outcome == "compiled"]
    if not shown:
        return
    yield "graphs"
    names = [f"{one.compile_id}  {one.name}" for one in shown]
    width = max(map(len, names))
    for one, name in zip(shown, names):
        yield from _wrapped(f"{name:<{width}}  {'  '.join(_facts(one))}", "  ")
        if guards:
            for guard in one.guards:
                yield from _guard(guard)


def _facts(one: Compilation) -> Iterator[str]:
    if not one.has_graph:
        yield "no operations"
    elif one.operations is not None:
        yield counted(one.operations, "operation")
    if one.lines:
        yield _lines(one.lines)
    yield counted(len(one.guards), "guard")
    if one.seconds is not None:
        yield f"{one.seconds:.2f} s"
    if one.call is not None:
        yield f"call {one.call}"
    if one.was_there:
        yield "compiled before"


def _lines(lines: Iterable[str]) -> str:
    """The lines by the files that they are in: `model.py:3,7-9`."""
    files: dict[str, list[int]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        files.setdefault(file, []).append(int(number))
    return " ".join(f"{Path(file).name}:{_ranges(numbers)}" for file, numbers in files.items())


def _ranges(numbers: list[int]) -> str:
    """Numbers in rising order, with those that follow each other joined: 3,5-9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _guard(guard: Guard) -> Iterator[str]:
    cause = f"  ({guard.cause})" if guard.cause else ""
    yield f"      {guard.kind} {guard.source}{cause}".rstrip()
    for code in guard.code:
        yield from _wrapped(code, " " * 10)


def _breaks(report: GuardReport) -> Iterator[str]:
    if report.breaks:
        yield "graph breaks"
    for one in report.breaks:
        yield f"  {_at(one.place)}"
        yield from _reason(one)
        ids = ", ".join(one.compile_ids)
        yield f"      {one.effect}; {ids} {'ends' if len(one.compile_ids) == 1 else 'end'} here"
        yield from _advice(one.advice)


def _reason(one: GraphBreak) -> Iterator[str]:
    reason = one.reason
    text = f"{reason.title}: {reason.explanation}" if reason.explanation else reason.title
    yield from _wrapped(text + (f" Then: {reason.then}." if reason.then else ""), " " * 6)
    if one.callers:
        yield "      called from " + ", ".join(map(str, one.callers))


def _recompilations(report: GuardReport) -> Iterator[str]:
    if report.recompilations:
        yield "recompilations"
    for one in report.recompilations:
        yield f"  {one.compile_id}  {one.function.function}{_rest(one.resumes_at)}{_call(one.call)}"
        yield from _failed_guards(one.failed_guards)
        yield from _advice(one.advice)


def _failed_guards(failed: Iterable[FailedGuard]) -> Iterator[str]:
    for one in failed:
        yield from _wrapped(f"not {one.graph}: {one.reason}", " " * 6)
        if one.cause:
            yield f"        {_at(one.cause)}"


def _limits(report: GuardReport) -> Iterator[str]:
    if report.limits:
        yield "recompile limits"
    for one in report.limits:
        name = f"{one.function.function}{_rest(one.resumes_at)}"
        yield f"  {one.compile_id}  {name}{_call(one.call)}: {one.setting} is {one.limit}"
        yield from _failed_guards(one.failed_guards[:1])
        yield from _advice(one.advice)


def _skipped(report: GuardReport) -> Iterator[str]:
    if report.skipped:
        yield "functions that run uncompiled"
    for one in report.skipped:
        yield f"  {one.function.function} ({one.function}){_call(one.call)}"
        yield from _wrapped(one.reason, " " * 6)


def _failures(report: GuardReport) -> Iterator[str]:
    if report.failures:
        yield "failures"
    for one in report.failures:
        while_compiling = f" while {one.compile_id} was compiled" if one.compile_id else ""
        yield f"  {one.error}{while_compiling}{_call(one.call)}"
        yield from _wrapped(one.message, " " * 6)
        if one.place:
            yield f"      {_at(one.place)}"
        yield from _advice(one.advice)


def _at(place: Place) -> str:
    return f"{place}  {place.code}".rstrip()


def _advice(text: str | None) -> Iterator[str]:
    if text:
        yield from textwrap.wrap(
            text, WIDTH, initial_indent="      → ", subsequent_indent="        ", break_long_words=False
        )


def _rest(resumes_at: int | None) -> str:
    return f" after line {resumes_at}" if resumes_at is not None else ""


def _call(call: int | None) -> str:
    return f", call {call}" if call is not None else ""


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
