"""An fx.GraphModule of make_fx, AOTAutograd or Dynamo as our own `Graph`, of one module.

In: the graph module and the inputs that it was made for. Out: the graph and the tensors that it holds. A graph of ATen
operations is read as it is; any other, such as Dynamo's, is traced again until it is one.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations, symbols
from torchport.capture.arguments import must_be_typed
from torchport.capture.exported import Exported
from torchport.capture.fx_nodes import is_number, line_of, output_names
from torchport.capture.reader import GraphReader
from torchport.capture.simplify import simplify
from torchport.capture.source import user_line
from torchport.capture.torch_internals import (
    OpOverload,
    is_autocast_on,
    is_grad_mode,
    trace_to_aten,
)
from torchport.capture.weights import MemoryWeights, described, identity
from torchport.errors import CaptureError, TorchportError

_DETACH = "aten.detach_.default"
"""Works in place, and changes no value."""
_CONSTANT = "_tensor_constant"
"""What make_fx calls the tensors that a function made or closed over."""


def graph_of(module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, name: str) -> Exported:
    """Reads a graph. Its tensor inputs are those placeholders that are tensors, in their order.

    Sizes are free if they are symbolic in the placeholders' example values. CaptureError if the graph writes to
    values in place, or runs what is no ATen operation.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(example_inputs):
        raise CaptureError(
            "TP0208", f"the graph takes {len(placeholders)} inputs, and {len(example_inputs)} are given"
        )
    aten = module if _is_aten(module.graph) else _traced_again(module, placeholders, example_inputs)
    written = list(_written_at_the_end(aten.graph))
    exported = _FlatGraph(aten, module, name).convert(written)
    must_be_typed(exported.graph)
    return exported


def _is_aten(graph: torch.fx.Graph) -> bool:
    """Whether every node is an ATen operation, or arithmetic of sizes, and says what it gives."""
    return all(_is_readable(node) for node in graph.nodes)


def _is_readable(node: torch.fx.Node) -> bool:
    if node.op in ("get_attr", "output") or is_grad_mode(node.target):
        return True
    if node.op == "call_function" and _gives_nothing(node.target):
        return True
    if node.op not in ("placeholder", "call_function") or "val" not in node.meta:
        return False
    is_operation = isinstance(node.target, OpOverload) or node.target is operator.getitem
    return node.op == "placeholder" or is_operation or is_number(node.meta["val"])


def _gives_nothing(target: object) -> bool:
    """Whether an operation neither gives nor writes a value, as the asserts that torch puts beside a cast."""
    if not isinstance(target, OpOverload):
        return False
    return not target._schema.returns and not operations.is_mutating(str(target))


def _traced_again(
    module: torch.fx.GraphModule, placeholders: Sequence[torch.fx.Node], example_inputs: Sequence[Any]
) -> torch.fx.GraphModule:
    """The same graph in ATen operations: as high-level ones as can be, if none of them works in place."""
    inputs = [
        node.meta.get("val", node.meta.get("example_value", given))
        for node, given in zip(placeholders, example_inputs, strict=True)
    ]
    try:
        if not is_autocast_on():
            whole = trace_to_aten(module, inputs, pre_dispatch=True)
            if _is_aten(whole.graph) and not any(_writes(node) for node in whole.graph.nodes):
                return whole
        return trace_to_aten(module, inputs, pre_dispatch=False)
    except TorchportError:
        raise
    except Exception as error:  # tracing raises whatever the graph's own code raises
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise CaptureError(
            "TP0202",
            f"the graph cannot be traced to ATen operations: {type(error).__name__}: {first_line}",
            where=user_line(error),
            fix="compile without what depends on values; with dynamic=True, numbers of the model are inputs, too",
        ) from error


