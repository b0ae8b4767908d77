"""From what Dynamo reports while it compiles to a `GuardReport`."""

from __future__ import annotations

import linecache
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType

import torch

from torchport.debug.guards import advice, breaks, wording
from torchport.debug.guards.model import (
    Compilation,
    FailedGuard,
    Failure,
    Guard,
    GuardReport,
    Outcome,
    Place,
    Recompilation,
    RecompileLimit,
    SkippedFrame,
)
from torchport.debug.internals import dynamo_state
from torchport.debug.internals.dynamo_records import (
    RawCompilation,
    RawEntry,
    RawFailedGuard,
    RawFrame,
    RawGuard,
    RawSkip,
)

_RESUME = re.compile(r"_at_(\d+)$")


@dataclass
class Gathered:
    """A compilation with what is only known while it happens."""

    raw: RawCompilation
    call: int | None
    function: Place
    resumes_at: int | None


@dataclass
class Gathering:
    """Hears of compilations, of one thread or of all, and makes a report of them. Any number of threads may report."""

    thread: int | None = None
    only_own_backend: bool = False
    """Whether compilations for other backends are none that this one could have used."""
    call: int | None = None
    """Which call is being made."""
    compilations: list[Gathered] = field(default_factory=list)
    skips: list[tuple[RawSkip, int | None]] = field(default_factory=list)
    earlier: list[RawEntry] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def compiled(self, raw: RawCompilation) -> None:
        if self.thread not in (None, raw.thread):
            return
        function, resumes_at = origin(raw.code)
        with self._lock:
            self.compilations.append(Gathered(raw, self.call, function, resumes_at))

    def skipped(self, raw: RawSkip) -> None:
        if self.thread in (None, raw.thread) and _is_worth_a_word(raw.code.co_filename):
            with self._lock:
                self.skips.append((raw, self.call))

    def failed(self, problem: str) -> None:
        self.note(f"something that Dynamo reported could not be read: {problem}")

    def note(self, text: str) -> None:
        with self._lock:
            if text not in self.notes:
                self.notes.append(text)

    def report(self, subject: str, calls: int | None, seconds: float) -> GuardReport:
        with self._lock:
            gathered, skips = list(self.compilations), list(self.skips)
            earlier, failures, notes = list(self.earlier), list(self.failures), list(self.notes)
        files = {frame.file for one in gathered for frame in _frames(one.raw)} | {
            one.function.file for one in gathered
        }
        threads = {
            ident: number for number, ident in enumerate(dict.fromkeys(one.raw.thread for one in gathered))
        }
        there = [_earlier(entry) for entry in earlier]
        guards = {one.compile_id: one.guards for one in there}
        made = []
        for one in gathered:
            own = _guards(one.raw.guards, files)
            guards[one.raw.compile_id] = own
            made.append(self._compilation(one, own, threads[one.raw.thread], guards))
        return GuardReport(
            subject=subject,
            torch_version=torch.__version__,
            calls=calls,
            compilations=(*there, *made),
            breaks=breaks.grouped(gathered),
            recompilations=tuple(self._recompilations(gathered, made)),
            limits=tuple(
                _limit(one, known) for one, known in zip(gathered, made) if one.raw.limit is not None
            ),
            skipped=(*map(_skipped, filter(_is_skipped, gathered)), *(_left_alone(*one) for one in skips)),
            failures=(*(_failure(one) for one in gathered if one.raw.is_fatal), *failures),
            notes=tuple(notes),
            seconds=seconds,
        )

    def _failed_guards(self, raw: RawCompilation) -> list[RawFailedGuard]:
        return [one for one in raw.failed_guards if one.same_backend or not self.only_own_backend]

    def _compilation(
        self, one: Gathered, own: tuple[Guard, ...], thread: int, guards: dict[str, tuple[Guard, ...]]
    ) -> Compilation:
        raw, graph = one.raw, one.raw.graph
        return Compilation(
            compile_id=raw.compile_id,
            function=one.function,
            resumes_at=one.resumes_at,
            outcome=_outcome(raw),
            call=one.call,
            thread=thread,
            backend=raw.backend,
            has_graph=graph is not None,
            operations=graph.operations if graph else None,
            lines=wording.users_lines(graph.traces) if graph else (),
            guards=own,
            seconds=raw.seconds,
            backend_seconds=graph.backend_seconds if graph else None,
            failed_guards=tuple(
                _with_cause(wording.read_failed_guard(failed), guards) for failed in self._failed_guards(raw)
            ),
        )

    def _recompilations(self, gathered: list[Gathered], made: list[Compilation]) -> Iterable[Recompilation]:
        for one, known in zip(gathered, made):
            if one.raw.is_compiled and (
                known.failed_guards or (one.raw.is_recompilation and not self.only_own_backend)
            ):
                yield Recompilation(
                    compile_id=known.compile_id,
                    function=known.function,
                    resumes_at=known.resumes_at,
                    call=known.call,
                    failed_guards=known.failed_guards,
                    advice=_advice(self._failed_guards(one.raw), one.resumes_at is None),
                )


