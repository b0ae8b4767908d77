"""What the neurons of a group compute, as one call of torch for the whole group.

In: a group, the values that arrive, and the arrays of the graph. Out: the results of the group. The same works are done
message by message in `messages`, and the two must agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.marble import activations, sparse
from torchport.targets.marble.groups import Group, Kind

Work = Callable[[Sequence[Tensor], Mapping[str, Tensor], Mapping[str, Any]], Any]
"""Takes the values that arrive, the arrays by what they are for, and the options."""
Sizes = Mapping[str, int]


def compute(
    group: Group, inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], sizes: Sizes
) -> list[Tensor]:
    """The results of a group; `sizes` are the free sizes of this run."""
    own = {purpose: arrays[name] for purpose, name in group.weights.items()}
    options = {name: settled(value, sizes) for name, value in group.options.items()}
    arriving = inputs[: len(group.own_inputs)]
    results = _own(group, arriving, own, options)
    if not sparse.has_added(group):
        return results
    sparse.must_fit(group, results, inputs[len(arriving) :])
    (more,) = compute(sparse.added_part(group), inputs[len(arriving) :], arrays, sizes)
    return [results[0] + more.to(results[0].dtype)]


def _own(
    group: Group, inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]
) -> list[Tensor]:
    if group.kind is Kind.FUNCTION and activations.is_activation(group.work):
        return [activations.apply(group.work, inputs[0], options)]
    work = WORKS[group.kind].get(group.work)
    result = work(inputs, arrays, options) if work else operation(group.work, inputs, options)
    return list(result) if isinstance(result, list | tuple) else [result]


def settled(value: Any, sizes: Sizes) -> Any:
    """An option as torch takes it: free sizes as numbers, dtypes as torch's own."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, g.Sym):
            return leaf.evaluate(sizes)
        if isinstance(leaf, g.Dtype | g.Layout | g.MemoryFormat):
            return getattr(torch, leaf.name)
        return torch.device(leaf.name) if isinstance(leaf, g.Device) else leaf

    return g.map_args(value, one)


def operation(name: str, inputs: Sequence[Tensor], options: Mapping[str, Any]) -> Any:
    """An operation of torch. The option `order` says which of its arguments arrive, and which items of lists do."""
    given = dict(options)
    if inputs and given.get("device") is not None:
        # The graph runs where its inputs are, which need not be where the model was captured.
        given["device"] = inputs[0].device
    waiting = iter(inputs)
    for argument, there in given.pop("order", []):
        given[argument] = (
            next(waiting) if there is None else [next(waiting) if is_there else None for is_there in there]
        )
    known = operations.arguments(name)
    args = [given[one.name] for one in known if not one.is_keyword_only and one.name in given]
    kwargs = {one.name: given[one.name] for one in known if one.is_keyword_only and one.name in given}
    return operations.overload(name)(*args, **kwargs)


