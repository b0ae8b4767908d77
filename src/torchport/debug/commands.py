"""The functions behind `torchport debug`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchport.capture.spec import load_callable, load_spec
from torchport.debug.constraints import (
    Constraint,
    DtypeConstraint,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
)
from torchport.debug.report import DebugReport
from torchport.debug.running import DebugOptions, debug_run
from torchport.errors import UsageError
from torchport.events import Watcher, ignore


def debug_spec(
    spec: str,
    *,
    root: Path,
    name: str | None = None,
    constraints: Mapping[str, Any] | None = None,
    watch: Watcher = ignore,
    **options: Any,
) -> DebugReport:
    """Loads the model of a SPEC, and debugs it; `constraints` are what `constraints_of` takes.

    Violations are not printed as they are found: the report has all of them. A log that is set up still gets them.
    """
    logging.getLogger("torchport.debug").addHandler(logging.NullHandler())
    given = {
        name: value for name, value in (constraints or {}).items() if value is not None and value is not False
    }
    rules = constraints_of(**given)
    model, args, kwargs = load_spec(spec)
    chosen = DebugOptions(constraints=rules, **options)
    return debug_run(
        model, args, kwargs, name=name, spec=spec, root=root, options=chosen, given=given, watch=watch
    )


def constraints_of(
    *,
    alignment: int | None = None,
    dtypes: Sequence[str] = (),
    max_memory: str | None = None,
    max_peak: str | None = None,
    contiguous: bool = False,
    denied: Sequence[str] = (),
    own: Sequence[str] = (),
) -> tuple[Constraint, ...]:
    """The constraints that the options of a command stand for."""
    return tuple(_constraints(alignment, dtypes, max_memory, max_peak, contiguous, denied, own))


def _constraints(
    alignment: int | None,
    dtypes: Sequence[str],
    max_memory: str | None,
    max_peak: str | None,
    contiguous: bool,
    denied: Sequence[str],
    own: Sequence[str],
) -> Iterator[Constraint]:
    if alignment is not None:
        yield ShapeConstraint(alignment=alignment)
    if dtypes:
        yield DtypeConstraint(allowed_dtypes=set(dtypes))
    if max_memory is not None or max_peak is not None:
        yield MemoryConstraint(max_bytes=max_memory, max_peak=max_peak)
    if contiguous:
        yield LayoutConstraint()
    if denied:
        patterns = [name for name in denied if "*" in name]
        yield UnsupportedOpsConstraint(denied={*denied} - {*patterns}, patterns=patterns)
    for name in own:
        yield _own_constraint(name)


def _own_constraint(spec: str) -> Constraint:
    made = load_callable(spec)()
    if not isinstance(made, Constraint):
        raise UsageError(
            "TP0801", f"{spec} makes no constraint", fix="Give a class that inherits from Constraint."
        )
    return made
