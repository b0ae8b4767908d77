"""How much a file may ask for when it is read, and how large a graph may be that is written."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from torchport.errors import GraphFileError

MOST_SYNAPSES = 1_000_000
"""More are only exported if forced."""
BYTES_IN_MARBLE = 1300
"""What a synapse takes in MARBLE, which keeps an object for each."""


@dataclass(frozen=True)
class Limits:
    """What a file may ask for at most."""

    file_bytes: int = 2**31
    memory_bytes: int = 2**32
    """Of what a pickle makes, by a rough count."""
    opcodes: int = 500_000_000


class OutputsDifferWarning(UserWarning):
    """MARBLE will not compute what the graph computes here."""


def warn_of_outputs() -> None:
    warnings.warn(
        "MARBLE will not reproduce the outputs of this graph: its Core has no feed-forward evaluation, and passes "
        "messages over random representations, without activations. The file is for its tools, not for inference.",
        OutputsDifferWarning,
        stacklevel=3,
    )


def require_small(synapses: int, bytes_each: int, force: bool) -> None:
    """Raises if the graph is too large for a format that spells out every synapse."""
    if synapses <= MOST_SYNAPSES or force:
        return
    message = (
        f"{synapses:,} synapses would be a file of about {in_words(synapses * bytes_each)}, and take MARBLE about "
        f"{in_words(synapses * BYTES_IN_MARBLE)} of memory; up to {MOST_SYNAPSES:,} are exported unasked"
    )
    raise GraphFileError("TP0367", message, fix="Keep the graph in the native format, or pass force=True.")


def bytes_of(path: str | os.PathLike[str], limits: Limits) -> bytes:
    """The content of a file that is not larger than the limits allow."""
    try:
        size = Path(path).stat().st_size
        if size > limits.file_bytes:
            raise GraphFileError(
                "TP0366", f"{path} has {in_words(size)}, and {in_words(limits.file_bytes)} are allowed"
            )
        return Path(path).read_bytes()
    except OSError as error:
        raise GraphFileError("TP0360", f"{path}: {error.strerror or error}", where=str(path)) from error


def in_words(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
