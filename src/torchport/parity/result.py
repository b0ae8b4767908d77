"""What a comparison of traces found: each layer's own and chained error, and the culprit."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from torchport.parity.metrics import Metrics


class Measured(Metrics):
    """The metrics of one value of a trace, with its key and, where it is judged, the verdict."""

    key: str
    passed: bool | None = None
    """None for what is shown and not judged: the chained error of an inner layer."""
    rule: str | None = None
    ratio: float | None = None
    """How near the limit of the rule: above 1 fails."""
    reason: str | None = None


class Layer(BaseModel):
    """One call of a module: what it gets wrong itself, and what has reached its output."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    name: str
    type: str
    own: Measured | None
    """The worst of the values that the call computed itself, from golden inputs (lock-step)."""
    chained: Measured | None
    """The worst of its outputs when every layer works on what the layers before it computed."""
    passed: bool
    reason: str | None = None
    """Why it failed, or why there was nothing to compare."""
    source: str | None = None
    rule: str | None = None


class Divergence(BaseModel):
    """The culprit: the first call, in the order of execution, whose own error is out of bounds."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    layer: str
    type: str
    source: str | None
    call: str
    """The call at which it showed: the layer itself, or the one that was handed a wrong input."""
    what: str
    kind: Literal["own", "chained"]
    """`chained` when every layer is right by itself and the errors add up to too much."""
    reason: str
    metrics: Measured | None
    """None when the port computed no such value."""


class Parity(BaseModel):
    """The whole verdict on a pair of runs, lock-step and chained."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    passed: bool
    rule: str
    layers: tuple[Layer, ...]
    first_divergence: Divergence | None
    outputs: Measured | None
    """The worst of the model's outputs, chained: the error that users will see."""
    compared: int
    """How many values were set against each other in lock-step, empty ones not counted."""
