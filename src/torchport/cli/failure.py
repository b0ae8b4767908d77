"""Errors as text on stderr or as JSON on stdout; the only place where they become either."""

import errno
import json
import os
import sys
import traceback
from contextlib import suppress

from torchport.cli import output
from torchport.errors import DiskError, TorchportError, UsageError
from torchport.report.escaping import escaped

EXIT_CODE = 2
NOBODY_READS = 141
"""What shells give for a program that wrote to a pipe which nobody reads any more, such as one to `head`."""
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR)
"""What a disk says when it cannot be written to."""
_PRINTERS = ("typer", "click", "rich")


def coded(error: Exception) -> TorchportError:
    """An error that torchport did not raise itself, with a code: wrong usage, or a fault here."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # The command line parser's own errors.
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "torchport"
        wrong = UsageError("TP0801", str(format_message()), fix=f"See `{command} --help`.")
        wrong.__cause__ = error
        return wrong
    if isinstance(error, OSError) and error.errno in _DISK:
        place = None if error.filename is None else str(error.filename)
        full = DiskError("TP0330", f"{error.strerror}: {place or 'a file'}", where=place)
        full.__cause__ = error
        return full
    message = f"{type(error).__name__}: {error}"
    unexpected = TorchportError("TP0001", message, where=_last_line(error))
    unexpected.__cause__ = error
    return unexpected


def show(error: TorchportError, *, as_json: bool, debug: bool) -> int:
    """Print `error` with its code, place and next step, and give the exit code."""
    if debug:
        traceback.print_exception(error)
    if as_json:
        facts = {"code": error.code, "message": error.message}
        places = {"where": error.where, "fix": error.fix}
        print(json.dumps({"schema": 1, "status": "error", "error": facts | places}, indent=2))
    else:
        print(_text(error), file=sys.stderr)
    return EXIT_CODE


def is_of_stdout(error: Exception) -> bool:
    """Whether an error is that stdout takes nothing more: it was raised by what commands print with."""
    if not isinstance(error, OSError):
        return False
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return modules[-1].partition(".")[0] in _PRINTERS or modules[-1] == output.__name__


def not_delivered(refusal: OSError) -> int:
    """Say on stderr that stdout takes nothing more, unless its reader only has enough, and give the exit code."""
    _drop_what_is_left()
    if isinstance(refusal, BrokenPipeError):
        return NOBODY_READS
    message = f"stdout cannot be written: {refusal.strerror}"
    print(_text(DiskError("TP0330", message, fix="Write stdout to a disk with room.")), file=sys.stderr)
    return EXIT_CODE


def _drop_what_is_left() -> None:
    """Keeps Python from writing the rest of its buffer when it ends, which would fail once more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _text(error: TorchportError) -> str:
    from torchport.report.places import with_short_places

    lines = [f"error {error.code}: {with_short_places(error.message)}"]
    if error.where:
        lines.append(f"  where: {with_short_places(error.where)}")
    if error.fix:
        lines.append(f"  next:  {error.fix}")
    lines.append(f"  more:  torchport explain {error.code}")
    return "\n".join(escaped(line) for text in lines for line in text.split("\n"))


def _last_line(error: Exception) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
