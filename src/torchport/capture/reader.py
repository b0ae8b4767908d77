"""Reads one module's fx graph into our own nodes.

Sizes become expressions over the capture's symbols, `getitem` becomes an index of a reference, and values are named
after the variables that the user's source assigns them to.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations, source, symbols
from torchport.capture.control_flow import operation_for
from torchport.capture.flow_reader import FlowReader, FoundBody, control_flow_of
from torchport.capture.fx_nodes import (
    first_traced,
    forward_line_of,
    gives_tensors,
    is_number,
    line_of,
    output_leaves,
)
from torchport.capture.owner import Owner
from torchport.capture.read_numbers import EXPAND, READS, in_order, of_tensor
from torchport.capture.torch_internals import OpOverload, is_grad_mode
from torchport.errors import CaptureError

PURE = {"aten.detach_.default": "aten.detach.default", "aten.copy_.default": "aten.copy.default"}
"""Operations in place that a functional graph still has, and the ones that stand for them.

The one changes no values, and what the other writes to a buffer is a value of its own, which later reads get.
"""


class GraphReader:
    """Reads the fx graph of one module; the fields hold what was found."""

    def __init__(
        self,
        owner: Owner,
        key: str,
        module: torch.nn.Module,
        graph: torch.fx.Graph,
        body: FoundBody | None = None,
    ):
        """`body` says what is known of a graph that is the body of control flow."""
        self.owner, self.key, self.module, self.graph, self.body = owner, key, module, graph, body
        self.inputs: list[g.Input] = []
        self.nodes: list[g.Node] = []
        self.outputs: list[g.Ref] = []
        self.params: dict[str, str] = {}
        self.refs: dict[torch.fx.Node, g.Ref] = {}
        self.sizes: dict[torch.fx.Node, g.Dim] = {}
        """Sizes that a submodule hands out beside its tensors."""
        self.constants: dict[str, str] = {}
        """The names of constants, by their paths in the traced model."""
        self.forward_lines: dict[str, str | None] = {}
        """By the node: the line of `forward` that it came from, which may call a helper that has the operation."""
        self.children: list[str] = []
        self.numbers: dict[torch.fx.Node, g.Ref] = {}
        """What each number is read from."""
        self.bodies: list[FoundBody] = []
        """The graphs that control flow runs."""

    def read(self) -> list[str]:
        handlers = {
            "placeholder": self._placeholder,
            "get_attr": self._get_attr,
            "call_module": self._call_module,
            "call_function": self._call_function,
            "output": self._output,
        }
        for node in self.graph.nodes:
            self.forward_lines[node.name] = forward_line_of(node)
            try:
                handlers[node.op](node)
            except CaptureError as error:
                error.where = error.where or self._place(node)
                raise
        self._add_hints()
        return self.children

    def _place(self, node: torch.fx.Node) -> str | None:
        """The place of a node that cannot be read: the child that it calls, its line, or this module."""
        if node.op == "call_module":
            return f"{self.key}.{node.target}" if self.key else str(node.target)
        return line_of(node) or self.key or None

    def _placeholder(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        name = node.name
        if self.body is not None and node in self.body.weights:
            self.params[name] = self.body.weights[node]
            self.refs[node] = g.Ref(name)
            return
        if self.key == "":
            index = [n for n in self.graph.nodes if n.op == "placeholder"].index(node)
            name = self.owner.labels[index]
        self.refs[node] = g.Ref(name)
        self.inputs.append(g.Input(name, self._meta(value), self.body.names.get(node) if self.body else None))

    def _get_attr(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        value = operator.attrgetter(target)(self.module)
        if isinstance(value, torch.fx.GraphModule):
            return  # A body, which the operation that runs it reads.
        if not isinstance(value, torch.Tensor):
            raise CaptureError(
                "TP0202",
                f"the graph holds {type(value).__name__} {target!r}, which is not supported",
                where=self.key or None,
                fix="replace the data-dependent control flow by torch.where",
            )
        path = self._within(target)
        name = self.owner.own_name(path) or self._constant(path)
        if self.body is None:
            self.owner.keep_weight(name, path)
        else:
            self.owner.keep_constant(name, value)
        self.params[node.name] = name
        self.refs[node] = g.Ref(node.name)

    def _constant(self, path: str) -> str:
        """The name of a constant. It counts within the module, so that equal modules have equal names."""
        return self.constants.setdefault(path, self._within(f"constant_{len(self.constants)}"))

    def _within(self, name: str) -> str:
        path = g.path_of(self.key)
        return f"{path}.{name}" if path else name

    def _call_module(self, node: torch.fx.Node) -> None:
        child = f"{self.key}.{node.target}" if self.key else str(node.target)
        self.children.append(child)
        callee = self._graph_of(child)
        outputs = self._metas([n.meta.get("val") for n in output_leaves(callee) if gives_tensors(n)])
        wanted = [p for p in callee.nodes if p.op == "placeholder"]
        args = [
            self.refs[a]  # type: ignore[index]
            for a, p in zip(node.args, wanted, strict=True)
            if isinstance(p.meta.get("val"), torch.Tensor)
        ]
        self.refs[node] = g.Ref(node.name)
        self.nodes.append(
            g.Node(node.name, g.CALL, tuple(args), {}, outputs, target=child, source=self._call_line(child))
        )

    def _graph_of(self, key: str) -> torch.fx.Graph:
        graph = self.owner.tree.get_submodule(key).graph
        assert isinstance(graph, torch.fx.Graph)
        return graph

    def _call_line(self, child: str) -> str | None:
        """The line of this module that calls a child, as the child's operations tell it: a call itself has no line."""
        inner = first_traced(self.owner.tree, child)
        if inner is None:
            return None
        frames = source.frames_of_forward(inner.meta["stack_trace"])
        paths = [path for path, _ in inner.meta["nn_module_stack"].values()]
        own = g.path_of(self.key)
        if own not in paths or len(frames) != len(paths):
            return None
        file, line = frames[paths.index(own)]
        return f"{file}:{line}"

    def _call_function(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if str(node.target) in READS and node.args[0] in self.refs:
            self._read_number(node)
            return
        if is_number(value) or is_grad_mode(node.target):
            return
        if node.target is operator.getitem:
            self._getitem(node)
            return
        if operation_for(node.target) is not None:
            self._control_flow(node)
            return
        if not isinstance(node.target, OpOverload):
            raise _not_readable(node)
        if self.body is not None and str(node.target) == g.UNKNOWN:
            raise CaptureError(
                "TP0202",
                f"{self.body.type} runs what torch.export cannot follow",
                where=line_of(node),
                fix="rewrite that line so that it does not depend on tensor values",
            )
        self.refs[node] = g.Ref(node.name)
        op, args, kwargs = self._operation(node)
        self.nodes.append(
            g.Node(
                name=node.name,
                op=PURE.get(op, op),
                args=args,
                kwargs=kwargs,
                outputs=self._metas(value),
                source=line_of(node),
                layer=self._layer(node),
            )
        )

    def _read_number(self, node: torch.fx.Node) -> None:
        """Keeps the tensor that a number is read from, without axes."""
        tensor = node.args[0]
        assert isinstance(tensor, torch.fx.Node)
        meta = self._meta(tensor.meta["val"])
        ref = self.refs[tensor]
        if meta.rank:
            scalar = g.TensorMeta((), meta.dtype)
            self.nodes.append(
                g.Node(node.name, "aten.reshape.default", (ref, []), {}, (scalar,), source=line_of(node))
            )
            ref = g.Ref(node.name)
        self.numbers[node] = ref

    def _operation(self, node: torch.fx.Node) -> tuple[str, tuple[g.Arg, ...], dict[str, g.Arg]]:
        """The name and the arguments of an operation, with tensors for the numbers that are read from them."""
        dtypes = {number: number.args[0].meta["val"].dtype for number in self.numbers}  # type: ignore[union-attr]
        op = of_tensor(node, dtypes) if dtypes.keys() & set(node.all_input_nodes) else None
        if op is None:
            kwargs = {key: self._arg(value) for key, value in node.kwargs.items()}
            return str(node.target), tuple(self._arg(arg) for arg in node.args), kwargs

        def arg(value: Any) -> g.Arg:
            is_read = isinstance(value, torch.fx.Node) and value in self.numbers
            return self.numbers[value] if is_read else self._arg(value)

        kwargs = {} if op == EXPAND else {key: arg(value) for key, value in node.kwargs.items()}
        return op, tuple(map(arg, in_order(node))), kwargs

    def _control_flow(self, node: torch.fx.Node) -> None:
        kind = control_flow_of(node)
        reader = FlowReader(self.module, self.refs, self.params)
        bodies = reader.bodies(node, self._free_key(kind.name))
        self.bodies += bodies
        self.refs[node] = g.Ref(node.name)
        self.nodes.append(
            g.Node(
                name=node.name,
                op=kind.op,
                args=reader.operands(node),
                kwargs={},
                outputs=self._metas(node.meta["val"]),
                source=line_of(node),
                bodies={role: body.key for role, body in zip(kind.roles, bodies, strict=True)},
                layer=self._layer(node),
            )
        )

    def _free_key(self, name: str) -> str:
        """The key for control flow of this module: no other control flow has it, and no module of the model."""
        taken = {body.key.rpartition(".")[0] for body in self.bodies}
        number, key = 0, f"{self.key}.{name}" if self.key else name
        base = key
        while key in taken or self.owner.has_module(g.path_of(key)):
            number += 1
            key = f"{base}_{number}"
        return key

    def _layer(self, node: torch.fx.Node) -> str | None:
        """The path of the module that runs an operation of a body. A body knows modules by their identities."""
        if self.body is None:
            return None
        known = (key.partition("@")[0] for key in node.meta.get("nn_module_stack") or ())
        paths = [self.owner.path_of_module(int(key)) for key in known if key.isdecimal()]
        return next((path for path in reversed(paths) if path is not None), None)

    def _getitem(self, node: torch.fx.Node) -> None:
        base, index = node.args
        assert isinstance(base, torch.fx.Node) and isinstance(index, int)
        if base.op != "call_module":
            self.refs[node] = g.Ref(self.refs[base].name, index)
            return
        child = f"{self.key}.{base.target}" if self.key else str(base.target)
        leaves = output_leaves(self._graph_of(child))
        size = leaves[index].meta.get("val")
        if isinstance(size, torch.SymInt):
            self.sizes[node] = symbols.to_dim(size, self.owner.rename)
        else:
            position = sum(gives_tensors(leaf) for leaf in leaves[:index])
            self.refs[node] = g.Ref(self.refs[base].name, position)

    def _output(self, node: torch.fx.Node) -> None:
        self.outputs = [self.refs[leaf] for leaf in output_leaves(self.graph) if gives_tensors(leaf)]

    def _metas(self, value: Any) -> tuple[g.TensorMeta | None, ...]:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(self._meta(v) if isinstance(v, torch.Tensor) else None for v in items)

    def _meta(self, tensor: torch.Tensor) -> g.TensorMeta:
        shape = tuple(symbols.to_dim(size, self.owner.rename) for size in tensor.shape)
        return g.TensorMeta(shape, g.dtype_name(tensor.dtype))

    def _arg(self, arg: Any) -> g.Arg:
        if isinstance(arg, torch.fx.Node):
            if arg in self.refs:
                return self.refs[arg]
            if arg in self.sizes:
                return self.sizes[arg]
            value = arg.meta.get("val")
            return symbols.to_dim(value, self.owner.rename) if isinstance(value, torch.SymInt) else value
        if isinstance(arg, list | tuple):
            return [self._arg(item) for item in arg]
        if isinstance(arg, torch.SymInt):
            return symbols.to_dim(arg, self.owner.rename)
        if isinstance(arg, torch.dtype):
            return g.Dtype(g.dtype_name(arg))
        if isinstance(arg, torch.device):
            return g.Device(str(arg))
        if isinstance(arg, torch.layout):
            return g.Layout(str(arg).removeprefix("torch."))
        if isinstance(arg, torch.memory_format):
            return g.MemoryFormat(str(arg).removeprefix("torch."))
        if arg is None or isinstance(arg, bool | int | float | complex | str):
            return arg
        raise CaptureError(
            "TP0202",
            f"an operation has an argument of type {type(arg).__name__}, which is not supported",
            where=self.key or None,
            fix="replace the operation by one that takes tensors, numbers and strings",
        )

    def _add_hints(self) -> None:
        """Names values after the variables that the user's source assigns them to."""
        groups: dict[source.Statement, list[int]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            line = self.forward_lines.get(node.name) or node.source
            place = line.rpartition(":") if line else None
            statement = source.statement_at(place[0], int(place[2])) if place else None
            if statement is not None:
                groups[statement].append(index)
        users: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes:
            for ref in g.refs([node.args, node.kwargs]):
                users[ref.name].add(node.name)
        for ref in self.outputs:
            users[ref.name].add("")
        for statement, members in groups.items():
            inside = {self.nodes[i].name for i in members}
            leaving = [i for i in members if users[self.nodes[i].name] - inside]
            targets = [name for name in statement.targets if name != "_"]
            if len(leaving) in (1, len(targets)):
                for index, name in zip(leaving, targets, strict=False):
                    self.nodes[index] = replace(self.nodes[index], hint=name)


def _not_readable(node: torch.fx.Node) -> CaptureError:
    """The error for what a graph calls that is no operation on values."""
    wrapped = node.args[0] if node.args else None
    if isinstance(wrapped, OpOverload) and operations.is_mutating(str(wrapped)):
        written = [one.name for one in operations.arguments(str(wrapped)) if one.is_written]
        name = str(wrapped).removesuffix(".default").replace(".", "::", 1)
        return CaptureError(
            "TP0202",
            f"{name} writes to {' and '.join(written)}, which it is given: only operations that give new tensors are "
            "taken from a package",
            where=line_of(node),
            fix="define one with mutates_args=() that returns what is written now, and let the model write it back: "
            f"x.copy_({name.replace('::', '.')}_functional(x)), see docs/custom-operations.md",
        )
    return CaptureError(
        "TP0202",
        f"the graph calls {node.target}, which is not an ATen operation",
        where=line_of(node),
        fix="replace it by tensor operations",
    )
