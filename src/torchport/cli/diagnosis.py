"""Looking at a machine for what torchport needs, without importing any of it."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Literal, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from torchport.files import cache_directory

_PACKAGE = "torchport"
_RUSTUP = "Install Rust from https://rustup.rs and open a new terminal."
_TOOLS = {
    "cargo": ("cargo", _RUSTUP),
    "rustc": ("rustc", _RUSTUP),
    "rustfmt": ("rustfmt", "Run `rustup component add rustfmt`."),
}
_PURPOSES = {
    "html": "for report --format html",
    "tui": "for torchport tui",
    "dataframe": "for Report.to_dataframe()",
    "zoo": "for the examples",
}
"""What each extra of the package is for; those that only developers need are left out."""


class Finding(NamedTuple):
    """One thing looked for: what was found, and how to get it where it is missing."""

    name: str
    status: Literal["ok", "missing", "optional"]
    found: str
    fix: str | None = None


def diagnose() -> list[Finding]:
    return [
        _python(),
        _torch(),
        *(_tool(name, command, fix) for name, (command, fix) in _TOOLS.items()),
        _clippy(),
        _cache(),
        _candle(),
        *_extras(),
    ]


def _python() -> Finding:
    # Not the whole version: a build of one's own may call itself 3.11.7+, which no range knows.
    found = ".".join(platform.python_version_tuple()[:2])
    if _python_range().contains(found):
        return Finding("python", "ok", platform.python_version())
    return _out_of_range("python", platform.python_version(), _python_range(), "Use a supported Python.")


def _torch() -> Finding:
    supported = next((one.specifier for one in _requirements() if one.name == "torch"), SpecifierSet())
    fix = f"Run `pip install 'torch{_text(supported)}'`."
    try:
        found = version("torch")
    except PackageNotFoundError:
        return Finding("torch", "missing", "not installed", fix)
    if supported.contains(found, prereleases=True):
        return Finding("torch", "ok", found)
    return _out_of_range("torch", found, supported, fix)


def _out_of_range(name: str, found: str, supported: SpecifierSet, fix: str) -> Finding:
    return Finding(name, "missing", f"{found}, which is not {_text(supported)}", fix)


def _python_range() -> SpecifierSet:
    """The versions of Python that the package is for; any, if the package runs without being installed."""
    try:
        return SpecifierSet(metadata(_PACKAGE)["Requires-Python"])
    except PackageNotFoundError:
        return SpecifierSet()


def _requirements() -> list[Requirement]:
    """What the package needs, and what each of its extras adds; nothing, if it runs without being installed."""
    try:
        return [Requirement(line) for line in requires(_PACKAGE) or ()]
    except PackageNotFoundError:
        return []


def _text(supported: SpecifierSet) -> str:
    """A range with its lower end first."""
    return ",".join(sorted(map(str, supported), reverse=True))


def _tool(name: str, command: str, fix: str) -> Finding:
    path = shutil.which(command)
    if path is None:
        return Finding(name, "missing", "not found", fix)
    text = _ask(path, "--version")
    if text is None:
        return Finding(name, "missing", f"{path} does not run", fix)
    return Finding(name, "ok", text)


def _clippy() -> Finding:
    path = shutil.which("cargo-clippy")
    text = None if path is None else _ask(path, "--version")
    if text is None:
        return Finding("clippy", "optional", "not found", "Run `rustup component add clippy`.")
    return Finding("clippy", "ok", text)


def _ask(*command: str) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else ""


def _cache() -> Finding:
    cache = cache_directory()
    parent = next(path for path in (cache, *cache.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        fix = "Make it writable, or set XDG_CACHE_HOME to a directory that is."
        return Finding("cache", "missing", f"{cache} cannot be written", fix)
    free = shutil.disk_usage(parent).free / 2**30
    return Finding("cache", "ok", f"{cache} ({free:.0f} GiB free)")


def _candle() -> Finding:
    built = next(cache_directory().glob("target/*/deps/libcandle_core-*.rlib"), None)
    if built is None:
        fix = "The first port builds it, which takes a few minutes once."
        return Finding("candle", "optional", "not built yet", fix)
    return Finding("candle", "ok", f"built in {built.parent.parent}")


def _extras() -> Iterator[Finding]:
    """The packages that the extras need, each once."""
    for extra, purpose in _PURPOSES.items():
        for requirement in _requirements():
            if _is_added_by(extra, requirement):
                yield _extra(requirement.name, f"{purpose}: pip install '{_PACKAGE}[{extra}]'")


def _is_added_by(extra: str, requirement: Requirement) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _extra(name: str, fix: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "optional", "not installed", fix)
