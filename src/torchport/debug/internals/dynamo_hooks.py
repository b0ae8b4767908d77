"""Wrappers around Dynamo's own functions: they write down what these are told, and pass everything on unchanged."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, Protocol

import torch

from torchport.debug.internals import dynamo_guards, dynamo_state
from torchport.debug.internals.dynamo_guards import read_stack
from torchport.debug.internals.dynamo_records import (
    RawCompilation,
    RawFailedGuard,
    RawGraph,
    RawSkip,
    RawStop,
)
from torchport.debug.internals.needs import Need

FRAMES = "torch._dynamo.convert_frame"
TRACER = "torch._dynamo.symbolic_convert"
OUTPUT = "torch._dynamo.output_graph"

NEEDS = (
    Need("compilations", FRAMES, "_compile", "guards: everything"),
    Need("skips", FRAMES, "compile_frame", "guards: why a frame is skipped while it is traced"),
    Need("recompilations", FRAMES, "get_and_maybe_log_recompilation_reasons", "guards: recompilations"),
    Need("limits", FRAMES, "exceeds_recompile_limit", "guards: whether the recompile limit was reached"),
    Need("breaks", TRACER, "InstructionTranslatorBase.log_graph_break", "guards: why and where graphs break"),
    Need("ends", OUTPUT, "OutputGraph.compile_subgraph", "guards: whether a graph ends at a break"),
    Need("graphs", OUTPUT, "OutputGraph.call_user_compiler", "guards: operations and lines of each graph"),
)
_SOFT_ERRORS = ("Unsupported", "UserError")
"""Dynamo lets a frame run uncompiled after one of these, unless it must make one graph."""
GENERATOR = "generators cannot be compiled directly"
_CALLS = ("call_function", "call_method", "call_module")


class Observer(Protocol):
    def compiled(self, raw: RawCompilation) -> None: ...

    def skipped(self, raw: RawSkip) -> None: ...

    def failed(self, problem: str) -> None:
        """Something that happened could not be written down."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.compilations: list[RawCompilation] = []
        """Those that this thread is in the midst of, the innermost last."""
        self.reported: CodeType | None = None
        """The code that a compilation was reported of last: if it is skipped, that is known from there."""


observers: list[Observer] = []
_thread = _Thread()


@contextmanager
def _noting() -> Iterator[None]:
    """What goes wrong in here is said to the observers; the user's compilation goes on."""
    try:
        yield
    except Exception as error:
        for observer in tuple(observers):
            observer.failed(f"{type(error).__name__}: {error}")


def _current() -> RawCompilation | None:
    return _thread.compilations[-1] if _thread.compilations else None


def _report_skip(code: CodeType, reason: str) -> None:
    raw = RawSkip(code, reason, threading.get_ident())
    for observer in tuple(observers):
        observer.skipped(raw)


def on_compilation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around `_compile`: a record from its beginning to its end."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile_and_report(*args: Any, **kwargs: Any) -> Any:
        if not observers:
            return original(*args, **kwargs)
        raw, bound = None, None
        with _noting():
            bound = signature.bind(*args, **kwargs)
            raw = _begun(bound.arguments)
        if raw is None or bound is None:
            return original(*args, **kwargs)
        _thread.compilations.append(raw)
        start = time.perf_counter()
        try:
            result = original(*bound.args, **bound.kwargs)
            raw.seconds = time.perf_counter() - start
            with _noting():
                _note_result(raw, result)
            return result
        except BaseException as error:
            raw.seconds = time.perf_counter() - start
            with _noting():
                _note_error(raw, error, bound.arguments)
            raise
        finally:
            _thread.compilations.pop()
            _thread.reported = raw.code
            with _noting():
                for observer in tuple(observers):
                    observer.compiled(raw)

    return compile_and_report


def _begun(arguments: dict[str, Any]) -> RawCompilation:
    """The record of a compilation that begins; from then on Dynamo tells it the guards."""
    code = arguments["code"]
    raw = RawCompilation(
        compile_id=str(arguments["compile_id"]),
        code=code,
        thread=threading.get_ident(),
        backend=dynamo_state.backend_name(arguments["compiler_fn"]),
        is_first=not dynamo_state.has_entries(code),
    )
    arguments["hooks"] = _with_export(arguments["hooks"], raw)
    arguments["skip"] = arguments.get("skip", 0) + 1  # The wrapper's own frame, in what Dynamo logs.
    return raw


def _with_export(hooks: Any, raw: RawCompilation) -> Any:
    """The same hooks, and one that reads the guards once they are made."""
    theirs = hooks.guard_export_fn

    def export(guards: Any) -> None:
        with _noting():
            raw.guards = dynamo_guards.exported(guards)
        if theirs is not None:
            theirs(guards)

    return dataclasses.replace(hooks, guard_export_fn=export)


def _note_result(raw: RawCompilation, result: Any) -> None:
    compiled = result.guarded_code
    if compiled is None:
        raw.skip_reason = raw.skip_reason or getattr(result, "skip_reason", None) or "Dynamo gives no reason"
        return
    raw.is_compiled = True
    raw.guards = dynamo_guards.checked(compiled.guard_manager, raw.guards)


