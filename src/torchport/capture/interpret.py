"""Runs a Graph with torch.

In: a graph, its weights and inputs. Out: the outputs; the value of every trace key is shown on the way. If the outputs
are what the model itself computed, the capture is complete. The same run in float64, with the golden value put back at
every key, gives the truth that tolerances stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.control_flow import CONTROL_FLOW, Bodies, Body, decides
from torchport.capture.drawn import shown_nodes
from torchport.capture.in_double import IN_DOUBLE
from torchport.capture.plan import Plan
from torchport.capture.torch_internals import OpOverload, eps_of_rms_norm, pytree
from torchport.errors import CaptureError
from torchport.trace.plan import operation_key

Watch = Callable[[str, torch.Tensor], torch.Tensor]
"""Takes a trace key and the value there, and returns the value to continue with. Complex numbers come as pairs."""

_WIDE = {**dict.fromkeys(("float16", "bfloat16", "float32"), "float64"), "complex64": "complex128"}
_RMS_NORM = "aten.rms_norm.default"
_STABLE = {"aten.sort.default": "aten.sort.stable", "aten.argsort.default": "aten.argsort.stable"}
"""Sorts that may put equal elements in any order, and those that keep theirs. An order that nobody promised, such as
that of tokens with the same expert, is no fault of a port that has another."""
_RUN_AS = {
    # The weights are the model's own tensors: what forward writes to a buffer becomes a new value instead.
    "aten.copy_.default": "aten.copy.default",
    # A graph has no copies, which the model makes of a view that is conjugated or negated only when it is read.
    "aten._conj.default": "aten._conj_physical.default",
    "aten._neg_view.default": "aten.neg.default",
}


class Interpreter:
    """One evaluation of a graph. With `truth`, floating point numbers are computed in float64, one weight at a time."""

    def __init__(
        self,
        graph: g.Graph,
        weights: Mapping[str, torch.Tensor],
        plan: Plan,
        watch: Watch,
        *,
        truth: bool = False,
        nodes: bool = False,
        observed: Mapping[str, Sequence[torch.Tensor]] | None = None,
    ):
        self.graph, self.weights, self.plan, self.watch = graph, weights, plan, watch
        self.truth, self.nodes, self.observed = truth, nodes, observed or {}
        self.measured = graph.measured
        self.inside: list[str] = []
        """The names of the calls that have begun and not ended, the innermost last."""
        self.decides_itself = not truth
        """Whether branches and loops inside control flow go by what is computed, or by what the model computes."""
        self.bodies_run: set[str] = set()
        """The keys of the bodies of control flow that ran."""
        self._taken: list[bool] = []
        """What was decided in bodies so far."""
        self._to_take: Iterator[bool] | None = None
        """What is to be decided, if another run of the same bodies decides it."""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        root = self.graph.root
        shapes = {item.name: tuple(t.shape) for item, t in zip(root.inputs, inputs, strict=True)}
        self.bindings = self.graph.bindings(shapes)
        self.calls = iter([name for kind, name in self.plan.events if kind == "enter"])
        device = inputs[0].device if inputs else torch.device("cpu")
        self.device = device
        with torch.no_grad():
            given = zip(root.inputs, inputs, strict=True)
            return self._call(root, [self._widen(_as_meant(item.meta, t)) for item, t in given])

    def _call(self, module: g.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        call = self.plan.calls[next(self.calls)]
        self.inside.append(call.name)
        values: dict[str, Any] = {}
        for item, key, value in zip(module.inputs, call.inputs, inputs, strict=True):
            values[item.name] = self._watched(key, value)
        uses, shown = _last_uses(module), shown_nodes(module)
        for index, node in enumerate(module.nodes):
            if node.op == g.CALL:
                assert node.target is not None
                args = [self._value(ref, values, module) for ref in node.args]
                values[node.name] = self._call(self.graph.modules[node.target], args)
            else:
                values[node.name] = self._operation(node, values, module)
                self._measure(node, values[node.name])
                is_shown = self.nodes or node.name in shown
                if is_shown and isinstance(values[node.name], torch.Tensor):
                    values[node.name] = self._watched(operation_key(call.name, node.name), values[node.name])
            for name in uses.get(index, ()):
                values.pop(name, None)
        results = [self._value(ref, values, module) for ref in module.outputs]
        self.inside.pop()
        return [self._watched(key, value) for key, value in zip(call.outputs, results, strict=True)]

    def _size(self, size: g.Sym, node: g.Node) -> int:
        if missing := sorted(size.symbols() - self.bindings.keys()):
            raise CaptureError(
                "TP0202",
                f"{node.op} needs the size {missing[0]!r}, which depends on data that its module does not see",
                where=node.source,
                fix="compute the size in the module that uses it",
            )
        return size.evaluate(self.bindings)

    def _measure(self, node: g.Node, value: Any) -> None:
        """Notes the sizes of a result that depend on data."""
        for meta, tensor in zip(
            node.outputs, value if isinstance(value, list | tuple) else [value], strict=False
        ):
            for dim, size in zip(
                () if meta is None else meta.shape, getattr(tensor, "shape", ()), strict=False
            ):
                if isinstance(dim, g.Sym) and dim.expr in self.measured:
                    self.bindings[str(dim.expr)] = size

    def _watched(self, key: str, value: torch.Tensor) -> torch.Tensor:
        if value.is_complex():
            pairs = torch.view_as_real(value.resolve_conj())
            return self._widen(torch.view_as_complex(self.watch(key, pairs).contiguous()))
        return self._widen(self.watch(key, value))

    def _operation(
        self, node: g.Node, values: dict[str, Any], module: g.Module, *, inside_body: bool = False
    ) -> Any:
        if node.op == g.UNKNOWN:
            return [self._widen(value) for value in self.observed[node.kwargs["label"]]]

        def evaluate(arg: g.Arg) -> Any:
            if isinstance(arg, g.Ref):
                return self._value(arg, values, module)
            if isinstance(arg, g.Sym):
                return self._size(arg, node)
            if isinstance(arg, g.Dtype):
                return getattr(torch, _WIDE.get(arg.name, arg.name) if self.truth else arg.name)
            if isinstance(arg, g.Device):
                return self.device
            if isinstance(arg, g.Layout | g.MemoryFormat):
                return getattr(torch, arg.name)
            return arg

        args, kwargs = g.map_args(node.args, evaluate), g.map_args(node.kwargs, evaluate)
        if inside_body:
            return self._compute(node, args, kwargs)
        with self._decided_as_in_the_model(node, args, module):
            return self.apply(node, args, kwargs)

    def apply(self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operation of a module that is called; those inside bodies do not come by here."""
        return self._compute(node, args, kwargs)

    def _compute(self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.bodies:
            return self._control_flow(node, args)
        if self.truth and node.op == _RMS_NORM:
            args, kwargs = _with_own_eps(node, args, kwargs)
        if node.op in _STABLE:
            given = operations.bind(node.op, args, kwargs)
            return self.overload(_STABLE[node.op])(given.pop("self"), stable=True, **given)
        if self.truth and node.op in IN_DOUBLE:
            return IN_DOUBLE[node.op](*args, **kwargs)
        result = self.overload(node.op)(*args, **kwargs)
        # Other values are float64 already, and some operations refuse to mix.
        return pytree.tree_map_only(torch.Tensor, self._widen, result) if self.truth else result

    # control flow

    def _control_flow(self, node: g.Node, args: tuple[Any, ...]) -> list[torch.Tensor]:
        bodies = Bodies(
            {role: self._body(self.graph.modules[key]) for role, key in node.bodies.items()},
            self._decide,
            lambda first: [self._empty(meta) for meta in node.outputs[first:]],
        )
        results = CONTROL_FLOW[node.op].run(bodies, *args)
        given = {id(tensor) for tensor in _tensors(args)}
        return [result.clone() if id(result) in given else result for result in results]

    def _body(self, module: g.Module) -> Body:
        uses = _last_uses(module)

        def run(operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            self.bodies_run.add(module.key)
            names = [item.name for item in module.inputs]
            values: dict[str, Any] = dict(zip(names, operands, strict=True))
            for index, node in enumerate(module.nodes):
                values[node.name] = self._operation(node, values, module, inside_body=True)
                for name in uses.get(index, ()):
                    values.pop(name, None)
            return [self._value(ref, values, module) for ref in module.outputs]

        return run

    def _decide(self, condition: torch.Tensor) -> bool:
        self._taken.append(bool(condition) if self._to_take is None else next(self._to_take))
        return self._taken[-1]

    @contextmanager
    def _decided_as_in_the_model(
        self, node: g.Node, args: tuple[Any, ...], module: g.Module
    ) -> Iterator[None]:
        """Within, what other arithmetic decides in bodies is what the model decides in its own, from the same operands.

        Otherwise a loop could end one step earlier, and the truth would be that of another computation.
        """
        if not self.decides_itself and self._has_decisions(node):
            self._to_take = iter(self._decisions(node, args, module))
        try:
            yield
        finally:
            self._to_take = None

    def _has_decisions(self, node: g.Node) -> bool:
        modules = self.graph.modules
        inside = (modules[key] for body in node.bodies.values() for key in g.reached(modules, body))
        return decides(node.op) or any(decides(one.op) for body in inside for one in body.nodes)

    def _decisions(self, node: g.Node, args: tuple[Any, ...], module: g.Module) -> list[bool]:
        plain = Interpreter(self.graph, self.weights, self.plan, self.watch)
        plain.bindings, plain.device = self.bindings, self.device
        metas = g.value_metas(module, self.graph.weights)
        dtypes = iter([getattr(torch, metas[ref].dtype) for ref in g.refs(node.args)])
        narrow = g.map_args(args, lambda arg: arg.to(next(dtypes)) if isinstance(arg, torch.Tensor) else arg)
        plain._compute(node, narrow, {})
        return plain._taken

    def _empty(self, meta: g.TensorMeta | None) -> torch.Tensor:
        assert meta is not None
        sizes = [dim.evaluate(self.bindings) if isinstance(dim, g.Sym) else dim for dim in meta.shape]
        return self._widen(torch.empty(sizes, dtype=getattr(torch, meta.dtype), device=self.device))

    def _value(self, ref: g.Ref, values: dict[str, Any], module: g.Module) -> torch.Tensor:
        if ref.name in module.params:
            return self._widen(self.weights[module.params[ref.name]])
        value = values[ref.name]
        picked: torch.Tensor = value[ref.index] if isinstance(value, list | tuple) else value
        return picked

    def _widen(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.truth and tensor.is_complex():
            return tensor.to(torch.complex128)
        return tensor.double() if self.truth and tensor.is_floating_point() else tensor

    def overload(self, name: str) -> OpOverload:
        """The operation that is run for a name."""
        return operations.overload(_RUN_AS.get(name, name))


def _as_meant(meta: g.TensorMeta, tensor: torch.Tensor) -> torch.Tensor:
    """An input, which a trace has as pairs if it is complex."""
    if meta.dtype.startswith("complex") and not tensor.is_complex():
        return torch.view_as_complex(tensor.contiguous())
    return tensor


def _tensors(args: Any) -> Iterator[torch.Tensor]:
    if isinstance(args, torch.Tensor):
        yield args
    elif isinstance(args, list | tuple):
        for item in args:
            yield from _tensors(item)


def _with_own_eps(
    node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The operands of a norm whose eps is that of its dtype: the dtype that it has in the model, not float64."""
    given = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)) | kwargs
    meta = node.outputs[0]
    if given.get("eps") is None and meta is not None:
        given["eps"] = eps_of_rms_norm(getattr(torch, meta.dtype))
    return (), given


def _last_uses(module: g.Module) -> dict[int, list[str]]:
    """The values that nobody reads after a node, by the node's index, so that they can be freed."""
    last: dict[str, int] = {}
    for index, node in enumerate(module.nodes):
        last.setdefault(node.name, index)
        for ref in g.refs([node.args, node.kwargs]):
            last[ref.name] = index
    kept = {ref.name for ref in module.outputs}
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in kept:
            uses.setdefault(index, []).append(name)
    return uses
