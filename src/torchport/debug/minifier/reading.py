"""Reads a script that torchport has written back as a graph, so that a run can keep a failure and minify it later."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchport.debug.constraints.base import Constraint
from torchport.debug.minifier.conditions import PlainConstraint
from torchport.debug.minifier.script import NEEDED
from torchport.errors import CompileError


@dataclass(frozen=True)
class ReadScript:
    """What a script holds. Reading runs it, as importing any Python file does, but not its check."""

    module: torch.fx.GraphModule
    inputs: list[Any]
    kind: str
    backend: Any
    """A name or a function; None for a constraint."""
    through_dynamo: bool
    constraint: Constraint | None
    setup: tuple[str, ...]
    """The lines that its own graph needs."""


def read_script(path: Path) -> ReadScript:
    """The graph of a script and how it fails. CompileError if it is no script of torchport's."""
    try:
        text = path.read_text()
        held = runpy.run_path(str(path), run_name="torchport_script")
        module = _traced(held["Repro"]())
        inputs = held["inputs"]()
        kind = held["KIND"]
    except Exception as error:
        raise CompileError(
            "TP1048", f"{path.name} cannot be read: {type(error).__name__}: {error}", where=str(path)
        ) from error
    return ReadScript(
        module,
        inputs,
        kind,
        held.get("BACKEND"),
        "torch.compile(" in text,
        _constraint(held["violates"], text) if "violates" in held else None,
        tuple(_setup(text)),
    )


def _setup(text: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    if NEEDED in lines:
        for line in lines:
            if not line:
                return
            yield line


def _constraint(violates: Any, text: str) -> PlainConstraint:
    """The constraint that the function `violates` of a script stands for."""
    name, _, message = str(violates.__doc__).partition(": ")
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    (function,) = (node for node in functions if node.name == "violates")
    returned = function.body[-1]
    assert isinstance(returned, ast.Return) and returned.value is not None
    return PlainConstraint(name, message, ast.unparse(returned.value))


def _traced(module: torch.nn.Module) -> torch.fx.GraphModule:
    """The graph of a module; those of bodies of control flow stay attributes."""
    for name, child in list(module.named_children()):
        if not type(child).__module__.startswith("torch.nn"):
            setattr(module, name, _traced(child))
    return torch.fx.GraphModule(module, _Tracer().trace(module))


class _Tracer(torch.fx.Tracer):
    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if isinstance(attr_val, torch.fx.GraphModule):
            return self.create_proxy("get_attr", self.path_of_module(attr_val), (), {})
        return super().getattr(attr, attr_val, parameter_proxy_cache)