def _aligned(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    """Each neuron adds one value of every input, times a number or a weight, and its bias."""
    total: Tensor | None = None
    for index, (value, factor) in enumerate(zip(inputs, options["factors"], strict=True)):
        weight = arrays.get(f"weight{index}")
        term = value if weight is None else value * weight
        term = term if factor == 1 else term * factor
        total = term if total is None else total + term
    assert total is not None
    bias = arrays.get("bias", options.get("bias"))
    return total if bias is None else total + bias


def _dense(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    """Each neuron adds all values along the last axis, each times a weight."""
    return functional.linear(inputs[0], arrays["weight"], arrays.get("bias"))


def _convolution(
    inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]
) -> Tensor:
    """Each neuron adds the values in its window, times weights that all neurons of a channel share."""
    return torch.convolution(inputs[0], arrays["weight"], arrays.get("bias"), **options)


def _bias(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    """Neurons whose synapses were all added one by one begin with their bias, or with 0."""
    if "bias" in arrays:
        return arrays["bias"]
    weight = arrays.get(sparse.WEIGHT)
    return torch.zeros(
        options["shape"], dtype=options["dtype"], device=None if weight is None else weight.device
    )


def _sparse(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    """Each neuron adds the values along its own synapses, whose sources are places in the inputs laid end to end."""
    values = end_to_end(inputs) if inputs else arrays["weight"]
    total = csr_product(arrays["row"], arrays["source"], arrays["weight"], values)
    shaped = total.reshape(options.get("shape", [-1]))
    return shaped + arrays["bias"].reshape(shaped.shape) if "bias" in arrays else shaped


def end_to_end(inputs: Sequence[Tensor]) -> Tensor:
    return inputs[0].reshape(-1) if len(inputs) == 1 else torch.cat([value.reshape(-1) for value in inputs])


def csr_product(row: Tensor, source: Tensor, weight: Tensor, values: Tensor) -> Tensor:
    """The sums of weighted values, row by row. Indices of 32 bits are two to three times as fast as those of 64."""
    dtype = torch.promote_types(weight.dtype, values.dtype)
    dtype = torch.int64 if dtype is torch.bool else dtype
    if values.is_meta:
        return values.new_empty(len(row) - 1, dtype=dtype)
    if not dtype.is_floating_point:
        messages = weight.to(dtype) * values.to(dtype).index_select(0, source)
        rows = torch.arange(len(row) - 1, device=row.device).repeat_interleave(row.diff())
        return messages.new_zeros(len(row) - 1).index_add(0, rows, messages)
    wide = dtype if dtype is torch.float64 else torch.float32
    size = (len(row) - 1, len(values))
    _hear_the_warning_of_sparse_tensors()
    matrix = torch.sparse_csr_tensor(row, source, weight.to(wide), size, check_invariants=False)
    product: Tensor = matrix @ values.to(wide)
    return product.to(dtype)


@cache
def _hear_the_warning_of_sparse_tensors() -> None:
    """torch warns once in a process that they are in beta."""
    with warnings.catch_warnings(action="ignore"):
        torch.sparse_csr_tensor([0], [], [], (0, 0))


def _product(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    total = inputs[0]
    for value in inputs[1:]:
        total = total * value
    return total


def _quotient(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    return inputs[0] / inputs[1]


def _along(reduce: Callable[..., Tensor]) -> Work:
    """A reduction over some axes, or over all of them."""

    def work(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
        dims = options["dims"] if options["dims"] is not None else list(range(inputs[0].ndim))
        value = inputs[0] if options.get("dtype") is None else inputs[0].to(options["dtype"])
        return reduce(value, dims, options["keepdim"]) if dims else reduce(value[..., None], [-1], False)

    return work


def _elementwise(reduce: Callable[[Tensor, Tensor], Tensor]) -> Work:
    """A reduction of one value of every input."""

    def work(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
        total = inputs[0]
        for value in inputs[1:]:
            total = reduce(total, value)
        return total

    return work


def _array(inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    return arrays["value"]


WORKS: dict[Kind, dict[str, Work]] = {
    Kind.INPUT: {},
    Kind.MEMORY: {},
    Kind.CONSTANT: {"array": _array},
    Kind.WEIGHTED_SUM: {
        "aligned": _aligned,
        "bias": _bias,
        "dense": _dense,
        "convolution": _convolution,
        "sparse": _sparse,
    },
    Kind.FUNCTION: {},
    Kind.PRODUCT: {"product": _product, "quotient": _quotient},
    Kind.REDUCTION: {
        "sum": _along(torch.sum),
        "mean": _along(torch.mean),
        "max": _along(torch.amax),
        "min": _along(torch.amin),
        "any": _along(torch.any),
        "all": _along(torch.all),
        "larger": _elementwise(torch.maximum),
        "smaller": _elementwise(torch.minimum),
    },
    Kind.SELECTION: {},
    Kind.WIRING: {},
}
"""What is in no table is an operation of torch, by its full name."""
