"""A graph as Python source that stands by itself: its classes, what they import, its tensors as text or in a file."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from torchport.debug.facts import Sizes, TensorFacts, facts_of, number_of
from torchport.debug.internals.compiling import is_fake, real_tensors
from torchport.debug.nodes import copy_of, line_of
from torchport.errors import CompileError
from torchport.explain.literals import plain_text, tensor_text

Kept = Literal["all", "known", "whole numbers", "small"]
"""All, or else there is no script; all that are no fake tensors; of these only whole numbers, which may be indices; of
these only those that have room in the text."""
_OF_TORCH = ("aten", "prims", "higher_order", "inductor", "quantized", "_c10d_functional")
_PACKAGES = ("torch", "math", "operator", "_operator", "builtins", "functools")
"""What every Python with torch can import."""
TENSOR = '''
def tensor(shape, stride, dtype, device):
    """A tensor with those strides, which may overlap: of random numbers, or of zeros if it has no fractions."""
    size = 1 + sum((length - 1) * step for length, step in zip(shape, stride)) if 0 not in shape else 0
    fractions = dtype.is_floating_point or dtype.is_complex
    values = torch.randn(size).to(device, dtype) if fractions else torch.zeros(size, dtype=dtype, device=device)
    return values.as_strided(shape, stride)
'''
"""The function that scripts call for tensors whose values do not matter."""
_LOADED = """
def loaded(module, state, training):
    module.load_state_dict(state)
    return module.train(training)

"""


class NoScript(CompileError):
    """A graph cannot stand by itself; the message says why."""


def refuse(reason: str) -> NoReturn:
    fix = "Give the graph of ATen operations, in which there are only tensors."
    raise NoScript("TP1044", reason, fix=fix)


@dataclass
class Values:
    """How the tensors of a script are written. Those that are to be in a file are gathered in `saved`."""

    inline: int
    """The most numbers of a tensor that stand in the text."""
    kept: Kept = "all"
    """Which tensors have their values; the script has others for the rest. Those kept that are too large for the text
    are in a file, which the script has read as `TENSORS`."""
    sizes: Sizes = field(default_factory=dict)
    """The values of free sizes, in place of the example's."""
    saved: dict[str, Tensor] = field(default_factory=dict)

    def text(self, name: str, value: Any) -> str:
        """The expression for a tensor or number; `name` is what a file has it under."""
        if isinstance(value, Tensor):
            return self.tensor(name, value) + (".requires_grad_()" if value.requires_grad else "")
        if isinstance(value, torch.SymInt):
            return repr(number_of(value, self.sizes))
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return self.text(name, value.node.hint)
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or isinstance(value, bool | int | float | str | complex):
            return repr(value)
        refuse(f"its input {name} is a {type(value).__name__}")

    def tensor(self, name: str, value: Tensor) -> str:
        if value.layout is not torch.strided or value.is_quantized:
            refuse(f"its tensor {name} is neither dense nor of plain numbers")
        facts = facts_of(value, self.sizes)
        is_inline = _reach(facts) <= self.inline
        if not self._is_kept(value, is_inline):
            return f"tensor({facts.shape}, {facts.stride}, {facts.dtype}, {facts.device!r})"
        with real_tensors():
            text = self._values(name, value, facts, is_inline)
        if facts.device != "cpu":
            text += f".to({facts.device!r})"
        return text if value.is_contiguous() else f"{text}.as_strided({facts.shape}, {facts.stride})"

    def _values(self, name: str, value: Tensor, facts: TensorFacts, is_inline: bool) -> str:
        flat = value.detach().cpu() if value.is_contiguous() else _memory(value, facts)
        text = plain_text(flat) if flat.numel() and not _is_float8(flat) else None
        if text is None and is_inline:
            text = tensor_text(flat)
        if text is None:
            self.saved[name] = flat.contiguous()
            text = f"TENSORS[{name!r}].clone()"
        return text

    def _is_kept(self, value: Tensor, is_inline: bool) -> bool:
        is_known = type(value) in (Tensor, torch.nn.Parameter) and not is_fake(value)
        if self.kept == "all" and not is_known:
            refuse(f"a tensor of it is a {type(value).__name__}, whose values cannot be written")
        is_fraction = value.is_floating_point() or value.is_complex()
        wanted = {"small": is_inline, "whole numbers": not is_fraction}
        return is_known and wanted.get(self.kept, True)


def _is_float8(tensor: Tensor) -> bool:
    """Whether torch can hardly compute with a tensor."""
    return tensor.is_floating_point() and tensor.element_size() == 1


def _memory(value: Tensor, facts: TensorFacts) -> Tensor:
    """The memory of a tensor, from its first element to its last."""
    return value.detach().as_strided((_reach(facts),), (1,), value.storage_offset()).cpu()


def _reach(facts: TensorFacts) -> int:
    """How many numbers there are in memory from the first element of a tensor to its last."""
    if 0 in facts.shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(facts.shape, facts.stride))


