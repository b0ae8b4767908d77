"""What a backend can see of graph breaks while Dynamo hands it a graph: where the graph begins or ends early."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from torchport.debug.internals.dynamo_guards import read_stack
from torchport.debug.internals.needs import Need

NEEDS = (
    Need(
        "the frame that is traced",
        "torch._dynamo.symbolic_convert",
        "InstructionTranslator.current_tx",
        "backends: graph breaks before the first graph of a function",
    ),
)
_RESUMES = re.compile(r"^torch_dynamo_resume_in_.*_at_(\d+)$")


class SeenBreak(NamedTuple):
    frame: str
    """`file:line` in the function that was compiled, which tells breaks apart."""
    place: str
    """The user's `file:line`, which may be in a function that it calls."""
    reason: str | None
    """Dynamo's words; None if the graph before is not known, and so why it ended."""


def breaks_around(module: torch.fx.GraphModule) -> Iterator[SeenBreak]:
    """Where a graph that Dynamo hands over just now goes on after a break, and where it ends at one."""
    frame = _resumed_at()
    if frame is not None:
        yield SeenBreak(frame, frame, None)
    end: Any = getattr(module, "compile_subgraph_reason", None)
    if end is None or not end.graph_break:
        return
    stack = read_stack(end.user_stack)
    lines = [f"{one.file}:{one.line}" for one in stack] or ["an unknown line"]
    yield SeenBreak(lines[0], lines[-1], str(end.reason).partition("\n")[0].strip())


def _resumed_at() -> str | None:
    """The line after whose break the function that is traced goes on; None if it is traced from its beginning."""
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        code = InstructionTranslator.current_tx().f_code
    except (ImportError, AttributeError):
        return None
    found = _RESUMES.match(code.co_name)
    return None if found is None else f"{code.co_filename}:{found[1]}"
