"""Names of modules that would be taken for something else: a later call of another module, or one of its values."""

from __future__ import annotations

import re

from torch import nn

from torchport.errors import CaptureError

_LATER_GRAPH = "@"
"""Marks the later calls of a module that have another graph."""
_OF_A_CALL = re.compile(r"(?:[#<:]\d+)+$")
"""Marks a later call (`norm#1`), and the inputs (`norm<0`) and outputs (`norm:1`) of a call."""


def must_tell_calls_apart(model: nn.Module) -> None:
    """CaptureError if a module has the name that a call of another module, or a value of such a call, may have."""
    paths = {path for path, _ in model.named_modules(remove_duplicate=False)}
    known = {*paths, type(model).__name__}
    for path in sorted(paths):
        other = _OF_A_CALL.sub("", path)
        if other != path and other in known:
            raise _refused(path, f"which may also be a call, or a value of a call, of {other!r}")


def must_have_graphs_apart(model: nn.Module) -> None:
    """CaptureError if a module has a name that a module with several graphs may have, or one that is not told apart."""
    must_tell_calls_apart(model)
    for path, _ in model.named_modules(remove_duplicate=False):
        if _LATER_GRAPH in path:
            before = path.partition(_LATER_GRAPH)[0]
            raise _refused(path, f"which stands for a later call of {before!r} with another graph")


def _refused(path: str, why: str) -> CaptureError:
    return CaptureError("TP0209", f"a module of the model is called {path!r}, {why}", where=path)
