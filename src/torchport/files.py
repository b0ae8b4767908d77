"""Writing files so that none is ever half-written (write beside, then rename), and the folder for caches."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs.unix import Unix

from torchport.errors import DiskError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path in the same directory; the file there becomes `path` if the block succeeds.

    If the block fails, the temporary file is removed and `path` stays as it was. An OSError becomes
    a DiskError; any other error of the block passes through.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_beside(target)
        yield temporary
        _give_usual_permissions(temporary)
        os.replace(temporary, target)
    except Exception as error:
        if not _is_from_the_disk(error):
            raise
        raise _disk_error(target, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Writes `data` (text as UTF-8) to `path`; if that fails, `path` stays as it was."""
    content = data.encode() if isinstance(data, str) else data
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def _temporary_beside(target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    os.close(handle)
    return Path(name)


def _give_usual_permissions(path: Path) -> None:
    # mkstemp and safetensors make files that only their owner can read; other files are not like that.
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def _is_from_the_disk(error: Exception) -> bool:
    # safetensors writes from Rust: its errors are no OSErrors, but have the text of one.
    return isinstance(error, OSError) or (
        type(error).__name__ == "SafetensorError" and "os error" in str(error)
    )


def _disk_error(target: Path, error: Exception) -> DiskError:
    reason = getattr(error, "strerror", None) or str(error)
    return DiskError("TP0330", f"cannot write {target}: {reason}", where=str(target))


def cache_directory() -> Path:
    """The folder for whatever is built once per machine; on every system the one that the Makefile names."""
    return Unix("torchport").user_cache_path
