"""What quantising a model cost: by scheme, by layer, and what was found of it. This is what is printed and kept."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from torchport.parity.metrics import Metrics


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, ser_json_inf_nan="strings", populate_by_name=True, serialize_by_alias=True
    )


class Drift(_Frozen):
    """How far values are from the golden ones."""

    mse: float
    rmse: float
    max_abs: float
    sqnr_db: float
    """Signal to noise, in dB: 20 is an error of a tenth, 40 of a hundredth; infinite if there is no error."""
    cosine: float

    @classmethod
    def of(cls, found: Metrics) -> Drift:
        """The drift of one value; NaN if elements are NaN or infinite in one of the two and not in the other."""
        if found.incomparable is not None or found.nan_mismatches or found.inf_mismatches:
            return cls(mse=math.nan, rmse=math.nan, max_abs=math.nan, sqnr_db=math.nan, cosine=math.nan)
        return cls(
            mse=found.mse,
            rmse=found.rmse,
            max_abs=found.max_abs,
            sqnr_db=decibels(found.golden_rms**2, found.mse),
            cosine=found.cosine,
        )


def decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


class LayerDrift(_Frozen):
    """One weight in blocks, and the layer that it belongs to."""

    weight: str
    layer: str
    format: str
    bytes: int
    weight_sqnr_db: float
    """Of the weight itself."""
    weight_rmse: float
    own: Drift | None
    """Of the layer's output if the layer is given the golden input; the worst of its calls."""
    chained: Drift | None
    """Of the layer's output if every layer works on what the layers before it computed."""
    note: str | None = None


class Logits(_Frozen):
    """How far the distribution over tokens is off."""

    kl: float
    """The mean Kullback-Leibler divergence from the golden distribution, in nats."""
    top1: float
    """The share of the places where the most probable token is the same."""


class SchemeDrift(_Frozen):
    """A model under one choice of formats."""

    scheme: str
    bytes: int
    """Of all weights in the file, those that stay floats included."""
    bits: float
    """For a weight that is in blocks."""
    outputs: Drift
    """Of all outputs of the model together, chained."""
    logits: Logits | None = None
    layers: tuple[LayerDrift, ...] = ()
    floats: tuple[str, ...] = ()
    """Weights that could be in blocks and are not."""
    file: str | None = None
    """The GGUF file, if it was kept."""


class Sensitivity(_Frozen):
    """What one weight costs if it alone is in blocks."""

    weight: str
    layer: str
    format: str
    bytes: int
    mse: float
    """Of the model's output, above what the port without blocks has."""


class Plan(_Frozen):
    """A mix of formats for a budget, as it was measured."""

    met: bool
    """Whether what was asked for is kept to."""
    asked: str
    expected_mse: float | None = None
    """What the sensitivities promised."""
    drift: SchemeDrift | None = None
    note: str | None = None


class LeftAsFloats(_Frozen):
    """Weights that stay floats, and why."""

    reason: str
    weights: tuple[str, ...]
    bytes: int


class QuantReport(_Frozen):
    """What `torchport quantize` found. Fields may be added, never renamed."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    status: Literal["done", "unproven", "missed"]
    """`unproven` if the port itself diverges, `missed` if no plan meets the drift that was asked for."""
    model: str
    float_bytes: int
    port: Drift | None = None
    """Of the port without blocks."""
    schemes: tuple[SchemeDrift, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    """Each weight alone in blocks, the one that costs most first."""
    plan: Plan | None = None
    floats: tuple[LeftAsFloats, ...] = ()
    notes: tuple[str, ...] = ()
    report: str | None = None
