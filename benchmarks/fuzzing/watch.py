"""What Python does while a file is read, by its audit events."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

FORBIDDEN = (
    *("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "marshal."),
    *(
        "pickle.",
        "code.__new__",
        "function.__new__",
        "pty.",
        "urllib.",
        "tempfile.",
        "webbrowser.",
        "builtins.input",
        "builtins.breakpoint",
    ),
)


class Watch:
    """Records the audit events that reading a file must not raise. A hook cannot be taken away again."""

    def __init__(self) -> None:
        self.watching = False
        self.events: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.watching and event.startswith(FORBIDDEN):
            self.events.append(f"{event}{args!r:.80}")

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.events.clear()
        self.watching = True
        try:
            yield
        finally:
            self.watching = False
