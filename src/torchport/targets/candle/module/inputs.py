"""The tensors that a module reads from outside: its inputs as arguments, its weights as fields."""

from __future__ import annotations

import torch

from torchport.capture import graph as g
from torchport.targets.base import Todo
from torchport.targets.candle import rust
from torchport.targets.candle.body import Number, Value
from torchport.targets.candle.code import Code, InputName, Parameter, as_code, code, tuple_of
from torchport.targets.candle.emit import Emitter, as_pairs


def declare_inputs(e: Emitter) -> None:
    for index, item in enumerate(e.module.inputs):
        ref, name = g.Ref(item.name), InputName(index)
        e.values[ref] = Value(as_code(name), "ref")
        e.learn(ref, item.meta)
        e.body.inputs.append(name)


def add_weights(e: Emitter) -> None:
    """Gives each weight that the module reads a field, unless the struct has one for it already."""
    for node_name, weight_name in e.module.params.items():
        weight = e.graph.weights[weight_name]
        if weight_name not in e.weight_fields:
            e.weight_fields[weight_name] = _add_field(e, weight, weight_name)
        e.values[g.Ref(node_name)] = Value(code("self.{}", e.weight_fields[weight_name]), "owned")
        e.learn(g.Ref(node_name), weight.meta)


def _add_field(e: Emitter, weight: g.Weight, full_name: str) -> str:
    is_below = not e.path or full_name.startswith(f"{e.path}.")
    local = full_name.removeprefix(f"{e.path}.") if e.path else full_name
    builder = as_code(Parameter.BUILDER) if is_below else code("{}.root()", Parameter.BUILDER)
    init = _read(e, weight, full_name, local, builder)
    return e.add_field(local.replace("parametrizations.", ""), "Tensor", init)


def _read(e: Emitter, weight: g.Weight, full_name: str, local: str, builder: Code) -> Code:
    """The expression that reads a weight from the VarBuilder, or computes it."""
    if weight.value is not None:
        return _computed(e, weight, weight.value, builder)
    meta = as_pairs(weight.meta)
    shape = tuple_of(
        [
            e.slot(int(d), "size", new=True, place=f"{full_name}[{axis}]")  # type: ignore[arg-type]
            for axis, d in enumerate(meta.shape)
        ]
    )
    if meta.dtype == "float32":
        return code('{}.get({}, "{}")?', builder, shape, local)
    dtype = rust.STORED.get(meta.dtype)
    if dtype is None:
        reason = f"{full_name} has dtype {weight.meta.dtype}, which candle does not have"
        e.body.todos.append(Todo(op="weight", layer=e.module.path, source=e.module.source, reason=reason))
        return code('torchport_runtime::todo("{}")?', reason)
    options = code('{}, "{}", Default::default(), DType::{}', shape, local, dtype)
    return code("{}.get_with_hints_dtype({})?", builder, options)


def _computed(e: Emitter, weight: g.Weight, value: int | float, builder: Code) -> Code:
    """A tensor that is one number, and follows from the model's sizes."""
    if isinstance(value, int):
        return code("Tensor::new({}, {}.device())?", e.slot(value, "scale", "i64", new=True), builder)
    digits = 2 * torch.finfo(getattr(torch, weight.meta.dtype)).eps
    number = e.slot(value, "scale", "f64", new=True, digits=max(digits, Number.digits))
    dtype = (
        code("{}.dtype()", builder)
        if weight.meta.dtype == "float32"
        else f"DType::{rust.STORED[weight.meta.dtype]}"
    )
    return code("Tensor::new({}, {}.device())?.to_dtype({})?", number, builder, dtype)
