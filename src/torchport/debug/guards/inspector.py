"""`GuardInspector`: runs a function, or watches a run of the user's own, and says what torch.compile made of it."""

from __future__ import annotations

import inspect
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.capture.source import definition, user_line
from torchport.debug.guards.gathering import Gathering
from torchport.debug.guards.model import Failure, GuardReport, Place
from torchport.debug.internals import dynamo, dynamo_state
from torchport.errors import CompileError, UsageError

NOTHING_SEEN = (
    "Dynamo was not asked to compile anything: it may be switched off (TORCHDYNAMO_DISABLE, "
    "torch.compiler.set_stance), the function may be marked with torch.compiler.disable, or was skipped before"
)


@dataclass(frozen=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


class Watch:
    """What is gathered of a run of the user's own; `report()` may be asked for during the run and afterwards."""

    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering
        self._start = time.perf_counter()
        self._end: float | None = None

    def report(self) -> GuardReport:
        end = self._end if self._end is not None else time.perf_counter()
        return self._gathering.report("run", None, end - self._start)

    def stop(self) -> None:
        self._end = time.perf_counter()


class GuardInspector:
    """Looks at what torch.compile makes of functions and modules.

    A function or module that is not compiled yet is compiled for `backend`, with `dynamic` and `fullgraph` as in
    torch.compile. It runs, with its side effects, as often as there are calls. One that the user has compiled already
    is run as it is. torch._dynamo.reset is never called.
    """

    def __init__(
        self,
        backend: str | Callable[..., Any] = "eager",
        *,
        dynamic: bool | None = None,
        fullgraph: bool = False,
    ) -> None:
        self.backend = backend
        self.dynamic = dynamic
        self.fullgraph = fullgraph

    def inspect(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> GuardReport:
        """What one call of a function leads to."""
        return self.inspect_calls(function, [Call(args, kwargs)])

    def inspect_calls(self, function: Callable[..., Any], calls: Iterable[Any]) -> GuardReport:
        """What several calls lead to, in their order: each is a tuple of arguments, a dict of named ones, or a `Call`.

        A call that raises is reported, and the next one is made.
        """
        _check_callable(function)
        made = _read_calls(calls)
        for call in made:
            _check_arguments(function, call)
        original = dynamo_state.uncompiled(function)
        if original is not None:
            return self._run_as_it_is(function, original, made)
        return self._run_compiled(function, made)

    def compiled(self, function: Callable[..., Any]) -> GuardReport:
        """The graphs that a function has already, with their guards; it is not run."""
        _check_callable(function)
        gathering = Gathering()
        gathering.earlier = _earlier(dynamo_state.uncompiled(function) or function)
        gathering.note(
            "functions that it calls after a break have graphs of their own, which are not listed here"
        )
        return gathering.report(_name(function), 0, 0.0)

    @contextmanager
    def watch(self, *compiled: Callable[..., Any], other_backends: bool = True) -> Iterator[Watch]:
        """All that is compiled meanwhile, by whom and for what backend ever, on all threads.

        The graphs that the functions given here have already are listed too. A function that was compiled for another
        backend before is compiled again; without `other_backends`, that does not count as a recompilation.
        """
        for function in compiled:
            _check_callable(function)
        gathering = _gathering(only_own_backend=not other_backends)
        for function in compiled:
            gathering.earlier += _earlier(dynamo_state.uncompiled(function) or function)
        watch = Watch(gathering)
        with dynamo.watching(gathering):
            try:
                yield watch
            finally:
                watch.stop()

    def _run_as_it_is(
        self, function: Callable[..., Any], original: Any, calls: Sequence[Call]
    ) -> GuardReport:
        gathering = _gathering(thread=threading.get_ident())
        gathering.earlier = _earlier(original)
        gathering.note(
            "it was compiled already and is run as it is, for the backend that it was compiled for"
        )
        with dynamo.watching(gathering):
            seconds = _make_calls(function, calls, gathering)
        return gathering.report(_name(original), len(calls), seconds)

    def _run_compiled(self, function: Callable[..., Any], calls: Sequence[Call]) -> GuardReport:
        gathering = _gathering(thread=threading.get_ident(), only_own_backend=True)
        compiled: Any = torch.compile(
            _copy(function),
            backend=self._own_backend(),
            dynamic=self.dynamic,
            fullgraph=self.fullgraph,
        )
        with ExitStack() as stack:
            stack.enter_context(dynamo_state.fresh_profile())
            stack.callback(_leave_as_found, gathering)
            stack.enter_context(dynamo.watching(gathering))
            seconds = _make_calls(compiled, calls, gathering)
        if not (gathering.compilations or gathering.skips or gathering.failures):
            gathering.note(NOTHING_SEEN)
        return gathering.report(_name(function), len(calls), seconds)

    def _own_backend(self) -> Any:
        try:
            return dynamo_state.OneInspection(self.backend)
        except Exception as error:
            raise UsageError(
                "TP1034", f"{self.backend!r} is no backend of torch.compile: {error}".partition("\n")[0]
            ) from error


def _gathering(thread: int | None = None, only_own_backend: bool = False) -> Gathering:
    if not dynamo.is_observable():
        raise CompileError(
            "TP1033", f"torch {torch.__version__} compiles frames in a way that cannot be observed"
        )
    gathering = Gathering(thread=thread, only_own_backend=only_own_backend)
    for need in dynamo.not_observed():
        gathering.note(
            f"torch {torch.__version__} has no {need.module}.{need.attribute}: {need.used_for} may be missing"
        )
    return gathering


def _make_calls(function: Callable[..., Any], calls: Sequence[Call], gathering: Gathering) -> float:
    start = time.perf_counter()
    for number, call in enumerate(calls):
        gathering.call = number
        try:
            function(*call.args, **call.kwargs)
        except Exception as error:
            if not any(one.raw.is_fatal and one.call == number for one in gathering.compilations):
                gathering.failures.append(_failure(error, number))
    return time.perf_counter() - start


def _failure(error: Exception, call: int) -> Failure:
    file, _, line = (user_line(error) or "").rpartition(":")
    return Failure(
        error=type(error).__name__,
        message=str(error),
        place=Place(file=file, line=int(line)) if file else None,
        call=call,
    )


def _leave_as_found(gathering: Gathering) -> None:
    """Removes what the inspection left in functions that had nothing compiled before; the others keep all they have."""
    first = {one.raw.code: one.raw.is_first for one in reversed(gathering.compilations)}
    untouched = [code for code, is_first in first.items() if is_first]
    untouched += [raw.code for raw, _ in gathering.skips if not dynamo_state.has_entries(raw.code)]
    dynamo_state.forget(untouched)
    shared = [code for code, is_first in first.items() if not is_first]
    dynamo_state.run_again(shared)
    for code in shared:
        gathering.note(
            f"{code.co_qualname} was compiled before: what was compiled of it now stays beside that, and counts for "
            "the recompile limit"
        )


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with code of its own, of which nothing is compiled yet; a module or other object as it is."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        return types.MethodType(_copy(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType):
        return function
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


def _earlier(function: Any) -> list[Any]:
    code = getattr(_signed(function), "__code__", None)
    return dynamo_state.entries(code) if code is not None else []


def _signed(function: Any) -> Any:
    """What has the signature and the code of a callable."""
    if isinstance(function, torch.nn.Module):
        return function.forward
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)  # noqa: B004


def _name(function: Any) -> str:
    inner = dynamo_state.uncompiled(function) or function
    if isinstance(inner, torch.nn.Module):
        return type(inner).__qualname__
    return str(getattr(inner, "__qualname__", type(inner).__qualname__)).replace("<locals>.", "")


def _check_callable(function: Any) -> None:
    if not callable(function):
        raise UsageError("TP1030", f"{type(function).__name__} is no function or module: it cannot be called")


def _read_calls(calls: Iterable[Any]) -> list[Call]:
    if isinstance(calls, torch.Tensor | str | Mapping) or not isinstance(calls, Iterable):
        raise UsageError(
            "TP1032", f"calls are a list with the arguments of each call, not a {type(calls).__name__}"
        )
    made = [_read_call(one, number) for number, one in enumerate(calls)]
    if not made:
        raise UsageError("TP1032", "there is no call to make: the list of calls is empty")
    return made


def _read_call(one: Any, number: int) -> Call:
    if isinstance(one, Call):
        return one
    if isinstance(one, tuple | list):
        return Call(tuple(one))
    if isinstance(one, Mapping) and all(isinstance(name, str) for name in one):
        return Call(kwargs=one)
    raise UsageError("TP1032", f"call {number} is a {type(one).__name__}, not a tuple of arguments")


def _check_arguments(function: Any, call: Call) -> None:
    signed = _signed(dynamo_state.uncompiled(function) or function)
    try:
        signature = inspect.signature(signed)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*call.args, **call.kwargs)
    except TypeError as error:
        raise UsageError(
            "TP1031", f"{_name(function)}{signature} cannot be called so: {error}", where=definition(signed)
        ) from None
