"""Suspects without a target: a recorded model, and what a port would have computed that was wrong in a known way."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from torchport.capture.recorder import Capture, record
from torchport.explain.suggest import suggest
from torchport.explain.suspect import RunValues, Suspect, find_suspect
from torchport.explain.weights import Others
from torchport.parity.result import Suggestion
from torchport.targets.candle.target import TARGET
from torchport.trace.writing import write_tensors

Wrong = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Recorded:
    capture: Capture
    values: RunValues


def recorded(model: nn.Module, args: tuple, folder: Path) -> Recorded:
    capture = record(model.eval(), args, decompose=lambda op: not TARGET.supports(op))
    files = capture.save(folder)
    weights = files.get("weights", folder / "none")
    lockstep = folder / "lockstep.safetensors"
    return Recorded(capture, RunValues(capture.graph, files["trace"], lockstep, weights, weights))


def observe(recording: Recorded, values: dict[str, torch.Tensor]) -> None:
    """Writes what a port computed in lock-step: `values` at some keys, the golden values at all others."""
    write_tensors(recording.values.lockstep, {**recording.capture.golden, **values}, {"schema": "1"})


def suspect_of(
    model: nn.Module, args: tuple, wrong: Wrong, folder: Path, layer: str | None = None
) -> Suspect:
    """The suspect of a layer, or of the model itself if none is named, that computes `wrong` from its inputs."""
    recording = recorded(model, args, folder)
    golden, plan = recording.capture.golden, recording.capture.plan
    call = plan.calls[layer or plan.root]
    with torch.no_grad():
        value = wrong(*(golden[plan.resolve(key)] for key in call.inputs))
    observe(recording, {call.outputs[0]: value})
    suspect = find_suspect(recording.values, call.name, call.outputs[0])
    assert suspect is not None
    return suspect


def suggestions(suspect: Suspect, folder: Path) -> tuple[Suggestion, ...]:
    return suggest(suspect, None, Others(folder / "model_weights.safetensors"))
