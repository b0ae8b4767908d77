"""The options of the candle target: what the generated code shows of itself, and what its sizes are called."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from torchport.targets.base import Options

Checks = Literal["none", "layers", "ops"]


class CandleOptions(Options):
    checks: Checks = "layers"
    """What the generated code shows to a checker: nothing, every layer, or every operation as well."""
    hints: dict[str, int | float | list[str]] = Field(default_factory=dict)
    """Names for sizes, by their value or by the weight axes that they are."""

    allow_random: bool = False
    """Whether operations that draw random numbers are ported, with candle's generator."""

    @property
    def allows_random(self) -> bool:
        return self.allow_random

    @property
    def records_operations(self) -> bool:
        return self.checks == "ops"

    @property
    def names_sizes(self) -> bool:
        return True

    def watching_operations(self) -> Self:
        return self.model_copy(update={"checks": "ops", "hints": {}})
