"""Scenes without a target: a recorded model, and what a port would have computed that was wrong in a known way."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from torchport.capture.recorder import Capture, record
from torchport.explain.scene import Evidence, Scene, look_at
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.parity.result import Suggestion
from torchport.targets.candle.target import TARGET
from torchport.trace.writing import write_tensors

Wrong = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Recorded:
    capture: Capture
    evidence: Evidence


def recorded(model: nn.Module, args: tuple, folder: Path) -> Recorded:
    capture = record(model.eval(), args, decompose=lambda op: not TARGET.supports(op))
    files = capture.save(folder)
    weights = files.get("weights", folder / "none")
    lockstep = folder / "lockstep.safetensors"
    return Recorded(capture, Evidence(capture.graph, files["trace"], lockstep, weights, weights))


def observe(seen: Recorded, values: dict[str, torch.Tensor]) -> None:
    """Writes what a port computed in lock-step: the golden values, but for some."""
    write_tensors(seen.evidence.lockstep, {**seen.capture.golden, **values}, {"schema": "1"})


def scene_of(model: nn.Module, args: tuple, wrong: Wrong, folder: Path, layer: str | None = None) -> Scene:
    """A model, of which a layer (the model itself, where none is named) computes `wrong` from its inputs."""
    seen = recorded(model, args, folder)
    call = seen.capture.plan.calls[layer or seen.capture.plan.root]
    golden, plan = seen.capture.golden, seen.capture.plan
    with torch.no_grad():
        value = wrong(*(golden[plan.resolve(key)] for key in call.inputs))
    observe(seen, {call.outputs[0]: value})
    scene = look_at(seen.evidence, call.name, call.outputs[0])
    assert scene is not None
    return scene


def suggestions(scene: Scene, folder: Path) -> tuple[Suggestion, ...]:
    return suggest(scene, None, Others(folder / "model_weights.safetensors"))
