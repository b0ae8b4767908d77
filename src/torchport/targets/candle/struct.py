"""A struct of the generated file, as the modules that hold one need to know it."""

from __future__ import annotations

from dataclasses import dataclass

from torchport.targets.candle.code import StructName


@dataclass(frozen=True)
class Param:
    """A constructor argument of a struct."""

    name: str
    kind: str
    """The Rust type: `usize`, `i64` or `f64`."""


@dataclass(frozen=True)
class Struct:
    """A struct that one or several modules become."""

    name: StructName
    inputs: int
    outputs: int
    sizes: tuple[str, ...]
    """Free sizes that `forward` is given beside its tensors."""
    params: tuple[Param, ...]
    uses_config: bool
    """Whether its constructor is given the Config."""

    @property
    def is_plain(self) -> bool:
        """Whether it takes one tensor and gives one, so that it implements candle's `Module`."""
        return self.inputs == 1 and self.outputs == 1 and not self.sizes


@dataclass(frozen=True)
class Placed:
    """The struct that a module becomes, and the value of each constructor argument for this module."""

    struct: Struct
    values: list[int | float]
