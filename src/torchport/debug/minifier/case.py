"""A graph with the inputs that it is run on, and copies of both that a run may write to."""

from __future__ import annotations

import copy
import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import pytree
from torchport.debug.internals.compiling import is_fake
from torchport.debug.nodes import copy_of
from torchport.errors import UsageError
from torchport.trace.reading import as_bytes


@dataclass(frozen=True)
class GraphCase:
    """Nothing in it is written to: whoever runs it takes `fresh_inputs`."""

    module: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    """Tensors, numbers, None; one for each placeholder."""

    @property
    def placeholders(self) -> list[torch.fx.Node]:
        return [node for node in self.module.graph.nodes if node.op == "placeholder"]

    @property
    def operations(self) -> list[torch.fx.Node]:
        return operations_of(self.module.graph)

    @property
    def names(self) -> list[str]:
        """What the inputs are called."""
        return [node.name for node in self.placeholders]

    @property
    def writes(self) -> bool:
        """Whether an operation may write to what it is given."""
        return any(map(_writes, self.module.graph.nodes))

    @property
    def elements(self) -> int:
        """How many numbers the inputs have together."""
        return sum(value.numel() for value in self.inputs if isinstance(value, Tensor))

    def fresh_inputs(self) -> list[Any]:
        return [copied(value) for value in self.inputs]

    def fresh_module(self) -> torch.fx.GraphModule:
        """The graph with tensors of its own, so that a run changes no buffer and no gradient of this one."""
        names = {
            str(node.target) for node in self.module.graph.nodes if node.op in ("get_attr", "call_module")
        }
        return copy.deepcopy(self.module) if names else copy_of(self.module)


def case_of(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> GraphCase:
    """A case of what Dynamo or AOTAutograd hands to a backend: free sizes become numbers, fake tensors get values."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(inputs):
        raise UsageError(
            "TP1040",
            f"the graph takes {len(placeholders)} inputs, and {len(inputs)} were given",
            fix="Give the inputs that the backend was given with the graph.",
        )
    numbers = torch.Generator().manual_seed(0)
    return GraphCase(_with_flat_outputs(module), tuple(_real(value, numbers) for value in inputs))


def _with_flat_outputs(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with all that it returns in one tuple, without what is the same on every run."""
    made = copy_of(module)
    (output,) = (node for node in made.graph.nodes if node.op == "output")
    output.args = (tuple(output.all_input_nodes),)
    made.recompile()
    return made


def operations_of(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The nodes that compute something; taking one of several results is no operation."""
    return [node for node in graph.nodes if node.op.startswith("call_") and not is_pick(node)]


def is_pick(node: torch.fx.Node) -> bool:
    """Whether a node takes one of the several results of another."""
    if not _takes_by_number(node):
        return False
    source = node.args[0]
    assert isinstance(source, torch.fx.Node)
    known = source.meta.get(SEVERAL, source.meta.get("val", source.meta.get("example_value")))
    if known is not None:
        return known is True or isinstance(known, list | tuple)
    schema = getattr(source.target, "_schema", None)
    if schema is not None:
        return len(schema.returns) > 1 or any("List[" in str(one.type) for one in schema.returns)
    return source.op == "call_function" and all(map(_takes_by_number, source.users))


SEVERAL = "several_results"
"""The key in a node's `meta` that says whether it gives a tuple or list, if that is known."""


def _takes_by_number(node: torch.fx.Node) -> bool:
    return (
        node.op == "call_function"
        and node.target is operator.getitem
        and isinstance(node.args[0], torch.fx.Node)
        and isinstance(node.args[1], int)
    )


def _writes(node: torch.fx.Node) -> bool:
    """Whether a node may write to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.startswith("_")
    return (
        in_place
        or name in ("setitem", *_IN_PLACE_OPERATORS)
        or "out" in node.kwargs
        or node.op == "call_module"
    )


_IN_PLACE_OPERATORS = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "iand", "ior", "ixor", "ipow")


def copied(value: Any) -> Any:
    """A copy with memory of its own and the same strides; lists are copied with what is in them."""
    if not isinstance(value, Tensor):
        return (
            pytree.tree_map_only(Tensor, copied, value) if isinstance(value, list | tuple | dict) else value
        )
    if value.layout is not torch.strided or value.is_quantized:
        return value.detach().clone().requires_grad_(value.requires_grad)
    first, last = value.storage_offset(), _last_element(value)
    flat = value.detach().as_strided((max(last - first, 0),), (1,), first).clone()
    return flat.as_strided(value.shape, value.stride()).requires_grad_(value.requires_grad)


def canonical_text(case: GraphCase) -> str:
    """A text that equal cases have in common, whatever their nodes are called."""
    order = {node: index for index, node in enumerate(case.module.graph.nodes)}

    def text(arg: Any) -> str:
        return str(torch.fx.node.map_arg(arg, lambda node: f"%{order[node]}"))  # type: ignore[arg-type, return-value]

    lines = [
        f"{n.op} {n.target if n.op != 'placeholder' else ''} {text(n.args)} {text(n.kwargs)}" for n in order
    ]
    return "\n".join([*lines, *(_digest(value) for value in case.inputs)])


def _digest(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    plain = value.detach().cpu()
    if plain.layout is not torch.strided or plain.is_quantized:
        return f"{id(value)}"
    data = as_bytes(plain).numpy().tobytes()
    content = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return (
        f"{tuple(value.shape)} {value.stride()} {value.dtype} {value.device} {value.requires_grad} {content}"
    )


def _last_element(tensor: Tensor) -> int:
    """The place behind the last element of a tensor in its storage."""
    offset = int(tensor.storage_offset())
    if not tensor.numel():
        return offset
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return offset + int(reach) + 1


def _real(value: Any, numbers: torch.Generator) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        hint = value.node.hint
        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)](hint)
    if not isinstance(value, Tensor) or not is_fake(value):
        return value
    shape = [_real(size, numbers) for size in value.shape]
    stride = [_real(size, numbers) for size in value.stride()]
    device = torch.device("cpu") if value.device.type == "meta" else value.device
    made = torch.empty_strided(shape, stride, dtype=value.dtype, device=device)
    if made.is_floating_point() or made.is_complex():
        made.copy_(torch.randn(shape, generator=numbers, dtype=torch.float64))
    else:
        made.zero_()
    return made.requires_grad_(value.requires_grad)
