"""The cache on this machine: generated crates, copies of the runtime crate, and the one build of candle.

    build/<crate>-<digest>     a cargo project for each output directory that was built
    runtime/<digest>           the runtime crate, once for each content that it had
    target                     cargo's target directory, which they share

`contents` says what is there, `clear` removes it. Nothing outside the cache folder is touched, and a link in it is
removed or left, never followed.
"""

from __future__ import annotations

import fcntl
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path

from torchport.errors import DiskError
from torchport.events import Say
from torchport.files import cache_directory
from torchport.targets.base import Cached
from torchport.targets.candle.products import Products, entries, folders, newest, size_of
from torchport.targets.candle.project import runtime_digest

STALE_DAYS = 30
_LOCK = "lock"
_CARGO_LOCK = ".cargo-lock"
_LAST_USE = "last-use"


@dataclass(frozen=True)
class BuiltCrate:
    """A generated crate that was built, with its files in the target directory."""

    package: str
    """The name of its folder in `build`: the crate's name and a digest of the project's path."""
    project: Path | None
    """The folder of the generated project, or None if the cache no longer says which."""
    project_exists: bool
    bytes: int
    last_use: datetime

    def is_stale(self, now: datetime, days: float) -> bool:
        return not self.project_exists or now - self.last_use > timedelta(days=days)


@dataclass(frozen=True)
class RuntimeCopy:
    """The runtime crate as one version of torchport has it, with its files in the target directory."""

    digest: str
    is_current: bool
    bytes: int


@dataclass(frozen=True)
class CacheContents:
    folder: Path
    crates: tuple[BuiltCrate, ...]
    """Largest first."""
    runtimes: tuple[RuntimeCopy, ...]
    candle_bytes: int
    """The rest of the target directory: candle, and what candle needs."""
    other_bytes: int
    """Whatever else lies in the cache folder."""

    @property
    def bytes(self) -> int:
        parts = [*(crate.bytes for crate in self.crates), *(copy.bytes for copy in self.runtimes)]
        return sum(parts) + self.candle_bytes + self.other_bytes


@dataclass(frozen=True)
class Cleared:
    """What `clear` removed."""

    crates: tuple[BuiltCrate, ...]
    runtimes: tuple[RuntimeCopy, ...]
    bytes: int


def build_folder() -> Path:
    return cache_directory() / "build"


def runtime_folder() -> Path:
    return cache_directory() / "runtime"


def target_folder() -> Path:
    return cache_directory() / "target"


def note_use(place: Path) -> None:
    """Notes that the crate in `place`, a folder in `build`, is being built now."""
    (place / _LAST_USE).touch()


def contents() -> CacheContents:
    """What the cache holds, and how large it is."""
    return _survey()[0]


def entries_of(held: CacheContents, days: float = STALE_DAYS) -> list[Cached]:
    """What the cache holds, as `torchport cache` lists it: the largest crates first, then what they share."""
    now = datetime.now(UTC)
    crates = [
        Cached(crate.package, _about(crate), crate.bytes, crate.is_stale(now, days)) for crate in held.crates
    ]
    runtimes = [
        Cached(f"runtime {copy.digest}", "the runtime crate", copy.bytes, not copy.is_current)
        for copy in held.runtimes
    ]
    shared = Cached("candle", "candle and what it needs, built once per machine", held.candle_bytes, False)
    return [*crates, *runtimes, shared, Cached("other", "other files", held.other_bytes, False)]


def _about(crate: BuiltCrate) -> str:
    if crate.project is None:
        return "of a project that is not known any more"
    gone = "" if crate.project_exists else ", which is gone"
    return f"of {crate.project}{gone}; last built {crate.last_use:%Y-%m-%d}"


def clear(*, everything: bool = False, days: float = STALE_DAYS, say: Say = lambda _: None) -> Cleared:
    """Removes what is stale, or everything, as soon as no build is running.

    A crate is stale if its project is gone, or was not built for `days` days. A copy of the runtime crate is stale
    if this installation of torchport has another.
    """
    with _no_build_running(say):
        held, files = _survey()
        now = datetime.now(UTC)
        crates = tuple(crate for crate in held.crates if everything or crate.is_stale(now, days))
        runtimes = tuple(copy for copy in held.runtimes if everything or not copy.is_current)
        owners: list[BuiltCrate | RuntimeCopy] = [*crates, *runtimes]
        stale = [path for owner in owners for path in files[owner]]
        for path in _all_but_locks() if everything else stale:
            _remove(path)
        return Cleared(crates, runtimes, held.bytes - contents().bytes)


