"""A graph as the source of a readable nn.Module: one line an operation, with the user's line beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.debug.nodes import line_of
from torchport.errors import CompileError

_ALWAYS_THERE = {"torch", "inf", "nan", "NoneType", "device"}
_PREAMBLE = {
    "inf": 'inf = float("inf")',
    "nan": 'nan = float("nan")',
    "NoneType": "NoneType = type(None)",
    "device": "device = torch.device",
}


@dataclass
class ModuleText:
    """What a script needs to have the module again."""

    classes: list[str] = field(default_factory=list)
    """The source of each class, those of bodies of control flow first."""
    imports: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    """Lines that define names which the code uses, such as `inf`."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """Attributes of the module: `attribute("name")` stands for each in the source."""


def module_text(module: torch.fx.GraphModule, name: str = "Repro") -> ModuleText:
    text = ModuleText()
    _write(module, name, text)
    return text


def _write(module: torch.fx.GraphModule, name: str, text: ModuleText) -> None:
    lines = ["        super().__init__()"]
    renamed: dict[str, str] = {}
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for node in graph.nodes:
        if node.op not in ("get_attr", "call_module"):
            continue
        path = str(node.target)
        if path not in renamed:
            renamed[path] = re.sub(r"\W", "_", path)
            lines.append(f"        self.{renamed[path]} = {_held(module, path, name, text)}")
        node.target = renamed[path]
    source = _forward(graph, text)
    init = ["    def __init__(self):", *lines, ""] if renamed else []
    text.classes.append("\n".join([f"class {name}(torch.nn.Module):", *init, source]))


def _held(module: torch.fx.GraphModule, path: str, owner: str, text: ModuleText) -> str:
    """The expression that makes an attribute of the module."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.fx.GraphModule):
        name = owner + "".join(word.title() for word in re.split(r"\W|_", path))
        _write(value, name, text)
        return f"{name}()"
    if isinstance(value, Tensor):
        key = re.sub(r"\W", "_", path) if owner == "Repro" else re.sub(r"\W", "_", f"{owner}.{path}")
        text.tensors[key] = value
        if not isinstance(value, torch.nn.Parameter):
            return f'torch.nn.Buffer(attribute("{key}"))'
        return f'torch.nn.Parameter(attribute("{key}"), requires_grad={value.requires_grad})'
    if isinstance(value, torch.nn.Module) and type(value).__module__.startswith("torch.nn.modules"):
        return _module_of_torch(value, path, text)
    raise CompileError(
        "TP1044",
        f"{path} of the graph is a {type(value).__name__}, which cannot be written into a script",
        fix="Give the graph of ATen operations, in which there are only tensors.",
    )


def _module_of_torch(value: torch.nn.Module, path: str, text: ModuleText) -> str:
    """One of torch's own layers by its repr, with its weights loaded."""
    for key, tensor in value.state_dict().items():
        text.tensors[re.sub(r"\W", "_", f"{path}.{key}")] = tensor
    prefix = re.sub(r"\W", "_", path)
    state = ", ".join(f'"{key}": attribute("{prefix}_{key}")' for key in value.state_dict())
    return f"loaded(torch.nn.{value!r}, {{{state}}}, training={value.training})"


def _forward(graph: torch.fx.Graph, text: ModuleText) -> str:
    code = graph.python_code("self")
    lines = {node.name: line_of(node) for node in graph.nodes if node.op.startswith("call_")}
    source = [_readable(line, lines) for line in code.src.strip("\n").splitlines() if line.strip() != "pass"]
    body = "\n".join(f"    {line}".rstrip() for line in source if line.strip())
    for name, value in code.globals.items():
        if name in _PREAMBLE and re.search(rf"\b{name}\b", body):
            text.names.add(_PREAMBLE[name])
        elif name not in _ALWAYS_THERE and re.search(rf"\b{name}\b", body):
            text.imports.add(_import(name, value))
    return body


def _readable(line: str, places: dict[str, str | None]) -> str:
    """A line without what fx sets to None behind it, and with the place in the user's code."""
    line = re.sub(r";\s+\w+ = (?:\w+ = )*None\b.*$", "", line)
    name = line.strip().partition(" ")[0].partition(":")[0]
    place = places.get(name)
    return f"{line}  # {place}" if place and " = " in line else line


def _import(name: str, value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    target = getattr(value, "__qualname__", getattr(value, "__name__", name))
    if value is getattr(torch, "device", None):
        return "from torch import device"
    if type(value).__name__ == "module":
        return f"import {value.__name__} as {name}"
    return f"from {module} import {target} as {name}"