@dataclass
class GraphText:
    """Writes a graph as classes. `source` has them all, `imports` the lines that they need before."""

    values: Values
    others: bool = False
    """Whether the script may import what is not torch's, and have layers of torch.nn."""
    functions: Mapping[Any, str] = field(default_factory=dict)
    """Functions that the script has under a name of its own."""
    classes: list[str] = field(default_factory=list)
    """The source of each class, those of bodies of control flow first."""
    imports: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        has_layers = any("loaded(" in text for text in self.classes)
        return (_LOADED if has_layers else "") + "\n\n\n".join(self.classes) + "\n"

    def add(self, module: torch.fx.GraphModule, name: str) -> None:
        """Adds the class of a graph. NoScript if it cannot be written."""
        lines = []
        renamed: dict[str, str] = {}
        graph = copy_of(module).graph
        for node in graph.nodes:
            self._refuse_other_library(node)
            if node.op not in ("get_attr", "call_module"):
                continue
            path = str(node.target)
            if path not in renamed:
                renamed[path] = _word(path)
                lines.append(f"        self.{renamed[path]} = {self._held(module, path, name)}")
            node.target = renamed[path]
        source = self._forward(graph)
        init = ["    def __init__(self):", "        super().__init__()", *lines, ""] if lines else []
        self.classes.append("\n".join([f"class {name}(torch.nn.Module):", *init, source]))

    def _refuse_other_library(self, node: torch.fx.Node) -> None:
        namespace = getattr(node.target, "namespace", None)
        if self.others or node.op != "call_function" or not isinstance(namespace, str):
            return
        if namespace not in _OF_TORCH:
            refuse(f"it calls {node.target}, which is not of torch")

    def _held(self, module: torch.fx.GraphModule, path: str, owner: str) -> str:
        """The expression that makes what a graph holds under a path."""
        value: Any = reduce(getattr, path.split("."), module)
        if isinstance(value, torch.fx.GraphModule):
            name = owner + "".join(word.title() for word in re.split(r"\W|_", path))
            self.add(value, name)
            return f"{name}()"
        if isinstance(value, Tensor):
            made = self.values.tensor(f"{owner}.{path}", value)
            if isinstance(value, torch.nn.Parameter):
                return f"torch.nn.Parameter({made}, requires_grad={value.requires_grad})"
            return f"torch.nn.Buffer({made})"
        if not isinstance(value, torch.nn.Module):
            refuse(f"it holds {path}, a {type(value).__name__}, which cannot be written out")
        if not self.others or not type(value).__module__.startswith("torch.nn.modules"):
            refuse(f"it calls the module {path}, a {type(value).__name__}, which is not written out")
        held = value.state_dict().items()
        state = ", ".join(f"{key!r}: {self.values.text(f'{owner}.{path}.{key}', one)}" for key, one in held)
        return f"loaded(torch.nn.{value!r}, {{{state}}}, training={value.training})"

    def _forward(self, graph: torch.fx.Graph) -> str:
        code = graph.python_code("self")
        places = {node.name: line_of(node) for node in graph.nodes if node.op.startswith("call_")}
        lines = [
            _readable(line, places) for line in code.src.splitlines() if line.strip() not in ("", "pass")
        ]
        body = "\n".join(f"    {line}".rstrip() for line in lines)
        for name, value in code.globals.items():
            if not re.search(rf"\b{name}\b", body):
                continue
            own = next((own for function, own in self.functions.items() if function is value), None)
            if own is not None:
                body = re.sub(rf"\b{name}\b", own, body)
            elif name != "torch":
                self.imports.add(self._import(name, value))
        return body

    def _import(self, name: str, value: Any) -> str:
        """The statement that gives the code a name which it uses."""
        if name in ("inf", "nan"):
            return f"from math import {name}"
        if value is type(None):
            return f"{name} = type(None)"
        if isinstance(value, str):
            return f"{name} = {value!r}"
        if isinstance(value, types.ModuleType):
            self._refuse_package(value.__name__, value.__name__)
            return f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
        module, attribute = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if module is None or not attribute.isidentifier() or module.startswith("__"):
            refuse(f"it calls {name}, which no statement can import")
        self._refuse_package(module, f"{module}.{attribute}")
        plain = {"_operator": "operator"}.get(module, module)
        return f"from {plain} import {attribute}" + ("" if attribute == name else f" as {name}")

    def _refuse_package(self, module: str, name: str) -> None:
        if not self.others and module.partition(".")[0] not in _PACKAGES:
            refuse(f"it calls {name}, which is not of torch")


def inputs_source(names: Sequence[str], inputs: Sequence[Any], values: Values, about: str = "") -> str:
    """The source of `inputs()`, which makes what a graph is given."""
    docstring = [f'    """{about}"""'] if about else []
    made = [
        f"        {values.text(name, value)},  # {name}" for name, value in zip(names, inputs, strict=True)
    ]
    return "\n".join(["", "def inputs():", *docstring, "    return [", *made, "    ]", "", ""])


def _word(path: str) -> str:
    return re.sub(r"\W", "_", path)


def _readable(line: str, places: Mapping[str, str | None]) -> str:
    """A line without what fx sets to None behind it, and with the place in the user's code."""
    line = re.sub(r";\s+\w+ = (?:\w+ = )*None\b.*$", "", line)
    name = line.strip().partition(" ")[0].partition(":")[0]
    place = places.get(name)
    return f"{line}  # {place}" if place and " = " in line else line
