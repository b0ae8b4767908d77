"""SPEC: how a model is named on a command line, `path/to/file.py:callable` or `package.module:callable`.

In: the text. Out: the model, its positional and its keyword arguments.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from torchport.errors import SpecError, TorchportError


class Subject(NamedTuple):
    """A model and the inputs that it is recorded with."""

    model: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]


def load_spec(spec: str) -> Subject:
    module_name, colon, name = spec.rpartition(":")
    if not colon or not module_name or not name:
        raise SpecError(
            "TP0101",
            f"{spec!r} is not a SPEC",
            fix="write path/to/file.py:callable or package.module:callable",
        )
    function = _callable(_module(module_name), name, spec)
    try:
        result = function()
    except TorchportError:
        raise
    except Exception as error:
        raise SpecError(
            "TP0104",
            f"{spec} raised {type(error).__name__}: {error}",
            where=_last_line(error),
            fix="call it yourself in Python until it returns (model, args) or (model, args, kwargs)",
        ) from error
    return _subject(result, spec)


def _module(name: str) -> ModuleType:
    path = Path(name)
    if name.endswith(".py"):
        if not path.is_file():
            raise SpecError("TP0102", f"there is no file {name}", fix="check the path before the colon")
        return load_file(path)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.split(".")[0] != error.name.split(".")[0]:
            raise _import_failed(name, error) from error
        raise SpecError(
            "TP0102",
            f"there is no module {name!r} on the Python path",
            fix="check the spelling, install the package, or give a file: path/to/file.py:callable",
        ) from error
    except Exception as error:
        raise _import_failed(name, error) from error


def load_file(path: Path) -> ModuleType:
    """Imports a Python file under its own name, with its folder on the path as Python itself would."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    definition = importlib.util.spec_from_file_location(path.stem, path)
    assert definition is not None and definition.loader is not None
    module = importlib.util.module_from_spec(definition)
    sys.modules.setdefault(path.stem, module)
    try:
        definition.loader.exec_module(module)
    except TorchportError:
        raise
    except Exception as error:
        raise _import_failed(str(path), error) from error
    return module


def _import_failed(name: str, error: Exception) -> SpecError:
    return SpecError(
        "TP0102",
        f"importing {name} failed: {type(error).__name__}: {error}",
        where=_last_line(error),
        fix="make the file importable; a missing package is installed with pip",
    )


def _callable(module: ModuleType, name: str, spec: str) -> Callable[[], Any]:
    found = getattr(module, name, None)
    if found is None or not callable(found):
        known = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise SpecError(
            "TP0103",
            f"{spec}: there is no callable {name!r} in {module.__name__}",
            fix=f"callables defined there: {', '.join(sorted(known)) or 'none'}",
        )
    return found


def _subject(result: Any, spec: str) -> Subject:
    ok = isinstance(result, tuple) and len(result) in (2, 3) and isinstance(result[0], torch.nn.Module)
    if not ok or not isinstance(result[1], tuple | list) or (len(result) == 3 and not isinstance(result[2], dict)):
        shape = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise SpecError(
            "TP0105",
            f"{spec} returned {shape}, not (model, args) or (model, args, kwargs)",
            fix="return an nn.Module, a tuple of positional inputs and, if needed, a dict of keyword inputs",
        )
    return Subject(result[0], tuple(result[1]), dict(result[2]) if len(result) == 3 else {})


def _last_line(error: BaseException) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
