"""A conversion from end to end, as the command does it: the model is had, changed, converted and validated.

In: what the user named and the configuration. Out: a `Conversion`. Nothing is written here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torchport.capture.spec import Subject
from torchport.events import Steps
from torchport.targets.marble.config import Config, PositionalEncoding
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.model import core_of, inputs_of
from torchport.targets.marble.positions import PARAMETER, with_positions
from torchport.targets.marble.running import device_of
from torchport.targets.marble.validation import Validation, validate
from torchport.targets.marble.ways import By
from torchport.targets.marble.weight_files import fill, subject_of

log = logging.getLogger("torchport.marble")


@dataclass(frozen=True)
class Conversion:
    """A graph, the model that it was made from, and the verdict, if one was asked for."""

    core: Core
    subject: Subject
    validation: Validation | None


def converted(pytorch: str, spec: str | None, config: Config, steps: Steps) -> Conversion:
    """Converts what `--pytorch` and `--model` name."""
    subject = prepared(pytorch, spec, config.positional_encoding, steps)
    with steps.step("convert", "converting the model to neurons"):
        core = core_of(subject.model, subject.args, subject.kwargs, name=config.name)
    verdict = validated(core, subject, config, steps) if config.is_validated else None
    return Conversion(core, subject, verdict)


def prepared(pytorch: str, spec: str | None, encoding: PositionalEncoding | None, steps: Steps) -> Subject:
    """The model with its positional encoding and its weights, and example inputs."""
    with steps.step("load", f"loading {pytorch}"):
        subject, weights = subject_of(pytorch, spec)
    args = inputs_of(subject.args, subject.kwargs)
    model = subject.model
    added: set[str] = set()
    if encoding is not None:
        steps.say(f"adding a {encoding.kind} positional encoding")
        model = with_positions(model, encoding, args, subject.kwargs)
        added = {name for name in model.state_dict() if name.rpartition(".")[2] == PARAMETER}
        added -= set(subject.model.state_dict())
    if weights is not None:
        fill(model, weights, pytorch, added)
        log.info("filled %d tensors from %s", len(weights), pytorch)
    return Subject(model, args, subject.kwargs)


def validated(core: Core, subject: Subject, config: Config, steps: Steps, by: By = "groups") -> Validation:
    with steps.step("compare", "comparing every layer with PyTorch"):
        tolerance = config.tolerance.for_device(device_of(core))
        found = validate(core, *subject, tolerance=tolerance, by=by)
    log.info("validated %d values: %s", found.compared, "pass" if found.passed else "fail")
    return found