def _is_worth_a_word(file: str) -> bool:
    """Whether a function that is not even traced is the user's; namedtuples have their own from `<string>`."""
    return wording.is_of_user(file) and file != "<string>"


def origin(code: CodeType) -> tuple[Place, int | None]:
    """The user's function that code is of, and the line after which it goes on if it is a resume function."""
    original = dynamo_state.original_code(code)
    found = _RESUME.search(code.co_name) if original is not code else None
    place = Place(
        file=original.co_filename,
        line=original.co_firstlineno,
        function=original.co_qualname.replace("<locals>.", ""),
        code=linecache.getline(original.co_filename, original.co_firstlineno).strip(),
    )
    return place, int(found[1]) if found else None


def _frames(raw: RawCompilation) -> Iterable[RawFrame]:
    for guard in raw.guards:
        yield from guard.stack
    if raw.stop is not None:
        yield from raw.stop.stack


def _guards(raw: Iterable[RawGuard], files: Iterable[str]) -> tuple[Guard, ...]:
    return tuple(
        Guard(source=one.source, kind=one.kind, code=tuple(one.code), cause=_cause(one, files)) for one in raw
    )


def _cause(raw: RawGuard, files: Iterable[str]) -> Place | None:
    deepest = wording.users_frame(raw.stack)
    if deepest is not None:
        return wording.place(deepest)
    return wording.find_place(raw.place, files)


def _with_cause(failed: FailedGuard, guards: dict[str, tuple[Guard, ...]]) -> FailedGuard:
    """The same, with the line of the guard that it stands for if Dynamo did not say it."""
    if failed.cause is not None:
        return failed
    for guard in guards.get(failed.graph, ()):
        if guard.cause is not None and wording.is_failure_of(failed.reason, guard):
            return failed.model_copy(update={"cause": guard.cause})
    return failed


def _outcome(raw: RawCompilation) -> Outcome:
    if raw.limit is not None:
        return "over the limit"
    if raw.is_fatal:
        return "failed"
    return "compiled" if raw.is_compiled else "skipped"


def _earlier(entry: RawEntry) -> Compilation:
    function, resumes_at = origin(entry.code)
    return Compilation(
        compile_id=entry.compile_id,
        function=function,
        resumes_at=resumes_at,
        outcome="compiled",
        backend=entry.backend,
        was_there=True,
        has_graph=entry.has_graph,
        guards=_guards(entry.guards, [function.file]),
    )


def _advice(failed: list[RawFailedGuard], is_whole_function: bool) -> str | None:
    """What to do so that one of the graphs that were there would fit, and which, if they differ in that."""
    found: dict[str | None, list[str]] = {}
    for one in failed:
        text = advice.for_recompilation(wording.words_of(one), is_whole_function)
        found.setdefault(text, []).append(wording.read_failed_guard(one).graph)
    if len(found) == 1:
        return next(iter(found))
    return " ".join(f"For {', '.join(graphs)}: {text}" for text, graphs in found.items() if text) or None


def _limit(one: Gathered, known: Compilation) -> RecompileLimit:
    assert one.raw.limit is not None
    setting, limit = one.raw.limit
    return RecompileLimit(
        function=one.function,
        resumes_at=one.resumes_at,
        setting=setting,
        limit=limit,
        compile_id=known.compile_id,
        call=one.call,
        failed_guards=known.failed_guards,
        advice=advice.for_limit(setting, _advice(one.raw.failed_guards, one.resumes_at is None)),
    )


def _is_skipped(one: Gathered) -> bool:
    return _outcome(one.raw) == "skipped" and wording.is_of_user(one.function.file)


def _skipped(one: Gathered) -> SkippedFrame:
    raw = one.raw
    reason = wording.read_reason(raw.stop.text).title if raw.error and raw.stop else (raw.skip_reason or "")
    return SkippedFrame(
        function=one.function,
        reason=wording.short_skip_reason(reason),
        compile_id=raw.compile_id,
        call=one.call,
    )


def _left_alone(raw: RawSkip, call: int | None) -> SkippedFrame:
    return SkippedFrame(function=origin(raw.code)[0], reason=raw.reason, call=call)


def _failure(one: Gathered) -> Failure:
    stop = one.raw.stop
    reason = wording.read_reason(stop.text if stop else "")
    deepest = wording.users_frame(stop.stack) if stop else None
    place = wording.place(deepest) if deepest else one.function
    return Failure(
        error=one.raw.error or "",
        message=f"{reason.title}: {reason.explanation}" if reason.explanation else reason.title,
        place=place,
        call=one.call,
        compile_id=one.raw.compile_id,
        advice=advice.for_break(reason, place),
    )
