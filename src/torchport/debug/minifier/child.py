"""Runs something in a process of its own, so that a crash ends that process alone, and a hang can be ended."""

from __future__ import annotations

import faulthandler
import os
import pickle
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, NoReturn, TypeVar

import torch

T = TypeVar("T")
_LONGEST_PROBE = 30.0
"""Seconds that a copy of this process has to show that it can go backward."""


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How it ended: with a value, with an exception, by dying (`status`, negative for a signal), or not in time."""

    value: T | None = None
    raised: str | None = None
    """The traceback of an exception of the function itself."""
    status: int | None = None
    printed: str = ""
    is_late: bool = False


def can_fork(inputs: Sequence[Any] = ()) -> bool:
    """Whether a copy of this process can run a graph with these inputs.

    It cannot once CUDA was in use, or only asked for its devices. Nor can it go backward once this process has:
    autograd's threads do not come along.
    """
    if not hasattr(os, "fork") or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    needed = [_reaches_cuda] if torch.cuda.is_available() else []
    if any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
        needed.append(_goes_backward)
    return all(in_child(probe, limit=_LONGEST_PROBE).value is True for probe in needed)


def _reaches_cuda() -> bool:
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return True


def _goes_backward() -> bool:
    torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    return True


def in_child(function: Callable[[], T], limit: float) -> Ended[T]:
    """What a function gives in a copy of this process, which is ended after `limit` seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            os.close(reading)
            _work(function, writing, printed)
        os.close(writing)
        answer = None
        try:
            answer = _read(reading, time.monotonic() + limit)
        finally:  # Ctrl-C does not reach a process with a session of its own.
            if answer is None:
                _kill(child)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        text = printed.read().decode(errors="replace")[-4000:]
    if answer is None:
        return Ended(is_late=True, printed=text)
    if not answer:
        return Ended(status=status, printed=text)
    ended: Ended[T] = pickle.loads(answer)
    return ended


def _kill(child: int) -> None:
    """Ends a child with all that it has started; one that has no session of its own yet has started nothing."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def _work(function: Callable[[], T], writing: int, printed: BinaryIO) -> NoReturn:
    """In the child: runs the function, sends what it gives, and leaves without any cleaning up of the parent's."""
    os.setsid()
    faulthandler.disable()  # It would write to where the parent prints.
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    # The threads of OpenMP did not come along, and would be waited for.
    torch.set_num_threads(1)
    try:
        ended: Ended[T] = Ended(value=function())
    except BaseException:
        ended = Ended(raised=traceback.format_exc())
    with os.fdopen(writing, "wb") as answer:
        answer.write(pickle.dumps(ended))
    os._exit(0)


def _read(reading: int, until: float) -> bytes | None:
    """All that the child sends, or None if it has not ended by then."""
    found = b""
    with os.fdopen(reading, "rb", buffering=0) as answer, selectors.DefaultSelector() as waiting:
        waiting.register(answer, selectors.EVENT_READ)
        while waiting.select(max(0.0, until - time.monotonic())):
            part = answer.read(1 << 16)
            if not part:
                return found
            found += part
    return None