def _writes(node: torch.fx.Node) -> bool:
    """Whether a node changes a value in place."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    name = str(node.target)
    return name != _DETACH and (operations.is_mutating(name) or _updates_statistics(node, name))


_STATISTICS = {
    "aten.batch_norm.default": "training",
    "aten.native_batch_norm.default": "training",
    "aten._batch_norm_impl_index.default": "training",
    "aten.cudnn_batch_norm.default": "training",
    "aten.miopen_batch_norm.default": "training",
    "aten.instance_norm.default": "use_input_stats",
}
"""Operations that write to running statistics, which their schemas do not say; and the argument that makes them."""


def _updates_statistics(node: torch.fx.Node, name: str) -> bool:
    if name not in _STATISTICS:
        return False
    given = operations.bind(name, node.args, node.kwargs)
    return bool(given[_STATISTICS[name]]) and given["running_mean"] is not None


def _written_at_the_end(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """The inputs and tensors that a functional graph copies new values into after all is computed.

    CaptureError if the graph writes in any other way: then what a node gives would depend on when it is read.
    """
    nodes = list(graph.nodes)
    for index, node in enumerate(nodes):
        if not _writes(node):
            continue
        target = node.args[0] if node.args else None
        later = nodes[index + 1 :]
        if not (
            str(node.target) == "aten.copy_.default"
            and isinstance(target, torch.fx.Node)
            and target.op in ("placeholder", "get_attr")
            and all(str(other.target) == "aten.copy_.default" or other.op == "output" for other in later)
            and not _sharing(target, nodes) & {read for other in later for read in other.all_input_nodes}
        ):
            raise CaptureError(
                "TP0202",
                f"the graph runs {node.target} in place, so what its values are depends on when they are read",
                where=line_of(node),
                fix="functionalise the graph: make_fx(torch.func.functionalize(f)), or the graphs of AOTAutograd",
            )
        yield target


def _sharing(target: torch.fx.Node, nodes: Sequence[torch.fx.Node]) -> set[torch.fx.Node]:
    """A node and all those that may be views of its memory."""
    sharing = {target}
    for node in nodes:
        if node.op == "call_function" and sharing & set(node.all_input_nodes):
            is_view = isinstance(node.target, OpOverload) and operations.may_alias(str(node.target))
            if is_view or not isinstance(node.target, OpOverload):
                sharing.add(node)
    return sharing


class _FlatGraph:
    """The owner of a graph that has one module."""

    def __init__(self, module: torch.fx.GraphModule, original: torch.fx.GraphModule, name: str):
        """`original` is what the module was traced from, or the module itself: names are taken from it."""
        self.tree, self.name = module, name
        self.labels = [node.name for node in original.graph.nodes if node.op == "placeholder"]
        self.placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        inputs = zip(self.labels, self.placeholders, strict=True)
        values = {label: node.meta.get("val") for label, node in inputs}
        self.free = symbols.read_symbols(values)
        self.rename = {raw: symbol.name for raw, symbol in self.free.items()}
        self.conditions = symbols.read_conditions(values, self.rename)
        self.own_names = {
            identity(tensor): path
            for path, tensor in [*original.named_parameters(), *original.named_buffers()]
            if not path.startswith(_CONSTANT)
        }
        self.weights: dict[str, torch.Tensor] = {}
        self.kinds: dict[str, str] = {}

    def own_name(self, path: str) -> str | None:
        return self.own_names.get(identity(operator.attrgetter(path)(self.tree)))

    def keep_weight(self, name: str, path: str) -> None:
        tensor: torch.Tensor = operator.attrgetter(path)(self.tree)
        self.weights.setdefault(name, tensor.detach())
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"
        self.kinds[name] = kind if identity(tensor) in self.own_names else "constant"

    def keep_constant(self, name: str, value: torch.Tensor) -> None:
        raise NotImplementedError("bodies of control flow are only read from torch.export")

    def has_module(self, path: str) -> bool:
        return False

    def path_of_module(self, identity: int) -> str | None:
        return None

    def convert(self, written: Sequence[torch.fx.Node]) -> Exported:
        reader = GraphReader(self, "", self.tree, self.tree.graph)
        reader.read()
        for node in reader.nodes:
            if node.bodies:
                raise CaptureError(
                    "TP0202",
                    f"the graph runs {node.op}, and control flow is only read from torch.export",
                    where=node.source,
                    fix="record the model itself, or leave this part out of what is compared",
                )
        output = next(node for node in reversed(self.tree.graph.nodes) if node.op == "output")
        names, left_out = output_names(self.tree.graph, output.args[0])
        root = g.Module(
            key="",
            type=f"torch.fx.graph_module.{_class_name(self.tree)}",
            inputs=tuple(reader.inputs),
            nodes=tuple(reader.nodes),
            outputs=tuple(reader.outputs),
            params=reader.params,
        )
        weights = described(self.weights, self.kinds)
        graph = g.Graph(self.name, {"": root}, weights, tuple(self.free.values()), names)
        graph = simplify(dataclasses.replace(graph, conditions=self.conditions))
        kept = MemoryWeights({name: self.weights[name] for name in graph.weights})
        labels = dict(zip(self.placeholders, self.labels, strict=True))
        writes = sorted({labels.get(node) or reader.params[node.name] for node in written})
        return Exported(graph, kept, tuple(writes), left_out)


def _class_name(module: torch.fx.GraphModule) -> str:
    """What the graph module is called: after the function that make_fx traced, if that has a proper name."""
    name = type(module).__name__
    return name if name.isidentifier() else "GraphModule"
