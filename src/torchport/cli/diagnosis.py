"""Looking at a machine for what torchport needs, without importing any of it.

Except for private parts of torch, of which some only show themselves when they are imported.
"""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from torchport.files import cache_directory
from torchport.targets.base import Diagnosis
from torchport.targets.registry import requirements, target_names

_PACKAGE = "torchport"
_COMPILING = "torch.compile"
"""What the lines on private parts of torch are called."""
_PURPOSES = {
    "html": "for report --format html",
    "tui": "for torchport tui",
    "dataframe": "for Report.to_dataframe()",
    "zoo": "for the examples",
}
"""What each extra of the package is for; those that only developers need are left out."""


def diagnose() -> list[Diagnosis]:
    return [
        _python(),
        _torch(),
        Diagnosis("targets", "ok", ", ".join(target_names())),
        *(look() for look in requirements()),
        _cache(),
        *_extras(),
        *_private_parts_of_torch(),
    ]


def _python() -> Diagnosis:
    # Not the whole version: a build of one's own may call itself 3.11.7+, which no range knows.
    found = ".".join(platform.python_version_tuple()[:2])
    if _python_range().contains(found):
        return Diagnosis("python", "ok", platform.python_version())
    return _out_of_range("python", platform.python_version(), _python_range(), "Use a supported Python.")


def _torch() -> Diagnosis:
    supported = next((one.specifier for one in _requirements() if one.name == "torch"), SpecifierSet())
    fix = f"Run `pip install 'torch{_text(supported)}'`."
    try:
        found = version("torch")
    except PackageNotFoundError:
        return Diagnosis("torch", "missing", "not installed", fix)
    if supported.contains(found, prereleases=True):
        return Diagnosis("torch", "ok", found)
    return _out_of_range("torch", found, supported, fix)


def _out_of_range(name: str, found: str, supported: SpecifierSet, fix: str) -> Diagnosis:
    return Diagnosis(name, "missing", f"{found}, which is not {_text(supported)}", fix)


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


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _text(supported: SpecifierSet) -> str:
    """A range with its lower end first."""
    return ",".join(sorted(map(str, supported), reverse=True))


def _cache() -> Diagnosis:
    cache = cache_directory()
    parent = next(path for path in (cache, *cache.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        fix = "Make it writable, or set XDG_CACHE_HOME to a directory that is."
        return Diagnosis("cache", "missing", f"{cache} cannot be written", fix)
    free = shutil.disk_usage(parent).free / 2**30
    return Diagnosis("cache", "ok", f"{cache} ({free:.0f} GiB free)")


def _extras() -> Iterator[Diagnosis]:
    """The packages that the extras need, each once."""
    for extra, purpose in _PURPOSES.items():
        for requirement in _requirements():
            if _is_added_by(extra, requirement):
                yield _extra(requirement.name, f"{purpose}: pip install '{_PACKAGE}[{extra}]'")


def _is_added_by(extra: str, requirement: Requirement) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _extra(name: str, fix: str) -> Diagnosis:
    try:
        return Diagnosis(name, "ok", version(name))
    except PackageNotFoundError:
        return Diagnosis(name, "optional", "not installed", fix)


def _private_parts_of_torch() -> Iterator[Diagnosis]:
    """Whether torch has the private parts that debugging torch.compile stands on, and what works without the others."""
    try:
        from torchport.debug.internals.needs import missing, needs

        all_needs, gone = needs(), missing()
    except ImportError as error:
        if _is_installed("torch"):  # That it is not is said above.
            fix = "Run `pip install --force-reinstall torch`, for the system and the Python that are here."
            yield Diagnosis("torch", "missing", f"cannot be imported: {error}", fix)
        return
    if not gone:
        yield Diagnosis(
            _COMPILING, "ok", f"all {len(all_needs)} private parts of torch are where they should be"
        )
        return
    broken = {need.used_for: None for need in gone}
    fix = "Use a version of torch that torchport is tested with."
    for purpose in broken:
        moved = ", ".join(f"{need.module}.{need.attribute}" for need in gone if need.used_for == purpose)
        yield Diagnosis(_COMPILING, "optional", f"{purpose}: does not work, this torch has no {moved}", fix)
    working = [
        purpose for purpose in dict.fromkeys(need.used_for for need in all_needs) if purpose not in broken
    ]
    yield Diagnosis(_COMPILING, "ok", f"still works: {', '.join(working) or 'nothing'}")
