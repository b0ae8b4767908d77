"""The kinds of fault, each with the suggestions that would be right for it.

A kind without one would be a fault that torchport does not promise to explain, counted for detection and blame only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

KINDS: dict[str, frozenset[str]] = {
    "activation": frozenset({"activation"}),
    "activation twice": frozenset({"repeated"}),
    "align_corners": frozenset({"align_corners", "interpolation"}),
    "another operand": frozenset({"swapped_operands", "wrong_tensor"}),
    "bias dropped": frozenset({"bias", "stale_weight"}),
    "bias twice": frozenset({"repeated"}),
    "broadcast on the wrong side": frozenset({"axis", "broadcast"}),
    "causal off by one": frozenset({"causal", "comparison", "mask"}),
    "conv kernel transposed": frozenset({"transposed_weight"}),
    "dilation dropped": frozenset({"dilation"}),
    "dropout left on": frozenset({"dropout"}),
    "epsilon": frozenset({"eps"}),
    "first slice dropped": frozenset({"shifted"}),
    "flatten order": frozenset({"channels_last"}),
    "gelu for gelu-tanh": frozenset({"gelu_tanh"}),
    "GRU gate order": frozenset({"gate_order"}),
    "half precision": frozenset({"half"}),
    "halves exchanged": frozenset({"permuted", "shifted"}),
    "heads split wrongly": frozenset({"heads"}),
    "integer division": frozenset({"rounding_mode"}),
    "last slice zeroed": frozenset({"zeroed"}),
    "last part of a cat off by 10 %": frozenset({"scale"}),
    "LSTM gate order": frozenset({"gate_order"}),
    "mask inverted": frozenset({"mask"}),
    "NaN in one element": frozenset({"nan"}),
    "nearest for linear": frozenset({"interpolation"}),
    "number applied twice": frozenset({"repeated", "scale"}),
    "one element off by 10 %": frozenset({"one_element", "stale_weight"}),
    "one small channel off by 10 %": frozenset({"stale_weight", "scale"}),
    "padding": frozenset({"pad"}),
    "padding mode": frozenset({"pad_mode"}),
    "pooling": frozenset({"operation"}),
    "positions off by one": frozenset({"off_by_one"}),
    "q and k swapped": frozenset({"swapped_operands"}),
    "residual dropped": frozenset({"dropped_operand"}),
    "residual twice": frozenset({"repeated"}),
    "rolled by one": frozenset({"shifted"}),
    "rotary halves swapped": frozenset({"rotary", "swapped_operands"}),
    "scale missing": frozenset({"scale"}),
    "scale of 1.0005": frozenset({"scale"}),
    "sign": frozenset({"sign"}),
    "scale off by 0.03 %": frozenset({"scale"}),
    "softmax axis": frozenset({"softmax_axis", "axis"}),
    "stale buffer": frozenset({"stale_weight"}),
    "statistics swapped": frozenset({"statistics_swapped", "neighbour_weight"}),
    "stride": frozenset({"stride"}),
    "tied weight untied": frozenset({"stale_weight", "neighbour_weight"}),
    "transposed weight": frozenset({"transposed_weight"}),
    "value clipped": frozenset({"clipped"}),
    "weight of a neighbour": frozenset({"neighbour_weight"}),
    "weights averaged": frozenset({"mixed_weight"}),
    "wrong axis": frozenset({"axis"}),
}

Function = TypeVar("Function", bound=Callable)


def of_kind(table: dict[str, list[Function]], kind: str) -> Callable[[Function], Function]:
    """Registers a fault in a table under its kind; several may be of one kind."""
    if kind not in KINDS:
        raise ValueError(f"there is no kind of fault {kind!r}")

    def decorate(function: Function) -> Function:
        table.setdefault(kind, []).append(function)
        return function

    return decorate
