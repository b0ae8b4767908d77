"""A script that runs a graph of Dynamo's by itself, without torchport and without the model that it came from."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

InputsOf = Literal["random", "saved"]
_OF_TORCH = ("aten", "prims", "higher_order", "inductor", "quantized", "_c10d_functional")
MOST_NUMBERS = 4_096
"""The most whole numbers of an input that a script holds: random ones might be no indices, or no ids of tokens."""

_ABOUT_INPUTS = {
    "random": "Random numbers of the shapes, dtypes and strides that the graph was compiled for.",
    "saved": "What the graph was compiled for.",
}
_HEAD = '''"""{title}

{comment}
Run it with Python; it needs torch {version} and nothing else.
"""
'''
_MAIN = '''
def random(shape, stride, dtype, device):
    """A tensor of normal numbers with those strides, which may overlap."""
    reach = sum((size - 1) * step for size, step in zip(shape, stride)) + 1 if 0 not in shape else 0
    return torch.randn(reach).to(device, dtype).as_strided(shape, stride)


def run(backend=None):
    """The outputs and gradients of the graph: as eager torch computes them, or compiled."""
    torch.manual_seed(0)
    graph, given = Graph(), inputs()
    if backend is not None:
        torch._dynamo.reset()
        graph = torch.compile(graph, backend=backend)
    outputs = [one for one in torch.utils._pytree.tree_leaves(graph(*given)) if isinstance(one, torch.Tensor)]
    wanted = [one for one in outputs if one.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
    gradients = [one.grad for one in given if isinstance(one, torch.Tensor) and one.grad is not None]
    return [one.detach() for one in (*outputs, *gradients)]


if __name__ == "__main__":
    for eager, compiled in zip(run(), run("inductor"), strict=True):
        difference = (eager.double() - compiled.double()).abs().max().item() if eager.numel() else 0.0
        print(f"{list(eager.shape)} {eager.dtype}: differs by at most {difference:.3g}")
'''


@dataclass(frozen=True)
class Repro:
    script: str
    inputs: dict[str, Any] | None
    """What is to be saved beside the script with torch.save; None if the script makes its inputs."""


class NoScript(ValueError):
    """A graph cannot stand by itself; the message says why."""


def repro(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    title: str,
    comment: str = "",
    inputs_of: InputsOf = "random",
    inputs_file: str = "inputs.pt",
) -> Repro:
    """The script for a graph and the inputs that Dynamo had for it. Raises NoScript if there cannot be one."""
    _refuse_other_libraries(module)
    code = module.graph.python_code("self")
    saved: dict[str, Any] = {}
    constants = _constants(module, saved)
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    making = [_input(name, value, inputs_of, saved) for name, value in zip(names, inputs, strict=True)]
    loading = [f"SAVED = torch.load(Path(__file__).with_name({inputs_file!r}), weights_only=True)\n"]
    parts = [
        _HEAD.format(title=title, comment=f"{comment}\n" if comment else "", version=torch.__version__),
        *(["from pathlib import Path\n"] if saved else []),
        "import torch",
        *_imports(code.globals),
        "",
        *(loading if saved else []),
        "",
        "class Graph(torch.nn.Module):",
        *_initialiser(constants),
        *(f"    {line}" if line else "" for line in code.src.strip().splitlines()),
        "",
        "",
        "def inputs():",
        f'    """{_ABOUT_INPUTS[inputs_of]}"""',
        "    torch.manual_seed(0)",
        "    return [",
        *(f"        {line}," for line in making),
        "    ]",
        "",
        _MAIN,
    ]
    return Repro("\n".join(parts), saved or None)


def _refuse_other_libraries(module: torch.fx.GraphModule) -> None:
    for node in module.graph.nodes:
        namespace = getattr(node.target, "namespace", None)
        if node.op == "call_function" and isinstance(namespace, str) and namespace not in _OF_TORCH:
            raise NoScript(f"it calls {node.target}, which is not of torch")


def _constants(module: torch.fx.GraphModule, saved: dict[str, Any]) -> dict[str, str]:
    """What the graph reads of itself, each with the expression that makes it."""
    found: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op == "call_module":
            raise NoScript(f"it calls the module {node.target}, which is not written out")
        if node.op == "get_attr":
            name = str(node.target)
            value = operator.attrgetter(name)(module)
            if not isinstance(value, Tensor) or "." in name:
                raise NoScript(f"it holds {name}, a {type(value).__name__}, which cannot be written out")
            saved[f"self.{name}"] = value.detach()
            parameter = f"SAVED[{f'self.{name}'!r}]"
            found[name] = (
                f"torch.nn.Parameter({parameter})" if isinstance(value, torch.nn.Parameter) else parameter
            )
    return found


def _initialiser(constants: dict[str, str]) -> list[str]:
    if not constants:
        return []
    lines = ["    def __init__(self):", "        super().__init__()"]
    return [*lines, *(f"        self.{name} = {made}" for name, made in constants.items()), ""]


def _imports(used: dict[str, Any]) -> Iterator[str]:
    """The statements that give the code the names that it uses."""
    for name, value in sorted(used.items()):
        if name == "torch":
            continue
        if name in ("inf", "nan"):
            yield f"from math import {name}"
        elif value is type(None):
            yield f"{name} = type(None)"
        elif isinstance(value, str):
            yield f"{name} = {value!r}"
        elif hasattr(value, "__path__") or type(value).__name__ == "module":
            package = value.__name__
            yield f"import {package}" if package == name else f"import {package} as {name}"
        else:
            yield _import(name, value)


def _import(name: str, value: Any) -> str:
    module, attribute = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module is None or "." in attribute or "<" in attribute or module.startswith("__"):
        raise NoScript(f"it calls {name}, which no statement can import")
    if module.partition(".")[0] not in ("torch", "math", "operator", "_operator", "builtins", "functools"):
        raise NoScript(f"it calls {module}.{attribute}, which is not of torch")
    plain = {"_operator": "operator"}.get(module, module)
    return f"from {plain} import {attribute}" + ("" if attribute == name else f" as {name}")


def _input(name: str, value: Any, inputs_of: InputsOf, saved: dict[str, Any]) -> str:
    """The expression that makes an input of the graph."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return repr(value.node.hint)
    if isinstance(value, Tensor):
        made = _made(name, value, inputs_of, saved)
        return f"{made}.requires_grad_()" if value.requires_grad else made
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    raise NoScript(f"its input {name} is a {type(value).__name__}")


def _made(name: str, value: Tensor, inputs_of: InputsOf, saved: dict[str, Any]) -> str:
    has_values = type(value) in (Tensor, torch.nn.Parameter) and value.device.type != "meta"
    is_counted = not value.is_floating_point() and not value.is_complex()
    where = f"{value.dtype}, {str(value.device)!r}"
    if has_values and is_counted and inputs_of == "random" and value.numel() <= MOST_NUMBERS:
        return f"torch.tensor({value.tolist()}, dtype={value.dtype}, device={str(value.device)!r})"
    if has_values and (is_counted or inputs_of == "saved"):
        saved[name] = value.detach()
        return f"SAVED[{name!r}]"
    return f"random({[int(n) for n in value.shape]}, {[int(n) for n in value.stride()]}, {where})"
