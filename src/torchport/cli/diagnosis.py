"""Looking at a machine for what torchport needs, without importing any of it."""

import os
import platform
import re
import shutil
from importlib.metadata import PackageNotFoundError, version

from torchport.files import cache_directory
from torchport.targets.base import Finding
from torchport.targets.registry import requirements, target_names

Range = tuple[tuple[int, int], tuple[int, int]]
"""From the first version that is supported to the first that is not."""
PYTHON: Range = ((3, 11), (3, 14))
TORCH: Range = ((2, 11), (2, 16))
_EXTRAS = {
    "altair": "for report --format html: pip install 'torchport[html]'",
    "textual": "for torchport tui: pip install 'torchport[tui]'",
    "pandas": "for Report.to_dataframe(): pip install 'torchport[dataframe]'",
    "transformers": "for the examples: pip install 'torchport[zoo]'",
    "torchvision": "for the examples: pip install 'torchport[zoo]'",
    "timm": "for the examples: pip install 'torchport[zoo]'",
}


def diagnose() -> list[Finding]:
    return [
        _python(),
        _torch(),
        Finding("targets", "ok", ", ".join(target_names())),
        *(look() for look in requirements()),
        _cache(),
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


def _cache() -> Finding:
    cache = cache_directory()
    parent = next(path for path in (cache, *cache.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        fix = "Make it writable, or set XDG_CACHE_HOME to a directory that is."
        return Finding("cache", "missing", f"{cache} cannot be written", fix)
    free = shutil.disk_usage(parent).free / 2**30
    return Finding("cache", "ok", f"{cache} ({free:.0f} GiB free)")


def _extra(name: str, fix: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "optional", "not installed", fix)
