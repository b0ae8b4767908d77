"""One attempt at torch.export, in which whatever goes wrong becomes an error with a code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchport.capture import export, state, symbols
from torchport.capture.arguments import must_be_typed
from torchport.capture.exported import Exported
from torchport.capture.source import user_line
from torchport.errors import CaptureError, TorchportError

_COPY = (
    "a body of torch.cond and the like must not return an operand as it is: return a copy, operand.clone()"
)


def attempt(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str,
    wish: symbols.Wish | None,
    decompose: export.Decompose | None,
) -> Exported:
    inputs = state.copied((args, dict(kwargs)))
    try:
        with state.quiet():
            exported = export.export(model, *inputs, name=name, wish=wish, decompose=decompose)
    except TorchportError:
        raise
    except Exception as error:  # after the export itself, torch fails on some graphs in ways of its own
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise CaptureError(
            "TP0202",
            f"the graph that torch.export made cannot be used: {type(error).__name__}: {first_line}",
            where=user_line(error),
            fix=_COPY if "aliasing the input" in first_line else None,
        ) from error
    must_be_typed(exported.graph)
    return exported
