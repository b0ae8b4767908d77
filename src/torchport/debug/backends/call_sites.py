"""Where in the user's code an operation is run right now, and as what it is written there."""

from __future__ import annotations

import ast
import linecache
import operator
import re
import sys
import textwrap
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

import torch

from torchport.capture import source
from torchport.debug.constraints.operation_names import full_names, packet_of
from torchport.debug.nodes import clean_path

_GENERATED = re.compile(r"<eval_with_key>|fx_generated|torchinductor_|compiled_autograd|_aot_autograd[/\\]")
"""In the names of files that graphs are turned into, and of AOTAutograd's code around them."""
_MACHINERY = re.compile(r"[/\\](torch[/\\](_dynamo|_ops|_compile|utils[/\\]_)|torchport[/\\]debug[/\\])")
"""Frames between an operation and whoever watches it."""
_FUNCTIONAL = re.compile(r"[/\\]torch[/\\]nn[/\\]functional\.py$")
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.MatMult: "matmul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
}


class CallSite:
    """The place in the user's code that runs an operation in this thread at present."""

    def __init__(self) -> None:
        frames = _frames(sys._getframe(1))
        self._frames = [one for one in frames if _MACHINERY.search(one.f_code.co_filename) is None]
        users = [index for index, frame in enumerate(self._frames) if _is_of_user(frame)]
        self._until_user = self._frames[: users[0] + 1] if users else self._frames
        user = self._frames[users[0]] if users else None
        self.source = f"{user.f_code.co_filename}:{user.f_lineno}" if user is not None else None
        """The user's line; None if no frame is the user's."""

    @property
    def is_of_graph(self) -> bool:
        """Whether the operation is run by code that a backend made of a graph."""
        return any(_GENERATED.search(frame.f_code.co_filename) for frame in self._until_user)

    def module(self) -> tuple[str, str]:
        """Path and class of the innermost module whose forward is being run, from the outermost such module."""
        running = [frame.f_locals.get("self") for frame in self._frames if _is_forward(frame)]
        modules = [one for one in running if isinstance(one, torch.nn.Module)]
        if not modules:
            return "", ""
        inner, kind = modules[0], type(modules[0])
        paths = (path for path, module in modules[-1].named_modules() if module is inner)
        return clean_path(next(paths, "")), f"{kind.__module__}.{kind.__qualname__}"

    def known_as(self, op: str) -> tuple[str, ...]:
        """The functions that are called for the operation `op`, by the names that graphs would have for them."""
        return tuple(dict.fromkeys(_names(self._until_user, op)))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_user(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    file = frame.f_code.co_filename
    if package in ("torch", "torchport") or file.startswith("<") or source.is_of_torch(file):
        return False
    return not source.is_of_python(file)


def _is_forward(frame: FrameType) -> bool:
    return frame.f_code.co_name == "forward" or frame.f_code.co_name.startswith(
        "torch_dynamo_resume_in_forward"
    )


def _names(frames: list[FrameType], op: str) -> Iterator[str]:
    for frame in frames:
        if _FUNCTIONAL.search(frame.f_code.co_filename):
            yield f"torch.nn.functional.{frame.f_code.co_name}"
        function = _called(frame)
        if callable(function):
            own = packet_of(op).removesuffix("_")
            yield from sorted(
                name for name in full_names(function) if packet_of(name).removesuffix("_") != own
            )


def _called(frame: FrameType) -> Any:
    """The function of torch or operator that a frame is calling at present, by the expression in its source."""
    expression = _expression(frame)
    if isinstance(expression, ast.Call):
        return _function(expression.func, frame)
    if isinstance(expression, ast.BinOp | ast.AugAssign):
        return getattr(operator, _OPERATORS.get(type(expression.op), ""), None)
    return None


def _expression(frame: FrameType) -> ast.AST | None:
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, line).encode() for line in range(first, last + 1)]
    if not lines[0]:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = textwrap.dedent(b"".join(lines).decode(errors="replace"))
    for form in (f"({text})", text):
        try:
            statement = ast.parse(form).body[0]
        except (SyntaxError, IndexError):
            continue
        return statement.value if isinstance(statement, ast.Expr) else statement
    return None


def _function(expression: ast.expr, frame: FrameType) -> Any:
    if isinstance(expression, ast.Name):
        found = frame.f_globals.get(expression.id, frame.f_locals.get(expression.id))
        return found if isinstance(found, ModuleType) or not isinstance(found, type) else None
    if not isinstance(expression, ast.Attribute):
        return None
    owner = _function(expression.value, frame)
    if isinstance(owner, ModuleType):
        return getattr(owner, expression.attr, None)
    return getattr(torch.Tensor, expression.attr, None)
