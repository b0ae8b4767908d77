"""`torchport_inductor`: compiles with Inductor as torch.compile does, and keeps and checks every graph on the way.

    torch.compile(model, backend="torchport_inductor", options={"artifacts": "out"})
    torch.compile(model, backend=InductorBackend(constraints=[…], artifacts="out"))

The graph that Dynamo made, AOTAutograd's forward graph, and its backward graph are held against the constraints. With
artifacts on, each is in the tree as code, JSON, picture and statistics, with Inductor's IR and its kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from torchport.debug.backends.compilation import Compilation
from torchport.debug.backends.holding import Holder
from torchport.debug.constraints.base import Constraint
from torchport.debug.internals.inductor import settings_of
from torchport.debug.internals.stopping import stop_compiling
from torchport.debug.repro import InputsOf
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import TorchportError, UsageError

OPTIONS = ("session", "constraints", "strict", "artifacts", "name", "repro_inputs")
"""The options of this backend; all others are Inductor's."""


class InductorBackend:
    """A backend for torch.compile. What it gathers is in `session`, over all graphs and from all threads."""

    __name__ = "torchport_inductor"

    def __init__(
        self,
        *,
        session: Session | None = None,
        constraints: Sequence[Constraint] | None = None,
        strict: bool = True,
        artifacts: str | PathLike[str] | ArtifactTree | None = None,
        name: str = "model",
        repro_inputs: InputsOf = "random",
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keeps artifacts in the folder `artifacts`; without it, graphs are only checked.

        `session` may be one that others use too; it has its own constraints and tree. `mode` and `options` are
        Inductor's, as torch.compile takes them.
        """
        self.session = _session(session, constraints, artifacts, name)
        self._repro_inputs = _inputs_of(repro_inputs)
        rules, is_strict = self.session.constraints, _truth("strict", strict)
        self._holder = Holder(self.session, rules, is_strict, always_repro=True)
        self._mode, self._options = mode, dict(options or {})

    def __call__(
        self,
        module: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """What Dynamo calls with each graph. `mode` and `options` are those that torch.compile was given."""
        try:
            settings = settings_of(mode or self._mode, {**self._options, **(options or {})})
            return Compilation(self._holder, self._repro_inputs).compile(module, example_inputs, settings)
        except TorchportError as error:
            return stop_compiling(error)


def torchport_inductor(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend as torch.compile finds it by name. Calls with the same options share a session."""
    given = dict(options or {})
    own = {name: given.pop(name) for name in OPTIONS if name in given}
    try:
        backend = backend_for(own)
    except TorchportError as error:
        return stop_compiling(error)
    return backend(module, example_inputs, mode=mode, options=given)


_BACKENDS: list[tuple[dict[str, Any], InductorBackend]] = []
_LOCK = threading.Lock()


def backend_for(options: Mapping[str, Any]) -> InductorBackend:
    """The backend that `torchport_inductor` uses with options of its own; its session has what was gathered."""
    own = {name: _comparable(value) for name, value in options.items()}
    with _LOCK:
        for known, backend in _BACKENDS:
            if known == own:
                return backend
        backend = InductorBackend(**options)
        _BACKENDS.append((own, backend))
        return backend


def _comparable(value: Any) -> Any:
    if isinstance(value, str | PathLike):
        return str(value)
    return list(value) if isinstance(value, list | tuple) else value


def _session(
    session: Session | None,
    constraints: Sequence[Constraint] | None,
    artifacts: str | PathLike[str] | ArtifactTree | None,
    name: str,
) -> Session:
    if session is not None:
        if constraints is not None or artifacts is not None:
            raise UsageError("TP1012", "a session has its own constraints and its own tree of artifacts")
        return session
    for one in constraints or ():
        if not isinstance(one, Constraint):
            raise UsageError("TP1012", f"{one!r} is no constraint")
    return Session(constraints=tuple(constraints or ()), tree=_tree(artifacts, name))


def _tree(artifacts: str | PathLike[str] | ArtifactTree | None, name: str) -> ArtifactTree | None:
    if artifacts is None or isinstance(artifacts, ArtifactTree):
        return artifacts
    if not isinstance(artifacts, str | PathLike):
        raise UsageError("TP1012", f"artifacts is {artifacts!r}, which is no folder")
    return ArtifactTree(Path(artifacts), name)


def _truth(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("TP1012", f"{option} is {value!r}, which is neither True nor False")
    return value


def _inputs_of(value: InputsOf) -> InputsOf:
    if value not in ("random", "saved"):
        raise UsageError("TP1012", f"repro_inputs is {value!r}, which is neither 'random' nor 'saved'")
    return value
