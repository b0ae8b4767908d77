"""What compiles the graphs of a whole script: the backends that it asks for itself, watched, or one in their place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchport.debug.backends.choosing import Checked, Chosen
from torchport.debug.backends.inductor import InductorBackend
from torchport.debug.internals.aot_eager import is_restart
from torchport.debug.internals.dynamo_state import backend_name
from torchport.debug.internals.every_compile import settings_of_inductor
from torchport.debug.session import Session
from torchport.errors import TorchportError


class InPlace:
    """Takes the graphs that every torch.compile of a run makes, on any thread."""

    def __init__(
        self,
        session: Session,
        wanted: Chosen | None,
        *,
        strict: bool,
        failed: Callable[[Exception], None],
    ) -> None:
        """`wanted` compiles all graphs; if it is None, each is compiled by the backend that torch.compile was given.

        `failed` is told of what a backend raises, which the script may catch.
        """
        self._session, self._strict, self._failed = session, strict, failed
        self._wanted = None if wanted is None else wanted.with_session(session, strict=strict)
        self._inductor = InductorBackend(session=session, strict=strict)
        self._names: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """The backends that were asked for, in their order."""
        with self._lock:
            return list(self._names)

    def __call__(self, own: Any, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with self._lock:
            self._names[backend_name(own)] = None
        try:
            return self._compiled(own, module, inputs)
        except TorchportError:
            raise
        except Exception as error:
            if not is_restart(error) and type(error).__name__ != "SkipFrame":
                self._failed(error)
            raise

    def _compiled(self, own: Any, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        if self._wanted is not None:
            return self._wanted(module, inputs)
        settings = settings_of_inductor(own)
        if settings is not None:
            return self._inductor(module, inputs, options=settings)
        return Checked(own, self._session, strict=self._strict)(module, inputs)
