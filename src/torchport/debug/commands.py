"""The functions behind `torchport debug`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from torchport.debug.scripts import debug_script
from torchport.errors import UsageError
from torchport.events import Watcher, ignore


@dataclass(frozen=True)
class RunRequest:
    """What `torchport debug run` is asked for; None is what was not given."""

    spec: str
    """`file.py:callable` for a model, `file.py` for a script."""
    arguments: Sequence[str] = ()
    """What a script is given on its command line."""
    backend: str | None = None
    name: str | None = None
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """What `constraints_of` takes."""
    strict: bool = False
    timeout_s: float | None = None
    of_model: Mapping[str, Any] = field(default_factory=dict)
    """The options that are about a model alone: gradients, compare, dynamic, runs."""

    @property
    def is_of_script(self) -> bool:
        return self.spec.endswith(".py")


def debug(request: RunRequest, *, root: Path, watch: Watcher = ignore) -> DebugReport:
    """Debugs a model or a script.

    Violations are not printed as they are found: the report has all of them. A log that is set up still gets them.
    """
    logging.getLogger("torchport.debug").addHandler(logging.NullHandler())
    given = {name: value for name, value in _given(request.constraints).items() if value is not False}
    return (_debug_script if request.is_of_script else _debug_model)(request, given, root, watch)


def _debug_model(request: RunRequest, given: dict[str, Any], root: Path, watch: Watcher) -> DebugReport:
    if request.arguments:
        raise UsageError(
            "TP0801",
            f"{request.spec} is a SPEC, which takes no arguments: {' '.join(request.arguments)}",
            fix="Name the file alone, without a callable, to run it as a script with these arguments.",
        )
    rules = constraints_of(**given)
    model, args, kwargs = load_spec(request.spec)
    chosen = DebugOptions(
        backend=request.backend or "inductor",
        constraints=rules,
        strict=request.strict,
        timeout_s=request.timeout_s,
        **_given(request.of_model),
    )
    spec, name = request.spec, request.name
    return debug_run(
        model, args, kwargs, name=name, spec=spec, root=root, options=chosen, given=given, watch=watch
    )


def _debug_script(request: RunRequest, given: dict[str, Any], root: Path, watch: Watcher) -> DebugReport:
    if wrong := _given(request.of_model):
        raise UsageError(
            "TP0801",
            f"{', '.join(sorted(wrong))}: that is about a model, and {request.spec} is a script",
            fix="Leave it out, or name a model in the file: file.py:callable.",
        )
    return debug_script(
        request.spec,
        request.arguments,
        backend=request.backend,
        constraints=constraints_of(**given),
        strict=request.strict,
        timeout_s=request.timeout_s,
        name=request.name,
        root=root,
        given=given,
        watch=watch,
    )


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


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
