"""Progress on stderr: a spinner on a terminal, which also names what is imported; one plain line a step elsewhere."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib.abc import MetaPathFinder
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torchport.events import Event, passing_text_of, text_of

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """A watcher of events that shows what is being done. Meanwhile, what the user's code prints goes to stderr, too."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._said = "starting"
        self._prints = redirect_stdout(sys.stderr)
        self._imports = _Imports(self._show_import)

    def __enter__(self) -> Self:
        self._prints.__enter__()
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(self._said)
            self._status.start()
            sys.meta_path.insert(0, self._imports)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._prints.__exit__(kind, error, traceback)
        if self._status is not None:
            with suppress(ValueError):
                sys.meta_path.remove(self._imports)
            self._status.stop()

    def __call__(self, event: Event) -> None:
        text = text_of(event) if self._status is None else passing_text_of(event)
        if text is not None:
            self.say(text)

    def say(self, message: str) -> None:
        if self._status is None:
            # A log that nobody can keep is no reason to end the work.
            with suppress(OSError):
                print(message, file=sys.stderr, flush=True)
        else:
            self._said = message
            self._show(message)

    def _show(self, message: str) -> None:
        from rich.markup import escape

        if self._status is not None:
            self._status.update(escape(message))

    def _show_import(self, package: str) -> None:
        self._show(f"{self._said}: importing {package}")


class _Imports(MetaPathFinder):
    """Finds no module, and sees which packages are looked for: some take seconds."""

    def __init__(self, found: Callable[[str], None]) -> None:
        self._found = found
        self._last = ""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        package = name.partition(".")[0]
        if package != self._last and package not in sys.stdlib_module_names and not package.startswith("_"):
            self._last = package
            self._found(package)
