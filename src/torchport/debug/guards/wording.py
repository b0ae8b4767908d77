"""Dynamo's own words, taken apart: reasons of breaks, guards that failed, and the lines that they name."""

from __future__ import annotations

import linecache
import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from torchport.capture.source import frames
from torchport.debug.guards.model import FailedGuard, Guard, Place, Reason
from torchport.debug.internals.dynamo_records import RawFailedGuard, RawFrame

_TORCH = str(Path(torch.__file__).parent)
_PYTHON = sysconfig.get_path("stdlib")
_AFTER = re.compile(r"\*\*\* While handling this graph break, another graph break occurred: \*\*\*\s*")
_PART = re.compile(r"^  (Explanation|Hint|Developer debug context): ", re.MULTILINE)
_LINK = re.compile(r"\n\n For more details about this graph break.*", re.DOTALL)
_FAILED = re.compile(r"^(?P<id>[^:\s]+): (?P<rest>.*)$", re.DOTALL)
_COMMENT = re.compile(r"\s{2,}# .*$", re.DOTALL)
_SCOPE = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_RESUME_NAME = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
_USER_STACK = "\nUser stack trace:\n"


def is_of_user(file: str) -> bool:
    """Whether a file is neither torch's nor Python's own. What is typed in, such as `<stdin>`, is the user's."""
    is_of_python = file.startswith(_PYTHON) and "-packages" not in file
    return not file.startswith((_TORCH, "<eval_with_key>", "<frozen ")) and not is_of_python


def place(frame: RawFrame) -> Place:
    return Place(
        file=frame.file,
        line=frame.line,
        function=frame.function,
        code=linecache.getline(frame.file, frame.line).strip(),
        column=frame.column,
    )


def users_frame(stack: Sequence[RawFrame]) -> RawFrame | None:
    """The deepest line of the user's in a stack; the deepest of all if none is the user's."""
    own = [frame for frame in stack if is_of_user(frame.file)]
    lines = own or stack
    return lines[-1] if lines else None


def users_lines(traces: Iterable[str]) -> tuple[str, ...]:
    """The user's lines that operations come from, in order of file and line."""
    found = set()
    for trace in traces:
        stack = [RawFrame(file, line, "", None) for file, line in frames(trace)]
        line = users_frame(stack)
        if line is not None:
            found.add((line.file, line.line))
    return tuple(f"{file}:{line}" for file, line in sorted(found))


def read_reason(text: str) -> Reason:
    first, *later = _AFTER.split(text)
    title, _, rest = first.strip().partition("\n")
    parts = _PART.split(_LINK.sub("", "\n" + rest))
    named = [(kind, _one_line(body)) for kind, body in zip(parts[1::2], parts[2::2])]
    return Reason(
        title=title.strip(),
        explanation=next((body for kind, body in named if kind == "Explanation"), _one_line(parts[0])),
        hints=tuple(body for kind, body in named if kind == "Hint" and body),
        context=next((body for kind, body in named if kind == "Developer debug context"), ""),
        then=later[-1].partition("\n")[0].strip() if later else "",
    )


def _one_line(text: str) -> str:
    return _RESUME_NAME.sub(r"\1", " ".join(text.split()))


def words_of(raw: RawFailedGuard) -> str:
    """What Dynamo says of a guard that failed, without the id of the compilation before it."""
    found = _FAILED.match(raw.text)
    return found["rest"] if found else raw.text


def read_failed_guard(raw: RawFailedGuard) -> FailedGuard:
    """Such as `0/0: n == 2   # return x * n  # file.py:3 in f`, with the user's stack below if Dynamo knows it."""
    found = _FAILED.match(raw.text)
    words, _, stack = words_of(raw).partition(_USER_STACK)
    deepest = users_frame([RawFrame(file, line, "", None) for file, line in frames(stack)])
    return FailedGuard(
        graph=found["id"] if found else "",
        reason=_COMMENT.sub("", words).strip(),
        cause=place(deepest) if deepest else None,
    )


def is_failure_of(reason: str, guard: Guard) -> bool:
    """Whether a reason for recompiling is that this guard failed. Dynamo writes x there for L['x']."""
    if guard.kind == "TENSOR_MATCH":
        return reason.startswith(f"tensor '{_without_scope(guard.source)}' ")
    return reason in map(_without_scope, guard.code)


def _without_scope(code: str) -> str:
    return _SCOPE.sub(r"\1", code)


def short_skip_reason(text: str) -> str:
    """Why a frame is skipped, without the name of the frame."""
    return (
        text.partition("\nFrame info:")[0]
        .removeprefix("Dynamo decided to skip the frame while tracing: ")
        .strip()
    )


def find_place(short: str, known_files: Iterable[str]) -> Place | None:
    """The line that Dynamo names with the beginning of its file cut off, if one known file only can be meant."""
    end, _, line = short.rpartition(":")
    meant = {file for file in known_files if end and file.endswith(end) and is_of_user(file)}
    return place(RawFrame(meant.pop(), int(line), "", None)) if len(meant) == 1 else None
