"""From a captured graph to a graph of neurons.

The modules are walked in the order in which they run. Each operation becomes an assembly of groups by its recipe; where
a layer begins and ends is a border, at which values are compared. Control flow has graphs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from torchport.capture import graph as g
from torchport.capture.control_flow import CONTROL_FLOW
from torchport.capture.plan import make_plan
from torchport.errors import CaptureError, ConvertError
from torchport.targets.base import Todo
from torchport.targets.marble.composer import Composer, Unsupported, Value, Weight
from torchport.targets.marble.expansion import Unfitting, assembled, expanded
from torchport.targets.marble.groups import (
    Border,
    Flow,
    Form,
    FreeSize,
    Group,
    Kind,
    Memory,
    NeuronGraph,
    Port,
    Step,
    ports_of,
)
from torchport.targets.marble.registries import converter_of
from torchport.trace.plan import Call, operation_key

RECURRENT = frozenset({"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"})
STATES = ("hidden", "cell")


@dataclass(frozen=True)
class Converted:
    """A neuron graph, the arrays that its recipes made, and what no recipe expresses."""

    graph: NeuronGraph
    made: dict[str, Tensor]
    todos: tuple[Todo, ...]


def convert(
    graph: g.Graph, shapes: Mapping[str, tuple[int, ...]], model: nn.Module | None = None
) -> Converted:
    """The graph of neurons for example inputs of these shapes; layers of `model` may have converters of their own."""
    _must_have_fixed_neurons(graph)
    return _Conversion(graph, graph.bindings(shapes), model).run()


def _must_have_fixed_neurons(graph: g.Graph) -> None:
    """CaptureError for a size that depends on data."""
    for node in (node for module in graph.modules.values() for node in module.nodes):
        shapes = [list(meta.shape) for meta in node.outputs if meta is not None]
        if node.op != g.CALL and g.symbols_of(shapes) & graph.measured:
            raise CaptureError(
                "TP0202",
                f"how many elements {node.op} gives depends on values, and so would how many neurons there are",
                where=node.source,
                fix="write torch.where(mask, x, 0), or topk with a fixed number",
            )


@dataclass(frozen=True)
class _Place:
    """Where groups are made: what their names begin with, and the layer that they belong to."""

    prefix: str
    layer: str
    is_body: bool = False
    """Whether it is in a body of control flow, of which nobody knows how often it runs."""


Values = dict[str, list[Value]]
"""The results of the nodes of a module so far, by the nodes' names."""


