"""Exchange formats, in which each neuron and each synapse stands on its own."""

from __future__ import annotations

from typing import NoReturn

from torchport.errors import UsageError
from torchport.targets.marble.core.core import Core


def exported(core: Core) -> NoReturn:
    """Refuses: this version has no exchange format."""
    raise UsageError(
        "TP0801",
        f"the graph {core.graph.name} cannot be written as .json by this version",
        fix="Give a file that ends in .marble.",
    )
