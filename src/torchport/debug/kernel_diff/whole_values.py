"""The model from end to end as calls of a plan: the model itself with its outputs, and a call for each gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from torchport.candidates import leaves
from torchport.capture import source
from torchport.debug.kernel_diff.measuring import Values
from torchport.debug.kernel_diff.whole_model import ModelRun
from torchport.parity.result import Layer
from torchport.trace.plan import Call, output_key


@dataclass(frozen=True)
class WholeRuns:
    """The model as it is, in float64 if it can be run so, and compiled; None if the backend could not."""

    eager: ModelRun
    truth: ModelRun | None
    compiled: ModelRun | None


def keyed(run: ModelRun | None, root: str) -> dict[str, Tensor]:
    """The outputs and gradients of a run, by key."""
    if run is None:
        return {}
    found = {output_key(root, index): tensor for index, tensor in enumerate(run.outputs)}
    return found | {name: tensor for name, tensor in run.gradients.items() if tensor is not None}


def add_values(values: Values, runs: WholeRuns, root: str) -> None:
    """Puts outputs and gradients into the values; the reason for those that the compiled model lacks."""
    if runs.compiled is None:
        return
    truths, given = keyed(runs.truth, root), keyed(runs.compiled, root)
    is_same = leaves.is_same_structure(runs.compiled.structure, runs.eager.structure)
    for key, golden in keyed(runs.eager, root).items():
        values.own_golden[key] = values.golden[key] = golden
        if key.partition(":")[0] == root and not is_same:
            got, expected = (leaves.described(run.structure) for run in (runs.compiled, runs.eager))
            values.reasons[key] = f"the compiled model returns {got} where {expected} was expected"
        elif key in given:
            values.put(key, given[key], golden, truths.get(key), None)
        else:
            values.reasons[key] = "the compiled model has no such gradient"


def root_call(model: nn.Module, runs: WholeRuns, root: str) -> Call:
    kind = type(model)
    keys = (
        [] if runs.compiled is None else [output_key(root, place) for place in range(len(runs.eager.outputs))]
    )
    return Call(root, "", f"{kind.__module__}.{kind.__qualname__}", [], keys, source.definition(kind), None)


def gradient_calls(model: nn.Module, runs: WholeRuns, root: str) -> list[Call]:
    """A call for each gradient that eager PyTorch has."""
    if runs.compiled is None:
        return []
    names = [name for name, tensor in runs.eager.gradients.items() if tensor is not None]
    return [Call(name, name, _type(model, name), [], [name], None, root) for name in names]


def surplus_gradients(runs: WholeRuns, root: str) -> list[Layer]:
    """A failed layer for each gradient that the compiled model has and eager PyTorch has not."""
    if runs.compiled is None:
        return []
    given: Mapping[str, Tensor | None] = runs.compiled.gradients
    names = [name for name, one in given.items() if one is not None and runs.eager.gradients[name] is None]
    reason = "the compiled model has a gradient where eager PyTorch has none"
    return [_failed(name, "gradient", reason, root) for name in names]


def _failed(name: str, kind: str, reason: str, parent: str) -> Layer:
    return Layer(name=name, type=kind, own=None, chained=None, passed=False, reason=reason, parent=parent)


def _type(model: nn.Module, name: str) -> str:
    path, _, attribute = name.rpartition(".")
    if name.startswith("input "):
        return f"gradient of {type(model).__name__}.{name}"
    return f"gradient of {type(model.get_submodule(path)).__name__}.{attribute}"
