"""Progress on stderr: a spinner on a terminal, one plain line a step elsewhere."""

import sys
from contextlib import redirect_stdout, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from torchport.events import Event, text_of

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """A watcher of events that shows what is being done. Meanwhile, what the user's code prints goes to stderr, too."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._prints = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        self._prints.__enter__()
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("starting")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._prints.__exit__(kind, error, traceback)
        if self._status is not None:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        if (text := text_of(event)) is not None:
            self.say(text)

    def say(self, message: str) -> None:
        if self._status is None:
            # A log that nobody can keep is no reason to end the work.
            with suppress(OSError):
                print(message, file=sys.stderr, flush=True)
        else:
            from rich.markup import escape

            self._status.update(escape(message))
