"""The model from end to end as calls of a plan: the model itself with its outputs, and a call for each gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from torchport.candidates import leaves
from torchport.capture import source
from torchport.debug.kernel_diff.results import described
from torchport.debug.kernel_diff.values import Value, Values
from torchport.debug.kernel_diff.whole_model import ModelRun
from torchport.parity.dtypes import name_of
from torchport.parity.result import Layer
from torchport.trace.plan import Call, output_key


@dataclass(frozen=True)
class WholeRuns:
    """The model as it is, in float64 if it can be run so, and compiled; None if the backend could not."""

    eager: ModelRun
    truth: ModelRun | None
    compiled: ModelRun | None

    @property
    def drew_as_many(self) -> bool:
        """Whether the compiled model drew as many random numbers as the model itself."""
        return self.compiled is not None and self.compiled.random_state == self.eager.random_state


def keyed(run: ModelRun | None, root: str) -> dict[str, Tensor]:
    """The outputs, gradients and written values of a run, by key."""
    if run is None:
        return {}
    found = {output_key(root, index): tensor for index, tensor in enumerate(run.outputs)}
    gradients = {name: tensor for name, tensor in run.gradients.items() if tensor is not None}
    return found | gradients | run.written


def add_values(values: Values, runs: WholeRuns, root: str) -> None:
    """Puts all that a run leaves into the values; the reason for what the compiled model lacks."""
    if runs.compiled is None:
        return
    truths, given = keyed(runs.truth, root), keyed(runs.compiled, root)
    is_same = leaves.is_same_structure(runs.compiled.structure, runs.eager.structure)
    outputs = {output_key(root, place) for place in range(len(runs.eager.outputs))}
    for key, golden in keyed(runs.eager, root).items():
        values.keep_golden(key, golden)
        if key in outputs and not is_same:
            got, expected = (described(run.structure) for run in (runs.compiled, runs.eager))
            values.reasons[key] = f"the compiled model returns {got} where {expected} was expected"
        elif key not in given:
            is_written = key in runs.eager.written
            values.reasons[key] = f"the compiled model {'does not write to it' if is_written else 'has none'}"
        elif (why := _why_of_another_kind(golden, given[key])) is not None:
            values.reasons[key] = why
        else:
            values.keep(Value(key, given[key], golden, truths.get(key)))
            if runs.truth is not None and runs.truth.truth is not None:
                values.truths[root if key in outputs else key] = runs.truth.truth


def _why_of_another_kind(golden: Tensor, given: Tensor) -> str | None:
    if given.dtype != golden.dtype:
        return f"dtype {name_of(given.dtype)} where {name_of(golden.dtype)} was expected"
    if given.device != golden.device:
        return f"on {given.device} where {golden.device} was expected"
    return None


def root_call(model: nn.Module, runs: WholeRuns, root: str) -> Call:
    kind = type(model)
    keys = (
        [] if runs.compiled is None else [output_key(root, place) for place in range(len(runs.eager.outputs))]
    )
    return Call(root, "", f"{kind.__module__}.{kind.__qualname__}", [], keys, source.definition(kind), None)


def calls_beside_outputs(model: nn.Module, runs: WholeRuns, root: str) -> list[Call]:
    """A call for each gradient that eager PyTorch has, and for each value that it writes to."""
    if runs.compiled is None:
        return []
    names = [name for name, tensor in runs.eager.gradients.items() if tensor is not None]
    found = [Call(name, name, _type(model, name), [], [name], None, root) for name in names]
    written = runs.eager.written
    return found + [Call(name, name, "value after the run", [], [name], None, root) for name in written]


def surplus(runs: WholeRuns, root: str) -> list[Layer]:
    """A failed layer for what the compiled model has a gradient for, or writes to, and eager PyTorch does not."""
    if runs.compiled is None:
        return []
    given, known = runs.compiled.gradients, runs.eager.gradients
    names = [name for name, one in given.items() if one is not None and known.get(name) is None]
    reason = "the compiled model has a gradient where eager PyTorch has none"
    found = [_failed(name, "gradient", reason, root) for name in names]
    reason = "the compiled model writes to it, and eager PyTorch does not"
    written = [name for name in runs.compiled.written if name not in runs.eager.written]
    return found + [_failed(name, "value after the run", reason, root) for name in written]


def _failed(name: str, kind: str, reason: str, parent: str) -> Layer:
    return Layer(name=name, type=kind, own=None, chained=None, passed=False, reason=reason, parent=parent)


def _type(model: nn.Module, name: str) -> str:
    path, _, attribute = name.rpartition(".")
    if name.startswith("input "):
        return f"gradient of {type(model).__name__}.{name}"
    return f"gradient of {type(model.get_submodule(path)).__name__}.{attribute}"
