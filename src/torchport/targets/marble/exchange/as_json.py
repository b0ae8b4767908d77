"""MARBLE's JSON: `{"neurons": […], "synapses": […]}`, with what MARBLE has no place for under keys that it passes over.

NaN and infinities are written as `NaN`, `Infinity` and `-Infinity`, as Python's json and so MARBLE do; strict parsers
of other languages refuse them. Numbers are those of float64 and come back bit for bit, but for the payload of a NaN.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from torchport.errors import GraphFileError
from torchport.files import atomic_write
from torchport.targets.marble.exchange.json_reader import graph_in
from torchport.targets.marble.exchange.limits import Limits, bytes_of, require_small, warn_of_outputs
from torchport.targets.marble.exchange.plain import Plain
from torchport.targets.marble.exchange.texts import full_form

BYTES_A_SYNAPSE = 105


def write(path: str | os.PathLike[str], plain: Plain, force: bool = False) -> None:
    """Writes the graph, piece by piece and whole or not at all."""
    require_small(len(plain.synapses), BYTES_A_SYNAPSE, force)
    warn_of_outputs()
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(pieces(plain))


def pieces(plain: Plain) -> Iterator[bytes]:
    return (text.encode("ascii") for text in full_form(plain))


def read(path: str | os.PathLike[str], limits: Limits | None = None) -> Plain:
    """The graph in a file that torchport or MARBLE wrote."""
    limits = limits or Limits()
    return loads(bytes_of(path, limits), limits)


def loads(content: bytes, limits: Limits | None = None) -> Plain:
    """The graph in the content of a file."""
    if len(content) > (limits or Limits()).file_bytes:
        raise GraphFileError("TP0366", f"the file has {len(content):,} bytes, which is more than allowed")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise GraphFileError(
            "TP0361", f"this is not UTF-8: {error.reason}", where=f"byte {error.start}"
        ) from None
    return graph_in(text)
