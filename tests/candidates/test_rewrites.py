"""A sample of the faults in rewrites: the layer, the operation and the cause are right; noise has no cause.

`python -m benchmarks.faults.rewrites` runs them all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from benchmarks.faults.rewrites.cli import SUBJECTS, outcome
from benchmarks.faults.rewrites.kinds import KINDS
from torchport import compare_models

from .models import net

pytestmark = pytest.mark.slow

SAMPLE = [
    ("encoder", "keys for values", "other (v) is k"),
    ("encoder", "mask stale", "the mask is rolled by 1 along axis 0"),
    ("encoder", "one head zeroed", "the result is zero at [2] of axis 1"),
    ("encoder", "swapped layers", "it is gelu of blocks.1.mlp.down"),
    ("encoder", "layer twice", "its weights are those of up"),
    ("encoder", "residual twice", "self (blocks.1<0) is applied twice"),
    ("encoder", "residual of another place", "self (y) is blocks.1<0"),
    ("encoder", "value clipped", "the result is clipped above 0.5"),
    ("decoder", "positions restarted", "the result is started again after every 5 of axis 0"),
    ("decoder", "heads tiled", "the result is along axis 1 in the order [0, 2, 0, 3]"),
    ("decoder", "roll by one", "the result is rolled by 1 along axis 2"),
    ("decoder", "scale of 1.0005", "the result is 1.0005 times what it should be"),
    ("decoder", "swapped layers", "blocks.1.mlp.gate and blocks.1.mlp.up are swapped"),
    ("decoder", "bias twice", "down.bias is added once more"),
    ("decoder", "activation twice", "silu is applied twice"),
    ("decoder", "first token dropped", "the result is shifted by -1 along axis 1"),
]


@pytest.mark.parametrize(("model", "kind", "text"), SAMPLE)
def test_a_fault_in_a_rewrite_is_named_with_its_cause(model: str, kind: str, text: str) -> None:
    subject = SUBJECTS[model]
    fault = next(fault for fault in subject.faults if fault.kind == kind)
    found = outcome(subject, fault, "values")
    assert found.detected and found.right_layer and found.right_cause
    assert found.operation is None or found.right_operation
    assert found.text is not None and found.text.startswith(text)


def test_every_kind_of_fault_is_planted() -> None:
    assert {fault.kind for subject in SUBJECTS.values() for fault in subject.faults} == set(KINDS)


def _noise(y: Tensor) -> Tensor:
    return y + torch.randn(y.shape, generator=torch.Generator().manual_seed(5)) * 1e-3


def _rough(y: Tensor) -> Tensor:
    """Every number is off by its own share, as if it were computed with few digits of another base."""
    return (y * 729).round() / 729


def _one_row(y: Tensor) -> Tensor:
    noise = torch.zeros_like(y)
    noise[:, 3] = torch.randn(y[:, 3].shape, generator=torch.Generator().manual_seed(5)) * 1e-2
    return y + noise


def _unrelated(y: Tensor) -> Tensor:
    return y + 1e-2 * torch.linspace(-3, 3, y.numel()).reshape(y.shape).sin()


def _biased(y: Tensor) -> Tensor:
    """Larger numbers are a little too large: nearly a factor, and not one."""
    return y + 1e-3 * y.pow(3)


@pytest.mark.parametrize("spoil", [_noise, _rough, _one_row, _unrelated, _biased])
@pytest.mark.parametrize("path", ["blocks.1.up", "blocks.1.act", "blocks.1.norm", "blocks.1"])
def test_a_difference_without_a_cause_gets_no_suggestion(
    path: str, spoil: Callable[[Tensor], Tensor]
) -> None:
    reference = net()
    candidate = copy.deepcopy(reference)
    layer: nn.Module = candidate.get_submodule(path)
    forward = layer.forward
    layer.forward = lambda x: spoil(forward(x))  # type: ignore[method-assign]
    x = torch.randn(4, 7, 32, generator=torch.Generator().manual_seed(3))
    found = compare_models(reference, candidate, x).first_divergence
    assert found is not None and found.layer == path
    assert found.suggestions == ()