def _note_error(raw: RawCompilation, error: BaseException, arguments: dict[str, Any]) -> None:
    raw.error = type(error).__name__
    box = arguments.get("convert_frame_box")
    is_strict = bool(arguments["one_graph"] or getattr(box, "error_on_graph_break", False))
    is_soft = raw.error in _SOFT_ERRORS or torch._dynamo.config.suppress_errors
    raw.is_fatal = is_strict or not is_soft
    stack = read_stack(getattr(error, "real_stack", None)) or (raw.stop.stack if raw.stop else ())
    raw.stop = RawStop(_words(error), stack)
    raw.is_split = False


def _words(error: BaseException) -> str:
    """What an error says, without what Dynamo adds for all errors alike."""
    text = str(getattr(error, "msg", "") or error)
    return text.partition("\n\nfrom user code:")[0].partition("\n\nSet TORCHDYNAMO_VERBOSE=1")[0].strip()


def on_tracing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around `compile_frame`: why it gives a frame up."""

    @functools.wraps(original)
    def trace_and_report(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            raw = _current()
            if raw is not None and type(error).__name__ == "SkipFrame":
                raw.skip_reason = _words(error)
            raise

    return trace_and_report


def on_recompilation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around the function that asks every earlier compilation which guard failed."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def ask_and_report(*args: Any, **kwargs: Any) -> Any:
        reasons = original(*args, **kwargs)
        raw = _current()
        if raw is None:
            return reasons
        with _noting():
            arguments = signature.bind(*args, **kwargs).arguments
            if not arguments.get("skip_logging", False):
                own = dynamo_state.compiled_for(arguments["backend"], next(iter(arguments.values())))
                raw.is_recompilation = True
                raw.failed_guards = [RawFailedGuard(text, text.partition(":")[0] in own) for text in reasons]
        return reasons

    return ask_and_report


def on_limit(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def measure_and_report(*args: Any, **kwargs: Any) -> Any:
        is_exceeded, name = answer = original(*args, **kwargs)
        raw = _current()
        if raw is not None and is_exceeded:
            raw.limit = name, int(getattr(torch._dynamo.config, name, 0))
        return answer

    return measure_and_report


def on_break(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around `log_graph_break`, which Dynamo calls for each break with the error behind it."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def log_and_report(*args: Any, **kwargs: Any) -> Any:
        raw = _current()
        with _noting():
            arguments = signature.bind(*args, **kwargs).arguments
            error = arguments["exc"]
            if raw is not None and not error.logged:
                raw.stop = RawStop(_words(error), _stack_of_break(arguments["self"], error))
        return original(*args, **kwargs)

    return log_and_report


def _stack_of_break(tracer: Any, error: Any) -> Any:
    stack = read_stack(getattr(error, "real_stack", None) or [tracer.frame_summary()])
    positions = tracer.current_instruction.positions
    if len(stack) == 1 and stack[0].column is None and positions is not None:
        return (stack[0]._replace(column=positions.col_offset),)
    return stack


def on_end_of_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around `compile_subgraph`, which ends the last attempt at a frame: at a break, or where the frame returns."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def end_and_report(*args: Any, **kwargs: Any) -> Any:
        raw = _current()
        with _noting():
            reason = signature.bind(*args, **kwargs).arguments["reason"]
            if raw is not None:
                raw.graph = None
                raw.is_split = reason.graph_break
                if not raw.is_split:
                    raw.stop = None
                elif raw.stop is None:
                    raw.stop = RawStop(reason.reason, read_stack(reason.user_stack))
        return original(*args, **kwargs)

    return end_and_report


def on_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around the call of the backend, which must not have changed the graph yet."""

    @functools.wraps(original)
    def hand_over_and_report(output: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        raw = _current()
        with _noting():
            if raw is not None:
                raw.graph = _facts(module)
        start = time.perf_counter()
        try:
            return original(output, module, *args, **kwargs)
        finally:
            if raw is not None and raw.graph is not None:
                raw.graph.backend_seconds = time.perf_counter() - start

    return hand_over_and_report


def _facts(module: torch.fx.GraphModule) -> RawGraph:
    calls = [node for node in module.graph.nodes if node.op in _CALLS]
    traces = dict.fromkeys(trace for node in calls if (trace := node.meta.get("stack_trace")))
    return RawGraph(len(calls), tuple(traces))


def on_skip(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around the method that hears of every frame that Dynamo skips, with the reason."""

    @functools.wraps(original)
    def handle_and_report(wrapper: Any, result: Any, frame: Any) -> Any:
        with _noting():
            is_reported, _thread.reported = frame.f_code is _thread.reported, None
            if not is_reported and result.skip_reason is not None and result.guarded_code is None:
                is_generator = frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE)
                _report_skip(frame.f_code, GENERATOR if is_generator else result.skip_reason)
        return original(wrapper, result, frame)

    return handle_and_report


def on_question(skips_if: bool, reason: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Around a question of which one answer makes Dynamo skip a frame."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def ask_and_report(subject: Any) -> Any:
            answer = original(subject)
            with _noting():
                if bool(answer) is skips_if:
                    _report_skip(getattr(subject, "f_code", subject), reason)
            return answer

        return ask_and_report

    return around
