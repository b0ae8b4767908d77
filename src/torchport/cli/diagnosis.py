"""Looking at a machine for what torchport needs, without importing any of it."""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

from torchport.files import cache_directory

Range = tuple[tuple[int, int], tuple[int, int]]
"""From the first version that is supported to the first that is not."""
PYTHON: Range = ((3, 11), (3, 14))
TORCH: Range = ((2, 11), (2, 16))
_RUSTUP = "Install Rust from https://rustup.rs and open a new terminal."
_TOOLS = {
    "cargo": ("cargo", _RUSTUP),
    "rustc": ("rustc", _RUSTUP),
    "rustfmt": ("rustfmt", "Run `rustup component add rustfmt`."),
}
_EXTRAS = {
    "altair": "for report --format html: pip install 'torchport[html]'",
    "textual": "for torchport tui: pip install 'torchport[tui]'",
    "pandas": "for Report.to_dataframe(): pip install 'torchport[dataframe]'",
    "transformers": "for the examples: pip install 'torchport[zoo]'",
    "torchvision": "for the examples: pip install 'torchport[zoo]'",
    "timm": "for the examples: pip install 'torchport[zoo]'",
}


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
        *(_extra(name, fix) for name, fix in _EXTRAS.items()),
    ]


def _python() -> Finding:
    return _in_range("python", platform.python_version(), PYTHON, "Use a supported Python.")


def _torch() -> Finding:
    fix = f"Run `pip install 'torch{_range(TORCH)}'`."
    try:
        return _in_range("torch", version("torch"), TORCH, fix)
    except PackageNotFoundError:
        return Finding("torch", "missing", "not installed", fix)


def _in_range(name: str, found: str, supported: Range, fix: str) -> Finding:
    low, high = supported
    if low <= tuple(int(number) for number in re.findall(r"\d+", found)[:2]) < high:
        return Finding(name, "ok", found)
    return Finding(name, "missing", f"{found}, which is not {_range(supported)}", fix)


def _range(supported: Range) -> str:
    (low_major, low_minor), (high_major, high_minor) = supported
    return f">={low_major}.{low_minor},<{high_major}.{high_minor}"


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


def _extra(name: str, fix: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "optional", "not installed", fix)