@dataclass
class _Conversion:
    graph: g.Graph
    sizes: dict[str, int]
    model: nn.Module | None = None
    steps: list[Step] = field(default_factory=list)
    made: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    """Weights that are handed on as they are, by the names of their groups."""
    todos: list[Todo] = field(default_factory=list)
    zeros: set[str] = field(default_factory=set)
    """Assemblies that give nothing but 0."""
    first: int = 0

    def run(self) -> Converted:
        plan = make_plan(self.graph)
        self.calls = iter([name for kind, name in plan.events if kind == "enter"])
        self.plan = plan
        root = self.graph.root
        inputs = [self._input(item, item.name) for item in root.inputs]
        given = [Value(Port(group.name), group.results[0]) for group in inputs]
        outputs = self._call(root, given)
        free = tuple(self._free(symbol) for symbol in self.graph.symbols)
        made = NeuronGraph(
            self.graph.name, tuple(inputs), tuple(self.steps), tuple(value.port for value in outputs), free
        )
        return Converted(made, self.made, tuple(self.todos))

    def _input(self, item: g.Input, name: str) -> Group:
        form = self._form(item.meta)
        shape = {"shape": list(item.meta.shape)}
        group = Group(name, Kind.INPUT, "given", (), (form,), self.first, options=shape)
        self.first += len(group.ids)
        return group

    def _free(self, symbol: g.Symbol) -> FreeSize:
        names = [item.name for item in self.graph.root.inputs]
        return FreeSize(symbol.name, names.index(symbol.input), symbol.axis, self.sizes[symbol.name])

    def _form(self, meta: g.TensorMeta) -> Form:
        shape = tuple(dim if isinstance(dim, int) else dim.evaluate(self.sizes) for dim in meta.shape)
        return Form(shape, meta.dtype)

    def _call(self, module: g.Module, given: list[Value]) -> list[Value]:
        call = self.plan.calls[next(self.calls)]
        place = _Place(call.name, call.name)
        values: Values = {}
        own = self._by_own_converter(module, call, given)
        if own is not None:
            return own
        for item, key, value in zip(module.inputs, call.inputs, given, strict=True):
            values[item.name] = [self._border(key, value)]
        results = self._nodes(module, values, place)
        return [self._border(key, value) for key, value in zip(call.outputs, results, strict=True)]

    def _nodes(self, module: g.Module, values: Values, place: _Place) -> list[Value]:
        """The outputs of a module whose inputs are in `values`."""
        for node in module.nodes:
            if node.op == g.CALL:
                assert node.target is not None
                handed = [self._as_value(self._value(ref, values, module), place) for ref in node.args]
                values[node.name] = self._call(self.graph.modules[node.target], handed)
            elif node.bodies:
                values[node.name] = self._flow(node, values, module, place)
            else:
                values[node.name] = self._operation(node, values, module, place)
        return [self._as_value(self._value(ref, values, module), place) for ref in module.outputs]

    def _flow(self, node: g.Node, values: Values, module: g.Module, place: _Place) -> list[Value]:
        """Control flow, with its bodies as graphs of their own."""

        def known(arg: g.Arg) -> Any:
            if not isinstance(arg, g.Ref):
                return arg
            return self._as_value(self._value(arg, values, module), place).port

        args = g.map_args(node.args, known)
        prefix = operation_key(place.prefix, node.name)
        bodies = {
            role: self._body(self.graph.modules[key], _Place(f"{prefix}.{role}", place.layer, is_body=True))
            for role, key in node.bodies.items()
        }
        metas = [meta for meta in node.outputs if meta is not None]
        shapes = {"shapes": [list(meta.shape) for meta in metas]}
        joint = Group(
            name=prefix,
            kind=Kind.SELECTION,
            work=CONTROL_FLOW[node.op].name,
            inputs=tuple(ports_of(args)),
            results=tuple(self._form(meta) for meta in metas),
            first=self.first,
            layer=place.layer,
            options=shapes,
        )
        self.first += len(joint.ids)
        step = Flow(f"{prefix}!", node.op, args, bodies, joint, place.layer, node.source)
        self.steps.append(step)
        return [Value(Port(step.name, index), form) for index, form in enumerate(joint.results)]

    def _body(self, module: g.Module, place: _Place) -> NeuronGraph:
        """A body of control flow. Nothing in it is a border: how often it runs depends on values."""
        outer, self.steps = self.steps, []
        inputs = [self._input(item, f"{place.prefix}/{item.name}") for item in module.inputs]
        values = {
            item.name: [Value(Port(group.name), group.results[0])]
            for item, group in zip(module.inputs, inputs, strict=True)
        }
        outputs = self._nodes(module, values, place)
        steps, self.steps = self.steps, outer
        return NeuronGraph(module.key, tuple(inputs), tuple(steps), tuple(value.port for value in outputs))

    def _by_own_converter(self, module: g.Module, call: Call, given: list[Value]) -> list[Value] | None:
        """What a layer gives, if somebody registered a converter for it."""
        layer = None if self.model is None else _submodule(self.model, module.path)
        converter = None if layer is None else converter_of(layer)
        if converter is None:
            return None
        self._skip(module)
        composer = self._composer(call.name or module.class_name, _Place(call.name, call.name))
        try:
            made = converter(composer, layer, *given)
        except Unsupported as error:
            reason = f"{error.reason} ({module.path or 'the model itself'})"
            self.todos.append(Todo(op=module.class_name, layer=module.path, reason=reason))
            return given
        results = made if isinstance(made, list) else [made]
        if not all(isinstance(one, Value) for one in results):
            raise ConvertError(
                "TP0404",
                f"the converter of {module.class_name} gave {type(made).__name__}, not a value of the composer",
                where=module.path or None,
                fix="Return what a method of the composer gives, or a list of that.",
            )
        return self._added(composer, None, (), {}, results, None)

    def _skip(self, module: g.Module) -> None:
        for node in module.nodes:
            if node.op == g.CALL:
                assert node.target is not None
                next(self.calls)
                self._skip(self.graph.modules[node.target])

    def _border(self, key: str, value: Value) -> Value:
        self.steps.append(Border(f"border:{key}", key, value.port))
        return Value(Port(f"border:{key}"), value.form)

    def _value(self, ref: g.Ref, values: Values, module: g.Module) -> Value | Weight:
        if ref.name in module.params:
            name = module.params[ref.name]
            weight = self.graph.weights[name]
            while weight.tied_to is not None:
                name, weight = weight.tied_to, self.graph.weights[weight.tied_to]
            return Weight(name, self._form(weight.meta))
        return values[ref.name][ref.index]

    def _as_value(self, operand: Value | Weight, place: _Place) -> Value:
        """A weight that is handed on as it is becomes neurons that never change."""
        if isinstance(operand, Value):
            return operand
        prefix = f"{place.prefix}/{operand.name}"
        if prefix not in self.constants:
            composer = self._composer(prefix, place)
            self.constants[prefix] = self._added(composer, None, (), {}, [composer.constant(operand)], None)[
                0
            ]
        return self.constants[prefix]

    def _operation(self, node: g.Node, values: Values, module: g.Module, place: _Place) -> list[Value]:
        def known(arg: g.Arg) -> Any:
            return self._value(arg, values, module) if isinstance(arg, g.Ref) else arg

        args, kwargs = g.map_args(node.args, known), g.map_args(node.kwargs, known)
        if node.op in RECURRENT and not place.is_body:
            args = self._remembering(args, place, node)
        composer = self._composer(operation_key(place.prefix, node.name), place)
        try:
            results = expanded(composer, node.op, args, kwargs)
        except Unsupported as error:
            return self._todo(node, module, place, error.reason)
        except Unfitting:
            return self._unfitting(node, args, kwargs, place)
        return self._added(composer, node.op, args, kwargs, results, node.source)

    def _remembering(self, args: tuple[Any, ...], place: _Place, node: g.Node) -> tuple[Any, ...]:
        """The arguments of a recurrent layer; a state that the model does not give is a memory, which begins with 0."""
        value, given, *rest = args
        states = list(given) if isinstance(given, list | tuple) else [given]
        end = f"{operation_key(place.prefix, node.name)}!"
        for index, state in enumerate(states):
            if isinstance(state, Value) and state.port.group in self.zeros:
                name = f"{end}{STATES[index]}"
                group = Group(name, Kind.MEMORY, "last", (), (state.form,), self.first, place.layer)
                self.first += len(group.ids)
                self.steps.append(Memory(group, state.port, Port(end, index + 1)))
                states[index] = Value(Port(name), state.form)
        return (value, states if isinstance(given, list | tuple) else states[0], *rest)

    def _unfitting(
        self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any], place: _Place
    ) -> list[Value]:
        """An operation without groups, which says what does not fit when it is run."""
        composer = self._composer(operation_key(place.prefix, node.name), place)
        step = assembled(composer, node.op, args, kwargs, [], node.source)
        self.steps.append(step)
        return self._results(step.name, node)

    def _composer(self, prefix: str, place: _Place) -> Composer:
        return Composer(prefix, place.layer, self.sizes, self.first)

    def _added(
        self,
        composer: Composer,
        operation: str | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: list[Value],
        source: str | None,
    ) -> list[Value]:
        self.first = composer.first
        self.made |= composer.made
        step = assembled(composer, operation, args, kwargs, results, source)
        self.steps.append(step)
        if operation == "aten.zeros.default":
            self.zeros.add(step.name)
        return [Value(Port(step.name, index), value.form) for index, value in enumerate(results)]

    def _todo(self, node: g.Node, module: g.Module, place: _Place, why: str) -> list[Value]:
        layer = module.path or self.graph.root.class_name
        reason = f"{module.class_name} is not supported for conversion: {layer} has {node.op}, {why}"
        self.todos.append(Todo(op=node.op, layer=layer, source=node.source, reason=reason))
        return self._results(f"{operation_key(place.prefix, node.name)}!", node)

    def _results(self, step: str, node: g.Node) -> list[Value]:
        """The results of a step that has no groups to say what they are."""
        return [
            Value(Port(step, index), self._form(meta))
            for index, meta in enumerate(node.outputs)
            if meta is not None
        ]


def _submodule(model: nn.Module, path: str) -> nn.Module | None:
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None
