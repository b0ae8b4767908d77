"""Random numbers of a backend: whether they are those that eager PyTorch draws, and what a dropout makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.computing import Computing, Mode, as_it_is
from torchport.debug.kernel_diff.steps import Step, draws_random_numbers

ALIKE = 0.01
"""How far numbers may be apart, as a part of the largest, that were drawn alike; others are much farther apart."""


class Draws:
    """The random numbers of what runs in several goes: they begin with a seed, whatever else is drawn in between."""

    def __init__(self) -> None:
        self._states: list[Tensor] | None = None

    @contextmanager
    def going_on(self) -> Iterator[None]:
        if self._states is None:
            torch.manual_seed(0)
        else:
            torch.set_rng_state(self._states[0])
            torch.cuda.set_rng_state_all(self._states[1:])
        try:
            yield
        finally:
            self._states = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def draws_as_eager(computing: Computing) -> bool:
    """Whether the numbers that a backend drew in a graph are those of eager PyTorch from the same seed."""
    steps = [step for step in computing.steps if draws_random_numbers(step.node)]
    names = {value.name for step in steps for value in step.values}
    if not names:
        return True
    if not names <= computing.values.keys():
        return False
    drawn: dict[str, Any] = {}

    def keep(name: str, value: Any) -> None:
        if name in names:
            drawn[name] = value

    try:
        torch.manual_seed(0)
        Computing(computing.graph, computing.steps, {}, dict(computing.plain)).whole(as_it_is, keep)
    except Exception:
        return False
    return all(_are_alike(drawn[name], computing.values[name]) for name in names)


def _are_alike(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one.cpu(), other.cpu())
    one, other = (value.cpu().double() for value in (one, other))
    if one.numel() == 0:
        return True
    largest = float(one.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(one, other, rtol=ALIKE, atol=ALIKE * largest, equal_nan=True)


def is_dropout(step: Step) -> bool:
    """Whether an operation drops elements, so that what is left tells which, and its scale can be compared."""
    return step.node.target is torch.ops.aten.native_dropout.default and draws_random_numbers(step.node)


def dropped(computing: Computing, step: Step, mode: Mode = as_it_is) -> list[Any]:
    """What a dropout gives that leaves out the elements which the backend left out."""
    given: Mapping[int, Tensor] = {
        int(value.args[1]): computing.values[value.name]  # type: ignore[arg-type]
        for value in step.values
    }
    taken: list[Any] = list(step.node.args)
    x, probability, is_training = (
        computing.given(one) if isinstance(one, torch.fx.Node) else one for one in taken
    )
    kept = given[1] if 0 not in given else given[0] != 0
    scale = 1.0 if is_training is False else 0.0 if probability >= 1 else 1 / (1 - probability)
    with torch.no_grad(), mode():
        values = x.mul(kept).mul(scale)
    is_told = (x != 0) & x.isfinite()
    found = {0: values, 1: torch.where(is_told, kept, given.get(1, kept))}
    return [found[int(value.args[1])] for value in step.values]  # type: ignore[arg-type]
