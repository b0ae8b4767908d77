"""Reads a script that holds a graph and its inputs, so that a run can keep a failure and have it minified later."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchport.debug.constraints.base import Constraint
from torchport.debug.minifier.captured import graphs_of
from torchport.debug.minifier.conditions import PlainConstraint
from torchport.debug.minifier.script import NEEDED
from torchport.errors import CompileError


@dataclass(frozen=True)
class ReadScript:
    """What a script holds. Reading runs it, as importing any Python file does, but not its check."""

    module: torch.fx.GraphModule
    inputs: list[Any]
    kind: str | None
    """How the graph fails; None for a script that only runs it."""
    backend: Any
    """A name or a function; None if the script names none."""
    through_dynamo: bool
    constraint: Constraint | None
    setup: tuple[str, ...]
    """The lines that its own graph needs."""


def read_script(path: Path) -> ReadScript:
    """The graph of a script and how it fails. CompileError if it is no script of torchport's."""
    try:
        text = path.read_text()
        held = runpy.run_path(str(path), run_name="torchport_script")
        made = held.get("Repro", held.get("Graph"))
        if made is None or "inputs" not in held:
            raise ValueError("it has no graph with inputs")
        module, inputs = _graph(made(), held["inputs"]())
    except Exception as error:
        raise CompileError(
            "TP1048", f"{path.name} cannot be read: {type(error).__name__}: {error}", where=str(path)
        ) from error
    return ReadScript(
        module,
        inputs,
        held.get("KIND"),
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


def _graph(module: torch.nn.Module, inputs: list[Any]) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The operations of a module as they stand there; control flow, which fx cannot trace, by way of Dynamo."""
    if not any(type(child).__module__ == type(module).__module__ for child in module.children()):
        return torch.fx.symbolic_trace(module), inputs
    (case,) = graphs_of(module, inputs, {})
    return case.module, list(case.inputs)
