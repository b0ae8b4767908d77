"""In which form a file has a graph, by its first bytes."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path

from torchport.errors import GraphFileError

LONGEST_HEADER = 100_000_000
"""Of a safetensors file, which begins with the length of its header in 8 bytes, and then the header, which is JSON."""
PICKLE = 0x80
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Form(Enum):
    NATIVE = auto()
    JSON = auto()
    LEGACY = auto()


def form_of(path: Path) -> Form:
    """The form of a file. One that looks like none has that of its extension, whose reader says what is wrong."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise GraphFileError("TP0360", f"{path}: {error.strerror or error}", where=str(path)) from error
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= LONGEST_HEADER:
        return Form.NATIVE
    if len(start) > 1 and start[0] == PICKLE and start[1] < 16:
        return Form.LEGACY
    if start.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{" or path.suffix.lower() == ".json":
        return Form.JSON
    return Form.NATIVE
