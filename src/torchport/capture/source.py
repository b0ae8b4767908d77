"""What the user's source says about a node: the line that it came from, and the variable that it is assigned to."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

_NOT_OF_THE_USER = ("torch/", "<eval_with_key>")
"""How the names of files begin that torch wrote, or that are its own."""
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_FORWARD = "forward"
_OWN = str(Path(__file__).parents[1])
_INSTALLED = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\](?P<package>[^/\\]+)")


@dataclass(frozen=True)
class Statement:
    """An assignment in the source: where it starts, and the names that it binds, in order."""

    file: str
    line: int
    targets: tuple[str, ...]


def frames(stack_trace: str | None) -> list[tuple[str, int]]:
    """File and line of every place that a node came through, the outermost first."""
    return [place for place, _ in _frames(stack_trace)]


def frames_of_forward(stack_trace: str | None) -> list[tuple[str, int]]:
    """File and line of every `forward` that a node came through, the outermost first."""
    return [place for place, function in _frames(stack_trace) if function in (None, _FORWARD)]


def _frames(stack_trace: str | None) -> list[tuple[tuple[str, int], str | None]]:
    """Every place that a node came through, with the function that it is in."""
    return [
        ((found["file"], int(found["line"])), found["function"])
        for found in _FRAME.finditer(stack_trace or "")
        if not found["file"].startswith(_NOT_OF_THE_USER)
    ]


def is_helper(file: str, forward: str) -> bool:
    """Whether a file that a `forward` calls into belongs to the user's model, as a helper of that forward does."""
    if file.startswith(("<", _OWN)) or is_of_python(file):
        return False
    found, own = _INSTALLED.match(file), _INSTALLED.match(forward)
    if found is None:
        return True
    return found["package"] != "torch" and own is not None and own["package"] == found["package"]


def is_of_torch(source: str | None) -> bool:
    """Whether a line is in torch itself, such as the line of nn.Sequential that calls the next layer."""
    return source is not None and re.search(r"[/\\]torch[/\\](nn|_\w+|ao|utils)[/\\]", source) is not None


def innermost_frame(stack_trace: str | None) -> tuple[str, int] | None:
    """The line of the operation itself, also if a helper of a `forward` has it."""
    found = frames(stack_trace)
    return found[-1] if found else None


def innermost_forward(stack_trace: str | None) -> tuple[str, int] | None:
    """The line of the innermost `forward`, which may call a helper that has the operation."""
    found = frames_of_forward(stack_trace)
    return found[-1] if found else None


def user_line(error: BaseException) -> str | None:
    """The deepest line of the user's code that an error passed through, or None if it passed through none.

    Lines of torch, torchport and Python's own library do not count.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        file = frame.f_code.co_filename
        if package not in ("torch", "torchport") and not file.startswith("<") and not is_of_python(file):
            found = f"{file}:{line}"
    return found


def modules_running(error: BaseException) -> Iterator[torch.nn.Module]:
    """The modules whose forward was running when an error was raised, the outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        value = frame.f_locals.get("self")
        if isinstance(value, torch.nn.Module):
            yield value


def is_of_python(file: str) -> bool:
    """Whether a file is of Python's own library."""
    return file.startswith(sysconfig.get_path("stdlib")) and "-packages" not in file


def function_at(source: str | None) -> str | None:
    """The function around a line such as `net.py:12`, as in `Attention.forward`; None if its file cannot be read."""
    file, _, line = (source or "").rpartition(":")
    if not file or not line.isdecimal():
        return None
    return ".".join(_scopes_around(parsed(file), int(line))) or None


def _scopes_around(node: ast.AST, line: int) -> list[str]:
    """The names of the classes and functions around a line, the outermost first."""
    for inner in ast.iter_child_nodes(node):
        if getattr(inner, "lineno", line + 1) <= line <= (getattr(inner, "end_lineno", None) or line):
            is_scope = isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            return [*([inner.name] if is_scope else []), *_scopes_around(inner, line)]  # type: ignore[attr-defined]
    return []


def definition(function: Any) -> str | None:
    """The line at which a function or class begins, or None if its source is not to be had."""
    return _definition_of_class(function) if isinstance(function, type) else _definition(function)


def _definition(function: Any) -> str | None:
    try:
        lines = inspect.getsourcelines(inspect.unwrap(function))
        return f"{inspect.getsourcefile(inspect.unwrap(function))}:{lines[1]}"
    except (OSError, TypeError):
        return None


_definition_of_class = lru_cache(maxsize=256)(_definition)
"""To find a class, inspect reads its whole file."""


def statement_at(file: str, line: int) -> Statement | None:
    """The assignment that covers a line, or None if the line assigns nothing to a name."""
    best: ast.stmt | None = None
    for statement in _assignments(file):
        end = statement.end_lineno or statement.lineno
        if statement.lineno <= line <= end and (best is None or statement.lineno >= best.lineno):
            best = statement
    if best is None:
        return None
    names = _target_names(best)
    return Statement(file, best.lineno, names) if names else None


@lru_cache(maxsize=64)
def parsed(file: str) -> ast.Module:
    """The syntax of a file; empty if it cannot be had."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@lru_cache(maxsize=64)
def _assignments(file: str) -> tuple[ast.stmt, ...]:
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    return tuple(node for node in ast.walk(parsed(file)) if isinstance(node, kinds))


def _target_names(statement: ast.stmt) -> tuple[str, ...]:
    if isinstance(statement, ast.Assign):
        if len(statement.targets) != 1:
            return ()
        target: ast.expr = statement.targets[0]
    else:
        target = statement.target  # type: ignore[attr-defined]
    items: Sequence[ast.expr] = target.elts if isinstance(target, ast.Tuple) else [target]
    if not all(isinstance(item, ast.Name) for item in items):
        return ()
    return tuple(item.id for item in items if isinstance(item, ast.Name))
