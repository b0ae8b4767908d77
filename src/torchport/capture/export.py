"""torch.export, functionalised and unflattened to the module tree, as our own `Graph`.

In: a model and example inputs. Out: a Graph and the tensors of its weights. Everything that is known
about torch's graph format is known here.
"""

from __future__ import annotations

import inspect
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchport.capture import graph as g
from torchport.capture import source, symbols
from torchport.capture.simplify import HANDLED, simplify
from torchport.errors import CaptureError

Decompose = Callable[[str], bool]
"""Says of an operation's full name whether it is to be decomposed into simpler ones."""


@dataclass(frozen=True)
class Exported:
    graph: g.Graph
    weights: dict[str, torch.Tensor]


def flatten_inputs(
    model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[str], Any]:
    """The leaves of the inputs, a name for each (`input_ids`, `batch.mask`), and their structure."""
    names = _parameter_names(model, len(args))
    named: list[tuple[str, Any]] = [*zip(names, args, strict=False), *kwargs.items()]
    labels = []
    for name, value in named:
        paths, _ = pytree.tree_flatten_with_path(value)
        labels += [name + "".join(_suffix(key) for key in path) for path, _ in paths]
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    return leaves, labels, spec


def _suffix(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return f".{getattr(key, attribute)}"
    return f".{key}"


def _parameter_names(model: torch.nn.Module, count: int) -> list[str]:
    names: list[str] = []
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return names[:count]


def export(
    model: torch.nn.Module,
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    name: str,
    wish: symbols.Wish | None = None,
    decompose: Decompose | None = None,
) -> Exported:
    """Captures the graph; without a wish, the axes that are worth it are left free."""
    leaves, labels, spec = flatten_inputs(model, args, kwargs)
    axes = symbols.choose_axes(dict(zip(labels, leaves, strict=True)), wish)
    program = _run_export(model, leaves, labels, spec, axes, wish is not None)
    program = _functionalise(program, decompose)
    return _Converter(model, program, name, labels).convert()


def _run_export(
    model: torch.nn.Module, leaves: list, labels: list[str], spec: Any, axes: symbols.Wish, asked: bool
) -> torch.export.ExportedProgram:
    example = pytree.tree_unflatten(symbols.enlarged(leaves, labels, axes), spec)
    shapes = symbols.dynamic_shapes(labels, axes, spec, asked=asked)
    args_shapes, kwargs_shapes = shapes
    try:
        return torch.export.export(
            model,
            example[0],
            example[1],
            dynamic_shapes=_by_parameter(model, args_shapes, kwargs_shapes),
            strict=False,
        )
    except Exception as error:  # torch.export raises whatever the model's code raises
        raise CaptureError(
            "TP0202",
            f"torch.export could not capture the model: {_first_lines(error)}",
            where=source.user_line(error),
            fix="rewrite that line so that it does not depend on tensor values, or fix the free axes "
            "with --dynamic NAME:AXIS",
        ) from error


def _by_parameter(model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """torch.export takes shapes by parameter name, with `*args` as one tuple."""
    result: dict[str, Any] = {}
    rest = list(args)
    extra = dict(kwargs)
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            result[name], rest = tuple(rest), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            result[name], extra = extra, {}
        elif rest and parameter.kind is not parameter.KEYWORD_ONLY:
            result[name] = rest.pop(0)
        elif name in extra:
            result[name] = extra.pop(name)
    return {name: value for name, value in result.items() if value not in ((), {})}


def _first_lines(error: Exception, count: int = 3) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:count])}"[:500]


def _functionalise(
    program: torch.export.ExportedProgram, decompose: Decompose | None
) -> torch.export.ExportedProgram:
    """In-place operations become pure ones; high-level operations stay whole unless `decompose` says so."""
    program = program.run_decompositions({})
    if decompose is None:
        return program
    table = torch.export.default_decompositions()
    unwanted = {n.target for n in program.graph.nodes if n.op == "call_function"}
    chosen = {
        op: table[op] for op in unwanted if op in table and str(op) not in HANDLED and decompose(str(op))
    }
    return program.run_decompositions(chosen) if chosen else program


