"""How an error of torchport gets out of a compilation as it is.

Dynamo wraps what a backend raises in `BackendCompilerFailed`, with a page of its own frames. Errors that are also of
its class `ShortenTraceback` pass through, and may say themselves how much of the traceback is worth showing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from torchport.debug.internals.needs import Need
from torchport.errors import TorchportError

NEEDS = (
    Need("errors that pass", "torch._dynamo.exc", "ShortenTraceback", "errors of backends as they are"),
    Need(
        "suppressed errors",
        "torch._dynamo.config",
        "suppress_errors",
        "strict backends that cannot be ignored",
    ),
)


def stop_compiling(error: TorchportError) -> Callable[..., Any]:
    """Raises an error so that the user sees it, and not Dynamo's words about it.

    If Dynamo is told to suppress the errors of backends, it would run the model all the same. Then a function comes
    back, to be handed over as the compiled graph, that raises the error when it is called.
    """
    from torch._dynamo import config

    if config.suppress_errors:
        return raising(error)
    raise passing(error).with_traceback(None)


def raising(error: TorchportError) -> Callable[..., Any]:
    def run(*_: Any) -> NoReturn:
        raise error

    return run


def passing(error: TorchportError) -> TorchportError:
    """The same error, of a class that Dynamo lets through."""
    kind: type[TorchportError] = _passing_class(type(error))  # type: ignore[arg-type]
    return kind(error.code, error.message, error.where, error.fix)


@cache
def _passing_class(kind: type[TorchportError]) -> type[TorchportError]:
    try:
        from torch._dynamo.exc import ShortenTraceback
    except ImportError:
        return kind

    class Passing(kind, ShortenTraceback):  # type: ignore[valid-type, misc]
        def __init__(self, code: str, message: str, where: str | None = None, fix: str | None = None) -> None:
            ShortenTraceback.__init__(self, first_useful_frame=None)
            self.code, self.message, self.where, self.fix = code, message, where, fix

        def remove_dynamo_frames(self) -> Any:
            return self.with_traceback(None)

        def __reduce__(self) -> tuple[Any, ...]:
            return kind, (self.code, self.message, self.where, self.fix)

    Passing.__name__, Passing.__qualname__, Passing.__module__ = (
        kind.__name__,
        kind.__qualname__,
        kind.__module__,
    )
    return Passing
