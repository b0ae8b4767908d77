"""Loads the model that a SPEC names: `path/to/file.py:callable` or `package.module:callable`.

In: the text. Out: the model, its positional and its keyword arguments.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from torchport.capture.eager import as_arguments
from torchport.capture.fields import is_number
from torchport.capture.origin import Origin, constructors_noted, remember
from torchport.capture.source import definition, user_line
from torchport.errors import CaptureError, SpecError, TorchportError

SCRIPT_FAILED = "TP0206"


class Subject(NamedTuple):
    """A model and the inputs that it is recorded with."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_spec(spec: str) -> Subject:
    function = load_callable(spec)
    errors = _users_errors(spec, "call it yourself in Python until it returns (model, args)")
    with errors, constructors_noted() as noted:
        result = function()
    subject = _subject(result, spec, definition(function))
    takes_sizes = any(is_number(p.default) for p in _parameters(function))
    arguments = noted.get(id(subject.model))
    remember(subject.model, Origin(function if takes_sizes else None, arguments))
    return subject


def load_callable(spec: str) -> Callable[[], Any]:
    """What a SPEC names: something that can be called without arguments."""
    found = load_named(spec)
    if needed := _required(found):
        raise SpecError(
            "TP0105",
            f"{spec} takes {', '.join(needed)}, and a SPEC's callable takes no arguments",
            where=definition(found),
            fix=f"name a function that calls {spec.rpartition(':')[2]} and returns (model, args)",
        )
    return found


def load_named(spec: str) -> Callable[..., Any]:
    """What a SPEC names: something that can be called, with whatever arguments."""
    module_name, colon, name = spec.rpartition(":")
    if not colon or not module_name or not name.isidentifier():
        raise SpecError(
            "TP0101",
            f"{spec!r} is not a SPEC",
            fix="write path/to/file.py:callable or package.module:callable",
        )
    return _callable(_module(module_name), name, spec)


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise SpecError("TP0102", f"there is no file {name}", fix="check the path before the colon")
        return load_file(path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise SpecError(
            "TP0102",
            f"{name} is neither a Python file nor the name of a module",
            fix="the part before the colon ends in .py, or is a module such as package.module",
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with _users_errors(name, "make the module importable; a missing package is installed with pip"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{name}.".startswith(f"{error.name}."):
                raise
            raise SpecError(
                "TP0102",
                f"there is no module {name!r} on the Python path",
                fix="check the spelling, install the package, or give a file: path/to/file.py:callable",
            ) from error


def load_file(path: Path) -> ModuleType:
    """Imports a Python file under its own name, with its folder on the path, as Python itself does for a script."""
    place = path.resolve()
    with _on_path(place.parent, for_good=True):
        definition_ = importlib.util.spec_from_file_location(_free_name(place), place)
        assert definition_ is not None and definition_.loader is not None
        module = importlib.util.module_from_spec(definition_)
        sys.modules[module.__name__] = module
        try:
            with _users_errors(
                str(path), "make the file importable; a missing package is installed with pip"
            ):
                definition_.loader.exec_module(module)
        except BaseException:
            del sys.modules[module.__name__]
            raise
    return module


def _free_name(path: Path) -> str:
    """The file's name, unless a module from somewhere else has it already."""
    other = sys.modules.get(path.stem)
    taken = other is not None or path.stem in sys.stdlib_module_names
    if not taken or getattr(other, "__file__", None) == str(path):
        return path.stem
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def must_be_script(path: Path) -> None:
    """Refuses what cannot be run as a script; nothing of it is run."""
    if not path.is_file():
        raise SpecError("TP0102", f"there is no file {path}", fix="check the path of the script")
    with _users_errors(str(path), f"run `python {path}` until it begins", CaptureError, SCRIPT_FAILED):
        compile(path.read_bytes(), str(path), "exec")


def run_script(path: Path, arguments: Sequence[str] = ()) -> None:
    """Runs a Python file as `python FILE ARGUMENTS…` would; the cause of an error is what the script raised."""
    must_be_script(path)
    before, sys.argv = sys.argv, [str(path), *arguments]
    fix = f"run `python {path}` until it ends well"
    try:
        with _on_path(path.resolve().parent), _users_errors(str(path), fix, CaptureError, SCRIPT_FAILED):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise CaptureError(
                SCRIPT_FAILED, f"{path} ended with {end.code}", where=str(path), fix=fix
            ) from end
    finally:
        sys.argv = before


@contextmanager
def _on_path(folder: Path, for_good: bool = False) -> Iterator[None]:
    """Within, Python files in the folder can be imported; `for_good` if a model's code may import some when it runs."""
    added = str(folder) not in sys.path
    if added:
        sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if added and not for_good:
            sys.path.remove(str(folder))


@contextmanager
def _users_errors(
    subject: str, fix: str, kind: type[TorchportError] = SpecError, code: str = "TP0104"
) -> Iterator[None]:
    """Within, whatever the user's own code raises becomes an error with a code and the user's line."""
    try:
        yield
    except TorchportError:
        raise
    except SystemExit as error:
        if kind is not SpecError:
            raise
        raise kind(code, f"{subject} ends Python by sys.exit", where=user_line(error), fix=fix) from error
    except Exception as error:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise kind(
            code, f"{subject} raised {type(error).__name__}: {message}", where=user_line(error), fix=fix
        ) from error


def _callable(module: ModuleType, name: str, spec: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None or not callable(found):
        known = [
            n
            for n, v in vars(module).items()
            if callable(v) and getattr(v, "__module__", "") == module.__name__
        ]
        raise SpecError(
            "TP0103",
            f"{spec}: there is no callable {name!r} in {module.__name__}",
            where=getattr(module, "__file__", None),
            fix=f"callables defined there: {', '.join(sorted(known)) or 'none'}",
        )
    return found


def _required(function: Callable[..., Any]) -> list[str]:
    """The parameters that a function cannot be called without."""
    return [
        p.name
        for p in _parameters(function)
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _subject(result: Any, spec: str, where: str | None) -> Subject:
    wrong = _unlike_a_subject(result)
    if wrong is not None:
        raise SpecError(
            "TP0105",
            f"{spec} returned {wrong}, not (model, args) or (model, args, kwargs)",
            where=where,
            fix="return an nn.Module, a tensor or a tuple of positional inputs and, if needed, a dict of keyword "
            "inputs",
        )
    model, args, *rest = result
    return Subject(model, as_arguments(args), dict(rest[0]) if rest else {})


def _unlike_a_subject(result: Any) -> str | None:
    """What a SPEC's callable returned, in words, if that is not a model and its inputs."""
    if not isinstance(result, tuple):
        return "a model alone" if isinstance(result, torch.nn.Module) else type(result).__name__
    kinds = f"({', '.join(type(item).__name__ for item in result)})"
    if len(result) not in (2, 3) or not isinstance(result[0], torch.nn.Module):
        return kinds
    if not isinstance(result[1], tuple | list | torch.Tensor) or (
        len(result) == 3 and not isinstance(result[2], dict)
    ):
        return kinds
    if len(result) == 3 and not all(isinstance(key, str) for key in result[2]):
        return f"{kinds} with keyword inputs whose names are not strings"
    return None
