"""The model from end to end: its outputs, and the gradients of its parameters and inputs, by name.

In: the model, or what torch.compile made of it. Nothing is observed, so this is what a user gets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.candidates import leaves
from torchport.candidates.losses import Loss, starts_of
from torchport.capture.random_numbers import global_random_state, random_numbers_kept
from torchport.capture.state import state_kept
from torchport.debug.kernel_diff.captured import same_layout
from torchport.debug.kernel_diff.results import Structure, dtype_of_numbers, values_of
from torchport.debug.kernel_diff.route import synchronize
from torchport.debug.kernel_diff.truth import InFloat64, NoFloat64
from torchport.debug.kernel_diff.written import Before

SEED = 0
FORWARD_ONLY = "only the forward pass: neither a parameter nor an input has requires_grad"
NO_GRADIENT = "only the forward pass: no output of the model can be differentiated"


@dataclass
class ModelRun:
    outputs: list[Tensor] = field(default_factory=list)
    structure: Structure = ()
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    """By the name of a parameter or input."""
    written: dict[str, Tensor] = field(default_factory=dict)
    """By name, the buffers, parameters and inputs that are others after the run."""
    random_state: list[bytes] = field(default_factory=list)
    """Where the generators of random numbers are after the run."""
    truth: str | None = None
    """Of a run in float64: which operations have no kernel in float64, and how they were computed."""

    @property
    def has_gradients(self) -> bool:
        return any(one is not None for one in self.gradients.values())


@dataclass
class WholeModel:
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    gradients: bool
    loss: Loss | None
    before: Before | None = None
    """The weights as they are before each run of a comparison."""
    notes: tuple[str, ...] = ()
    """Why there is no backward pass, although one was asked for."""
    _inputs: dict[int, str] = field(default_factory=dict)
    """By address, the names of the inputs of the last run."""

    @classmethod
    def of(
        cls,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        gradients: bool,
        loss: Loss | None = None,
    ) -> Self:
        """With a backward pass, if one is asked for and a parameter or an input has `requires_grad`."""
        given = (one for _, one in leaves.tensors((args, dict(kwargs))))
        is_possible = any(one.requires_grad for one in (*model.parameters(), *given))
        notes = (FORWARD_ONLY,) if gradients and not is_possible else ()
        return cls(model, args, kwargs, gradients and is_possible, loss, notes=notes)

    def forward_only(self, why: str) -> Self:
        return dataclasses.replace(self, gradients=False, notes=(*self.notes, why))

    def keep_weights(self) -> None:
        """Notes the weights as they are now; called before a comparison, since users may have changed them."""
        self.before = Before.of(self.model, self.before)

    def copy_of_weight(self, tensor: Tensor) -> Tensor | None:
        return None if self.before is None else self.before.copy_of(tensor)

    def name_of(self, tensor: Tensor) -> str | None:
        """The name of a weight, or of an input of the run that goes on just now."""
        weight = None if self.before is None else self.before.name_of(tensor)
        return weight or self._inputs.get(tensor.data_ptr())

    def run(self, call: Callable[..., Any] | None = None) -> ModelRun:
        """One pass forward and, if gradients are compared, one back; the model is left as it was.

        `call` is what torch.compile made of the model; without it the model itself is run.
        """
        with self.undisturbed(), torch.set_grad_enabled(self.gradients):
            return self._run(self.model if call is None else call)

    def in_float64(self) -> ModelRun | None:
        wide = InFloat64()
        run = self._in(wide(self.model), torch.float64)
        return None if run is None else dataclasses.replace(run, truth=wide.described())

    def emulated(self, arithmetic: Arithmetic) -> ModelRun | None:
        return self._in(Emulated(arithmetic), None)

    def _in(self, mode: AbstractContextManager[Any], dtype: torch.dtype | None) -> ModelRun | None:
        """The run within a mode; None if the model cannot be run so."""
        try:
            with self.undisturbed(), torch.set_grad_enabled(self.gradients), mode:
                return self._run(self.model, dtype)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, NoFloat64):
            return None

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within, random numbers start anew; afterwards the model and all random numbers are as they were."""
        with random_numbers_kept(self.model), state_kept(self.model, runs=False):
            torch.manual_seed(SEED)
            yield

    def _run(self, call: Callable[..., Any], dtype: torch.dtype | None = None) -> ModelRun:
        given = self.args, dict(self.kwargs)
        args, kwargs = leaves.copied(given, lambda one: self._input(one, dtype))
        inputs = leaves.tensors((args, kwargs))
        self._inputs = {one.data_ptr(): name_of_input(path) for path, one in inputs}
        before = self.before or Before.of(self.model)
        try:
            result = call(*args, **kwargs)
            run = ModelRun(*values_of(result, dtype or self._dtype_of_numbers()))
            if self.gradients:
                run.gradients = self._gradients(result, inputs)
            synchronize()
            run.random_state = global_random_state(self.model)
            originals = [tensor for _, tensor in leaves.tensors(given)]
            pairs = zip(originals, inputs, strict=True)
            run.written = before.written({name_of_input(path): (old, new) for old, (path, new) in pairs})
        finally:
            before.put_back()
        return run

    def _dtype_of_numbers(self) -> torch.dtype:
        given = [tensor for _, tensor in leaves.tensors((self.args, dict(self.kwargs)))]
        return dtype_of_numbers(list(self.model.parameters()) or given)

    def _input(self, tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
        is_float = tensor.is_floating_point()
        copied: Tensor = same_layout(tensor)
        if dtype is not None and (is_float or tensor.is_complex()):
            copied = copied.to(dtype if is_float else dtype.to_complex())
        return copied.requires_grad_(self.gradients and (is_float or tensor.is_complex()))

    def _gradients(self, result: Any, inputs: list[tuple[leaves.Path, Tensor]]) -> dict[str, Tensor | None]:
        wanted: dict[str, Tensor] = {
            name: one for name, one in self.model.named_parameters() if one.requires_grad
        }
        wanted |= {name_of_input(path): one for path, one in inputs if one.requires_grad}
        starts = [
            (start, gradient) for start, gradient in starts_of(result, self.loss) if _has_gradient(start)
        ]
        if not starts or not wanted:
            return {}
        ends, given = zip(*starts, strict=True)
        found = torch.autograd.grad(ends, list(wanted.values()), given, allow_unused=True)
        return dict(zip(wanted, found, strict=True))


def _has_gradient(start: Any) -> bool:
    return isinstance(start, Tensor) and start.requires_grad


def name_of_input(path: leaves.Path) -> str:
    """`input 0`, `input 'mask'`, `input 'cache'[1]`: by position, or by the name of the argument."""
    first, *rest = path[1:]
    return f"input {first!r}{''.join(f'[{part!r}]' for part in rest)}"
