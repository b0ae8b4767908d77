"""MARBLE's legacy `.marble` snapshots, which are pickles: written without MARBLE, and read without running anything."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from torchport.errors import GraphFileError
from torchport.files import atomic_write
from torchport.targets.marble.exchange.legacy_reader import graph_of
from torchport.targets.marble.exchange.legacy_writer import SYNAPSE_RECORD, opcodes_of
from torchport.targets.marble.exchange.limits import Limits, bytes_of, require_small, warn_of_outputs
from torchport.targets.marble.exchange.opcodes import unpickled
from torchport.targets.marble.exchange.plain import Plain

BYTES_A_SYNAPSE = SYNAPSE_RECORD.itemsize + 5
MOST_ROWS = 2**31 - 1


def write(path: str | os.PathLike[str], plain: Plain, force: bool = False) -> None:
    """Writes the graph whole or not at all. Biases must be bias neurons: see `layout.with_bias_neurons`."""
    require_small(len(plain.synapses), BYTES_A_SYNAPSE, force)
    content = pieces(plain)
    warn_of_outputs()
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(content)


def pieces(plain: Plain) -> Iterator[bytes]:
    """The content of the snapshot, piece by piece."""
    require_numbers_of_32_bits(plain)
    require_no_bias(plain)
    return opcodes_of(plain)


def require_no_bias(plain: Plain) -> None:
    biased = np.flatnonzero(plain.neurons.bias != 0)
    if biased.size:
        raise GraphFileError(
            "TP0367",
            f"{biased.size:,} neurons have a bias, which MARBLE's neurons cannot have",
            where=f"neurons[{biased[0]}]",
            fix="Make bias neurons of the biases with with_bias_neurons first.",
        )


def require_numbers_of_32_bits(plain: Plain) -> None:
    largest = max(len(plain.neurons), len(plain.synapses))
    if largest > MOST_ROWS:
        message = f"{largest:,} neurons or synapses, and a snapshot numbers at most {MOST_ROWS:,}"
        raise GraphFileError("TP0367", message)


def read(path: str | os.PathLike[str], verify: bool = True, limits: Limits | None = None) -> Plain:
    """The graph in a snapshot. `verify=False` reads one that has no checksum, or whose graph was changed."""
    limits = limits or Limits()
    return loads(bytes_of(path, limits), verify, limits)


def loads(content: bytes, verify: bool = True, limits: Limits | None = None) -> Plain:
    """The graph in the content of a snapshot."""
    limits = limits or Limits()
    if len(content) > limits.file_bytes:
        raise GraphFileError("TP0366", f"the snapshot has {len(content):,} bytes, which is more than allowed")
    return graph_of(unpickled(content, limits), verify)
