"""The files that cargo leaves in the shared target directory, sorted by the crate that they belong to.

Cargo gives every crate that it compiles a folder `.fingerprint/<package>-<hash>` and files `deps/*-<hash>.*`.
Links are listed as what they are and never followed.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from torchport.targets.candle.project import AUDIO, RUNTIME

_FINGERPRINT = re.compile(r"(?P<package>.+)-(?P<hash>[0-9a-f]{16})")
_DEPENDENCY = re.compile(r".+?-(?P<hash>[0-9a-f]{16})(?:\..*)?")
_GENERATED = re.compile(r".+-[0-9a-f]{12}")
_RUNTIME_SOURCE = re.compile(rf"/runtime/(?P<digest>[0-9a-f]{{12}})/(?:{RUNTIME}|{AUDIO})/src/lib\.rs")


class Products:
    """Cargo's files in `target`. `sources` has the library source of each package that was generated."""

    def __init__(self, target: Path, sources: Mapping[str, Path]) -> None:
        self._of_crate: defaultdict[str, list[Path]] = defaultdict(list)
        self._of_runtime: defaultdict[str, list[Path]] = defaultdict(list)
        self._sources = sources
        for profile in folders(target):
            self._sort(profile)

    @property
    def crates(self) -> Mapping[str, list[Path]]:
        """The files of each generated package."""
        return self._of_crate

    @property
    def runtimes(self) -> Mapping[str, list[Path]]:
        """The files of each copy of the runtime crate in the cache, by the copy's digest."""
        return self._of_runtime

    def _sort(self, profile: Path) -> None:
        dependencies = _by_hash(entries(profile / "deps"))
        for fingerprint in folders(profile / ".fingerprint"):
            found = _FINGERPRINT.fullmatch(fingerprint.name)
            if found is None:
                continue
            package, files = found["package"], [fingerprint, *dependencies[found["hash"]]]
            if _GENERATED.fullmatch(package):
                self._of_crate[package] += files
            elif package in (RUNTIME, AUDIO) and (digest := _runtime_digest(files)) is not None:
                self._of_runtime[digest] += files
        self._sort_programs(profile)
        self._sort_incremental(profile)

    def _sort_programs(self, profile: Path) -> None:
        """Programs have the package's name; a library has the crate's, and its dependency file names the source."""
        owners = {str(source).replace(" ", r"\ "): package for package, source in self._sources.items()}
        for path in entries(profile):
            if path.name.removesuffix(".d") in self._of_crate:
                self._of_crate[path.name.removesuffix(".d")].append(path)
            elif path.name.startswith("lib") and path.suffix == ".d":
                words = re.split(r"(?<!\\)\s+", _text(path))
                for package in {owners[word] for word in words if word in owners}:
                    self._of_crate[package] += [path, *_existing(path.with_suffix(".rlib"))]

    def _sort_incremental(self, profile: Path) -> None:
        """The state of a program has the package's name; that of a library has its source's path in it."""
        packages = {package.replace("-", "_"): package for package in self._of_crate}
        owners = {os.fsencode(source): package for package, source in self._sources.items()}
        source = re.compile(b"|".join(re.escape(path) for path in sorted(owners, reverse=True)) or b"(?!)")
        for state in folders(profile / "incremental"):
            package = packages.get(state.name.rpartition("-")[0])
            if package is None:
                found = (source.search(_bytes(session / "metadata.rmeta")) for session in folders(state))
                package = next((owners[match.group()] for match in found if match), None)
            if package is not None:
                self._of_crate[package].append(state)


def _by_hash(paths: Iterable[Path]) -> defaultdict[str, list[Path]]:
    found = defaultdict(list)
    for path in paths:
        if (match := _DEPENDENCY.fullmatch(path.name)) is not None:
            found[match["hash"]].append(path)
    return found


def _runtime_digest(files: Iterable[Path]) -> str | None:
    """The digest of the copy in the cache from which `files` were compiled, or None if it was another copy."""
    texts = (_text(path) for path in files if path.suffix == ".d")
    found = (_RUNTIME_SOURCE.search(text) for text in texts)
    return next((match["digest"] for match in found if match), None)


def _text(path: Path) -> str:
    return os.fsdecode(_bytes(path))


def _bytes(path: Path) -> bytes:
    """The content of a file, or nothing if it is gone or not a plain file."""
    with suppress(OSError):
        if path.is_file() and not path.is_symlink():
            return path.read_bytes()
    return b""


def _existing(path: Path) -> list[Path]:
    return [path] if os.path.lexists(path) else []


def entries(folder: Path) -> list[Path]:
    """The paths in a folder in order of name; none if it is a link, or no folder."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(folder.iterdir())


def folders(folder: Path) -> list[Path]:
    """The folders in a folder that are not links."""
    return [path for path in entries(folder) if path.is_dir() and not path.is_symlink()]


def size_of(paths: Iterable[Path]) -> int:
    """The bytes of files and of folders with all that is in them; a file with several names counts once."""
    sizes = {(found.st_dev, found.st_ino): found.st_size for path in paths for found in _stats(path)}
    return sum(sizes.values())


def newest(paths: Iterable[Path]) -> float:
    """The time at which one of the files was last written, in seconds since 1970; 0 if there are none."""
    return max((found.st_mtime for path in paths for found in _stats(path)), default=0.0)


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Of the files at and below `path`. A file that vanishes meanwhile is left out."""
    for file in _files(path):
        with suppress(FileNotFoundError):
            yield file.lstat()


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in names)
