"""What naming the stage of a compiler needs: torch's own bisection over the passes and lowerings of Inductor."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

from torchport.debug.internals.needs import Need

NEEDS = (
    Need(
        "compiler bisection",
        "torch._inductor.compiler_bisector",
        "CompilerBisector.do_bisect",
        "naming the part of Inductor that is at fault",
    ),
)


@dataclass(frozen=True)
class Blamed:
    """The part of the compiler without which a case does not fail."""

    backend: str
    """The name of the backend of torch.compile: eager, aot_eager, …, inductor."""
    subsystem: str | None
    """Such as lowerings or post_grad_passes; None if it is not known."""
    detail: str | None
    """Which pass, or the lowering of which operation."""


def bisect(works: Callable[[], bool]) -> Blamed | None:
    """The part at fault, or None if nothing is. `works` compiles anew each time, with Dynamo reset and caches off."""
    from torch._inductor.compiler_bisector import CompilerBisector

    with contextlib.redirect_stdout(io.StringIO()):  # It prints each step.
        found = CompilerBisector.do_bisect(works)
    if found is None:
        return None
    return Blamed(found.backend, found.subsystem, _readable(found.debug_info))


def _readable(detail: str | None) -> str | None:
    """What torch notes of a pass or a lowering, with operations by their names."""
    text = re.sub(r"<OpOverload\(op='([^']+)', overload='([^']+)'\)>", r"\1.\2", (detail or "").strip())
    return text or None
