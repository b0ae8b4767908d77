"""A model that is run with its calls watched: the reference, or the candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from torchport.candidates import leaves, probing, watching
from torchport.candidates.functions import FunctionModule
from torchport.capture.random_numbers import global_random_state
from torchport.capture.source import user_line
from torchport.capture.state import is_training, state_kept
from torchport.errors import CaptureError, RunError, TorchportError

_ROUNDINGS = 64
"""How many roundings two results of a model that draws no random numbers may be apart."""


@dataclass(frozen=True)
class WatchedModel:
    """One of the two: the model, its inputs, and the reference's path of each module that is watched."""

    label: str
    model: nn.Module
    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    names: dict[nn.Module, str]
    root: str
    known_as: dict[str, tuple[str, str]] | None = None
    """For each call the name and the path of the reference's call that it stands for, once that is known."""
    around: Callable[[probing.Probe], probing.Probe] | None = None
    """What is put around every probe of a run."""

    @property
    def is_function(self) -> bool:
        return isinstance(self.model, FunctionModule)

    @property
    def owners(self) -> tuple[nn.Module, ...]:
        """The modules that a function works with; none if the model is a module itself."""
        return self.model.owners if isinstance(self.model, FunctionModule) else ()

    def run(
        self,
        probe: probing.Probe,
        then: Callable[[Any], Any] = lambda result: result,
        witness: probing.Witness | None = None,
    ) -> Any:
        """What `then` makes of the outputs, before the model's state is put back.

        The inputs are copies, so that a forward that writes to them does no harm.
        """
        args, kwargs = leaves.copied(self.inputs, lambda tensor: tensor.clone())
        with ExitStack() as stack:
            for model in (self.model, *self.owners):
                stack.enter_context(state_kept(model))
            return watching.run(
                self.model,
                args,
                kwargs,
                names=self.names,
                root=self.root,
                probe=probe if self.around is None else self.around(probe),
                blame=self.failed,
                then=then,
                witness=witness,
                known_as=self.known_as,
            )

    def in_dtype(self, dtype: torch.dtype) -> WatchedModel:
        """The same model with its floating inputs in another dtype, and complex ones in that of such parts."""

        def cast(tensor: Tensor) -> Tensor:
            if tensor.is_complex():
                return tensor.to(dtype.to_complex())
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        return replace(self, inputs=leaves.copied(self.inputs, cast))

    @contextmanager
    def errors_with_a_code(self) -> Iterator[None]:
        """Within, only code of the model runs: what it raises is an error with a code, which says whose it is."""
        try:
            yield
        except (TorchportError, MemoryError):
            raise
        except Exception as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> TorchportError:
        said = f"{type(error).__name__}: {error}"
        if self.label == "reference":
            return CaptureError("TP0201", f"the reference fails its own forward: {said}", user_line(error))
        return RunError("TP0603", f"the candidate fails on these inputs: {said}", user_line(error))

    def deterministic(
        self,
        probe: probing.Probe,
        then: Callable[[Any], Any] = lambda result: result,
        witness: probing.Witness | None = None,
    ) -> Any:
        """The same; a second run must give the same outputs, which is not seen by the probe or the witness."""
        before = global_random_state(self.model)
        first, answer = self.run(probe, lambda result: (result, then(result)), witness)
        is_drawn = before != global_random_state(self.model)
        if _are_same(first, self._unwatched().run(Passive()), exactly=is_drawn):
            return answer
        raise CaptureError(
            "TP0204",
            f"the {self.label} does not give the same result twice: {self._why_not_the_same(is_drawn)}",
            fix=f"call {self.label}.eval(), or pass random tensors in as inputs",
        )

    def is_repeatable(self) -> bool:
        """Whether two runs in which nothing is changed give the same outputs."""
        plain = self._unwatched()
        return _are_same(plain.run(Passive()), plain.run(Passive()), exactly=False)

    def _unwatched(self) -> WatchedModel:
        """The same without probes in its calls, unless something is done there that it cannot be run without."""
        return replace(self, names={}) if self.around is None else self

    def _why_not_the_same(self, is_drawn: bool) -> str:
        if is_training(self.model):
            return "it is in training mode"
        if is_drawn:
            return "it draws random numbers in eval mode"
        return "it works with more than its inputs and its state, such as a random generator from outside"


def _are_same(result: Any, again: Any, *, exactly: bool) -> bool:
    ones, others = leaves.tensors(result), leaves.tensors(again)
    if [(path, tensor.shape) for path, tensor in ones] != [(path, tensor.shape) for path, tensor in others]:
        return False
    is_same = _is_same if exactly else _is_as_good_as_same
    return all(is_same(one, other) for (_, one), (_, other) in zip(ones, others, strict=True))


def _is_same(one: Tensor, other: Tensor) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _is_as_good_as_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors differ by rounding at most: some of torch's kernels add up in another order every time."""
    if _is_same(one, other) or one.dtype != other.dtype or not one.is_floating_point():
        return _is_same(one, other)
    is_finite = one.isfinite() & other.isfinite()
    if not _is_same(one[~is_finite], other[~is_finite]):
        return False
    eps = torch.finfo(one.dtype).eps
    values, again = one[is_finite].detach().double(), other[is_finite].detach().double()
    return _rms(values - again) <= min(_ROUNDINGS * eps, math.sqrt(eps)) * _rms(values)


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


class Passive(probing.NotRepeated):
    def enter(
        self, call: probing.WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors

    def leave(
        self, call: probing.WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors
