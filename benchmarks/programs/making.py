"""Programs by a seed, and each of them as a port: made, or refused with a code."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks.programs.strategy import Program, programs
from torchport.errors import TorchportError
from torchport.porting.commands import port as make_port
from torchport.porting.port import Port

_AT_ONCE = 3
"""Hypothesis varies what it made; so that programs differ more, it begins anew after as many."""


def made_by(number: int, count: int) -> list[Program]:
    """Different programs, the same for the same seed."""
    found: dict[str, Program] = {}
    start = 0
    while len(found) < count:
        _generate(f"{number} {start}", _AT_ONCE, lambda program: found.setdefault(program.source, program))
        start += 1
    return list(found.values())[:count]


def _generate(name: str, count: int, keep: Callable[[Program], Any]) -> None:
    @seed(name)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def generate(program: Program) -> None:
        keep(program)

    generate()


@dataclass(frozen=True)
class Refusal:
    """Why a program was not ported."""

    code: str
    message: str


def written(program: Program, name: str, folder: Path) -> Path:
    """The program as a script."""
    script = folder / f"{name}.py"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(program.source, encoding="utf-8")
    return script


def loaded(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    return module


def ported(program: Program, name: str, folder: Path, **options: Any) -> Port | Refusal:
    """The port of a program. Whatever has no code goes on to the caller, for it is a fault."""
    module = loaded(written(program, name, folder / "scripts"))
    model, inputs = module.case()
    try:
        return make_port(
            model, inputs, out=folder / "ports" / name, name=name, dynamic=program.dynamic, **options
        )
    except TorchportError as error:
        return Refusal(error.code, str(error))