def weights_of(
    model: torch.nn.Module, graph: g.Graph, constants: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The tensors that a graph reads: a model's own, and constants that export had lifted out of its code."""
    own = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    found = {}
    for name, weight in graph.weights.items():
        tensor = constants.get(name) if weight.kind == "constant" else own.get(name)
        if tensor is None or tuple(tensor.shape) != weight.meta.shape:
            shape = "is missing" if tensor is None else f"has shape {tuple(tensor.shape)}"
            raise CaptureError(
                "TP0202",
                f"the port was made with {name!r} of shape {weight.meta.shape}, which {shape} in this model",
                fix="check a port with the model that it was made from, or port this one anew",
            )
        found[name] = tensor.detach()
    return found


class _Converter:
    def __init__(
        self, model: torch.nn.Module, program: torch.export.ExportedProgram, name: str, labels: list[str]
    ):
        self.model, self.program, self.name, self.labels = model, program, name, labels
        self.originals = dict(model.named_modules(remove_duplicate=False))
        self.own_tensors = {
            name
            for named in (model.named_parameters, model.named_buffers)
            for name, _ in named(remove_duplicate=False)
        }
        self.tree = torch.export.unflatten(program)
        self.modules: dict[str, g.Module] = {}
        self.weights: dict[str, torch.Tensor] = {}
        self.kinds = {spec.target: spec.kind.name.lower() for spec in program.graph_signature.input_specs}

    def convert(self) -> Exported:
        placeholders = [n for n in self.tree.graph.nodes if n.op == "placeholder"]
        names = dict(zip((n.name for n in placeholders), self.labels, strict=True))
        self.free = self._symbols(placeholders, names)
        self.rename = {raw: symbol.name for raw, symbol in self.free.items()}
        self._module("", self.tree)
        outputs, _ = pytree.tree_flatten_with_path(self._output_structure())
        last = next(n for n in reversed(self.tree.graph.nodes) if n.op == "output")
        flat = pytree.tree_leaves(last.args[0], is_leaf=lambda x: x is None)
        output_names = tuple(
            pytree.keystr(path) or f"[{i}]"
            for i, ((path, _), value) in enumerate(zip(outputs, flat, strict=True))
            if isinstance(value, torch.fx.Node)
        )
        graph = g.Graph(
            name=self.name,
            modules=self.modules,
            weights=self._weights(),
            symbols=tuple(self.free.values()),
            output_names=output_names,
            config=_model_config(self.model),
        )
        graph = simplify(graph)
        return Exported(graph, {name: self.weights[name] for name in graph.weights})

    def _output_structure(self) -> Any:
        spec = self.program.call_spec.out_spec
        return pytree.tree_unflatten(list(range(spec.num_leaves)), spec)

    def _symbols(self, placeholders: Sequence[torch.fx.Node], names: dict[str, str]) -> dict[str, g.Symbol]:
        found: dict[str, g.Symbol] = {}
        taken: set[str] = set()
        for node in placeholders:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            for axis, size in enumerate(value.shape):
                if isinstance(size, int) or str(size.node.expr) in found:
                    continue
                raw = str(size.node.expr)
                if not size.node.expr.is_Symbol:
                    continue
                label = _symbol_name(value, axis, names[node.name], taken)
                bounds = self.program.range_constraints.get(size.node.expr)
                high = None if bounds is None or not bounds.upper.is_Integer else int(bounds.upper)
                found[raw] = g.Symbol(label, names[node.name], axis, 1, high)
        return found

    def _module(self, key: str, module: torch.nn.Module) -> None:
        if key in self.modules:
            return
        graph: torch.fx.Graph = module.graph  # type: ignore[assignment]
        original = self.originals.get(key.partition("@")[0])
        reader = _GraphReader(self, key, module, graph)
        children = reader.read()
        forward = getattr(type(original), "forward", None)
        self.modules[key] = g.Module(
            key=key,
            type=_type_name(module, original),
            inputs=tuple(reader.inputs),
            nodes=tuple(reader.nodes),
            outputs=tuple(reader.outputs),
            params=reader.params,
            attributes=_attributes(original),
            source=_definition(forward),
        )
        for child in children:
            self._module(child, self.tree.get_submodule(child))

    def graph_of(self, key: str) -> torch.fx.Graph:
        return self.tree.get_submodule(key).graph  # type: ignore[return-value]

    def weight(self, name: str, tensor: torch.Tensor) -> str:
        self.weights.setdefault(name, tensor.detach())
        return name

    def _weights(self) -> dict[str, g.Weight]:
        first: dict[Any, str] = {}
        result = {}
        for name, tensor in self.weights.items():
            identity = _identity(tensor)
            tied = first.setdefault(identity, name)
            result[name] = g.Weight(
                meta=g.TensorMeta(tuple(tensor.shape), _dtype_name(tensor.dtype)),
                kind=self.kinds.get(name, "constant_tensor").replace("constant_tensor", "constant"),
                tied_to=None if tied == name else tied,
            )
        return result


class _GraphReader:
    """Reads one module's fx graph: sizes become expressions, getitem becomes an index of a Ref."""

    def __init__(self, owner: _Converter, key: str, module: torch.nn.Module, graph: torch.fx.Graph):
        self.owner, self.key, self.module, self.graph = owner, key, module, graph
        self.inputs: list[g.Input] = []
        self.nodes: list[g.Node] = []
        self.outputs: list[g.Ref] = []
        self.params: dict[str, str] = {}
        self.refs: dict[torch.fx.Node, g.Ref] = {}
        self.sizes: dict[torch.fx.Node, g.Dim] = {}
        """Sizes that a submodule hands out beside its tensors."""
        self.children: list[str] = []

    def read(self) -> list[str]:
        handlers = {
            "placeholder": self._placeholder,
            "get_attr": self._get_attr,
            "call_module": self._call_module,
            "call_function": self._call_function,
            "output": self._output,
        }
        for node in self.graph.nodes:
            try:
                handlers[node.op](node)
            except CaptureError as error:
                error.where = error.where or self._place(node)
                raise
        self._add_hints()
        return self.children

    def _place(self, node: torch.fx.Node) -> str | None:
        """Where a node that cannot be read comes from: the child that is called, a line, or this module."""
        if node.op == "call_module":
            return f"{self.key}.{node.target}" if self.key else str(node.target)
        return _line(node) or self.key or None

    def _placeholder(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        name = node.name
        if self.key == "":
            index = [n for n in self.graph.nodes if n.op == "placeholder"].index(node)
            name = self.owner.labels[index]
        self.refs[node] = g.Ref(name)
        self.inputs.append(g.Input(name, self._meta(value)))

    def _get_attr(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        value = operator.attrgetter(target)(self.module)
        if not isinstance(value, torch.Tensor):
            raise CaptureError(
                "TP0202",
                f"the graph holds {type(value).__name__} {target!r}, which is not supported "
                "(control flow by torch.cond, torch.while_loop or similar)",
                where=self.key or None,
                fix="replace the data-dependent control flow by torch.where",
            )
        path = self.key.partition("@")[0]
        full = f"{path}.{target}" if path else target
        if full not in self.owner.own_tensors:
            # Export numbers constants through the whole model; equal modules must have equal names.
            count = sum("constant_" in name for name in self.params.values())
            full = f"{path}.constant_{count}" if path else f"constant_{count}"
        self.params[node.name] = self.owner.weight(full, value)
        self.refs[node] = g.Ref(node.name)

    def _call_module(self, node: torch.fx.Node) -> None:
        child = f"{self.key}.{node.target}" if self.key else str(node.target)
        self.children.append(child)
        callee = self.owner.graph_of(child)
        outputs = self._metas([n.meta.get("val") for n in _output_leaves(callee) if _is_tensor(n)])
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

    def _call_line(self, child: str) -> str | None:
        """Where this module's source calls a child: calls carry no trace, but what the child computes does."""
        inner = _first_traced(self.owner.tree, child)
        if inner is None:
            return None
        frames = source.frames(inner.meta["stack_trace"])
        paths = [path for path, _ in inner.meta["nn_module_stack"].values()]
        own = self.key.partition("@")[0]
        if own not in paths or len(frames) != len(paths):
            return None
        file, line = frames[paths.index(own)]
        return f"{file}:{line}"

    def _call_function(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat | int | bool):
            return
        if node.target is operator.getitem:
            self._getitem(node)
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CaptureError(
                "TP0202",
                f"the graph calls {node.target}, which is not an ATen operation",
                where=_line(node),
                fix="replace it by tensor operations",
            )
        self.refs[node] = g.Ref(node.name)
        self.nodes.append(
            g.Node(
                name=node.name,
                op=str(node.target),
                args=tuple(self._arg(a) for a in node.args),
                kwargs={k: self._arg(a) for k, a in node.kwargs.items()},
                outputs=self._metas(value),
                source=_line(node),
            )
        )

    def _getitem(self, node: torch.fx.Node) -> None:
        base, index = node.args
        assert isinstance(base, torch.fx.Node) and isinstance(index, int)
        if base.op != "call_module":
            self.refs[node] = g.Ref(self.refs[base].name, index)
            return
        child = f"{self.key}.{base.target}" if self.key else str(base.target)
        leaves = _output_leaves(self.owner.graph_of(child))
        size = leaves[index].meta.get("val")
        if isinstance(size, torch.SymInt):
            self.sizes[node] = symbols.to_dim(size, self.owner.rename)
        else:
            position = sum(_is_tensor(leaf) for leaf in leaves[:index])
            self.refs[node] = g.Ref(self.refs[base].name, position)

    def _output(self, node: torch.fx.Node) -> None:
        self.outputs = [self.refs[leaf] for leaf in _output_leaves(self.graph) if _is_tensor(leaf)]

    def _metas(self, value: Any) -> tuple[g.TensorMeta | None, ...]:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(self._meta(v) if isinstance(v, torch.Tensor) else None for v in items)

    def _meta(self, tensor: torch.Tensor) -> g.TensorMeta:
        shape = tuple(symbols.to_dim(size, self.owner.rename) for size in tensor.shape)
        return g.TensorMeta(shape, _dtype_name(tensor.dtype))

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
            return g.Dtype(_dtype_name(arg))
        if isinstance(arg, torch.device):
            return g.Device(str(arg))
        if isinstance(arg, torch.layout):
            return g.Layout(str(arg).removeprefix("torch."))
        if isinstance(arg, torch.memory_format):
            return g.MemoryFormat(str(arg).removeprefix("torch."))
        if arg is None or isinstance(arg, bool | int | float | str):
            return arg
        raise CaptureError(
            "TP0202",
            f"an operation has an argument of type {type(arg).__name__}, which is not supported",
            where=self.key or None,
            fix="replace the operation by one that takes tensors, numbers and strings",
        )

    def _add_hints(self) -> None:
        """Names values after the variables that the source assigns them to."""
        groups: dict[source.Statement, list[int]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            place = node.source.rpartition(":") if node.source else None
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
                    self.nodes[index] = g.replace(self.nodes[index], hint=name)


def _output_leaves(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """What a module's graph returns, without None and plain numbers."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    leaves = pytree.tree_leaves(output.args[0], is_leaf=lambda x: x is None)
    return [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]


def _is_tensor(node: torch.fx.Node) -> bool:
    return not isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat)


def _first_traced(tree: torch.nn.Module, key: str) -> torch.fx.Node | None:
    for node in tree.get_submodule(key).graph.nodes:  # type: ignore[union-attr]
        if node.op == "call_module":
            found = _first_traced(tree, f"{key}.{node.target}")
            if found is not None:
                return found
        elif (
            node.op == "call_function"
            and {"stack_trace", "nn_module_stack"} <= node.meta.keys()
            and _is_tensor(node)
        ):
            return node
    return None


def _line(node: torch.fx.Node) -> str | None:
    frame = source.innermost_frame(node.meta.get("stack_trace"))
    return f"{frame[0]}:{frame[1]}" if frame else None


def _definition(function: Any) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code else None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _type_name(module: torch.nn.Module, original: torch.nn.Module | None) -> str:
    if original is not None:
        return f"{type(original).__module__}.{type(original).__qualname__}"
    return module.type_name() or type(module).__qualname__  # type: ignore[operator]


def _identity(tensor: torch.Tensor) -> Any:
    storage = tensor.untyped_storage()._cdata
    return (storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _symbol_name(tensor: torch.Tensor, axis: int, input_name: str, taken: set[str]) -> str:
    if axis == 0:
        label = "batch"
    elif axis == 1 and tensor.ndim == 2 and not tensor.is_floating_point():
        label = "seq_len"
    else:
        label = f"{input_name.replace('.', '_')}_dim{axis}"
    number = 2
    unique = label
    while unique in taken:
        unique, number = f"{label}_{number}", number + 1
    taken.add(unique)
    return unique


def _attributes(module: torch.nn.Module | None) -> dict[str, Any]:
    """The module's own plain values: what its author thought worth a name."""
    if module is None:
        return {}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) <= 8 and all(isinstance(v, int | float) for v in value)
    return isinstance(value, bool | int | float | str)


def _model_config(model: torch.nn.Module) -> dict[str, Any]:
    """The numbers of a `config` object, as Hugging Face models carry one."""
    config = getattr(model, "config", None)
    if config is None:
        return {}
    values = config.to_dict() if hasattr(config, "to_dict") else getattr(config, "__dict__", {})
    return {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