_Files = Mapping[BuiltCrate | RuntimeCopy, list[Path]]


def _survey() -> tuple[CacheContents, _Files]:
    """What the cache holds, and the files and folders of each crate and of each copy of the runtime crate."""
    places = {place.name: place for place in folders(build_folder())}
    projects = {package: _project_of(place) for package, place in places.items()}
    sources = {package: project / "src" / "lib.rs" for package, project in projects.items() if project}
    products = Products(target_folder(), sources)
    files: dict[BuiltCrate | RuntimeCopy, list[Path]] = {}
    for package in sorted({*places, *products.crates}):
        paths = [*_present(build_folder() / package), *products.crates.get(package, [])]
        files[_crate(package, projects.get(package), paths)] = paths
    current = runtime_digest()
    for digest in sorted({*(place.name for place in folders(runtime_folder())), *products.runtimes}):
        paths = [*_present(runtime_folder() / digest), *products.runtimes.get(digest, [])]
        files[RuntimeCopy(digest, digest == current, size_of(paths))] = paths
    return _contents(files), files


def _contents(files: _Files) -> CacheContents:
    crates = [owner for owner in files if isinstance(owner, BuiltCrate)]
    known = (build_folder(), runtime_folder(), target_folder())
    owned = [path for paths in files.values() for path in paths]
    in_target = [path for path in owned if target_folder() in path.parents]
    return CacheContents(
        folder=cache_directory(),
        crates=tuple(sorted(crates, key=lambda crate: (-crate.bytes, crate.package))),
        runtimes=tuple(owner for owner in files if isinstance(owner, RuntimeCopy)),
        candle_bytes=size_of([target_folder()]) - size_of(in_target),
        other_bytes=size_of(path for path in entries(cache_directory()) if path not in known),
    )


def _crate(package: str, project: Path | None, paths: list[Path]) -> BuiltCrate:
    noted = build_folder() / package / _LAST_USE
    return BuiltCrate(
        package=package,
        project=project,
        project_exists=project is not None and project.is_dir(),
        bytes=size_of(paths),
        last_use=datetime.fromtimestamp(newest([noted]) or newest(paths), UTC),
    )


def _project_of(place: Path) -> Path | None:
    """The folder of the project for which `place` was made: its manifest has the path of the sources."""
    try:
        manifest = tomllib.loads((place / "Cargo.toml").read_text())
        return Path(manifest["lib"]["path"]).parents[1]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _present(path: Path) -> list[Path]:
    return [path] if path.is_dir() and not path.is_symlink() else []


def _all_but_locks() -> Iterator[Path]:
    """Everything in the cache but the files that builds lock, so that a build that waits for one can go on."""
    profiles = folders(target_folder())
    for path in entries(cache_directory()):
        if path == target_folder() and profiles:
            yield from (inner for inner in entries(path) if inner not in profiles)
            yield from (
                inner for profile in profiles for inner in entries(profile) if inner.name != _CARGO_LOCK
            )
        elif path.name != _LOCK:
            yield path


def _remove(path: Path) -> None:
    assert cache_directory() in path.parents
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise DiskError("TP0330", f"cannot remove {path}: {error.strerror}", where=str(path)) from error


@contextmanager
def in_use(say: Say) -> Iterator[None]:
    """Keeps `clear` away while a crate is being built; any number of builds may be in the cache at once."""
    with _locked(cache_directory() / _LOCK, fcntl.LOCK_SH, "waiting until the cache is cleared", say):
        yield


@contextmanager
def _no_build_running(say: Say) -> Iterator[None]:
    """Keeps builds away, those of torchport and those that cargo does by itself in the target directory."""
    waiting = "waiting for another build to end"
    with ExitStack() as held:
        held.enter_context(_locked(cache_directory() / _LOCK, fcntl.LOCK_EX, waiting, say))
        for profile in folders(target_folder()):
            lock = profile / _CARGO_LOCK
            if lock.is_file() and not lock.is_symlink():
                held.enter_context(_locked(lock, fcntl.LOCK_EX, waiting, say))
        yield


@contextmanager
def _locked(path: Path, how: int, waiting: str, say: Say) -> Iterator[None]:
    """Holds a lock of the kind that cargo takes. `waiting` is reported if somebody else holds it."""
    with _opened(path) as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, how)
        yield


def _opened(path: Path) -> TextIOWrapper:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a")
    except OSError as error:
        raise DiskError("TP0330", f"cannot write {path}: {error.strerror}", where=str(path)) from error
