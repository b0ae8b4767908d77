"""How far a build has come: how many crates of how many, as cargo tells it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path


class CrateCount:
    """Counts the crates of a build as cargo names them, in lines of `cargo build --message-format json-…`."""

    def __init__(self, total: Callable[[], int | None]) -> None:
        """`total` is asked only if a crate has to be compiled."""
        self._ask_total = total
        self._total: int | None = None
        self._reached: set[tuple[str, str]] = set()

    def message(self, line: str) -> str | None:
        """What to show for a line that begins a crate, or None for any other line."""
        if (fresh := _fresh_crate(line)) is not None:
            self._reached.add(fresh)
            return None
        found = re.match(r"\s+Compiling (\S+) v(\S+)", line)
        if found is None:
            return None
        if not self._total:
            self._total = self._ask_total()
        name, version = found.groups()
        self._reached.add((name, version))
        return f"building: {name} ({self._number()} crates; candle is built once per machine)"

    def _number(self) -> str:
        reached = len(self._reached)
        return f"{reached} of {max(self._total, reached)}" if self._total else f"{reached}"


def _fresh_crate(line: str) -> tuple[str, str] | None:
    """Name and version of the crate that a line of JSON reports as compiled before."""
    if not line.startswith('{"reason":"compiler-artifact"'):
        return None
    artifact = json.loads(line)
    return _name_and_version(artifact["package_id"]) if artifact["fresh"] else None


def _name_and_version(package: str) -> tuple[str, str]:
    """A package's id is `URL#NAME@VERSION`, or `URL#VERSION` if the URL ends in the name."""
    url, _, rest = package.rpartition("#")
    name, at, version = rest.rpartition("@")
    return (name, version) if at else (url.rpartition("/")[2], rest)


def count_crates(cargo: str, manifest: Path) -> int | None:
    """The number of crates that a build on this machine needs, or None if cargo does not say."""
    command = [cargo, "tree", "--edges", "normal,build", "--prefix", "none", "--manifest-path", str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True)
    return len(crates_in_tree(done.stdout)) if done.returncode == 0 else None


def crates_in_tree(text: str) -> set[tuple[str, str]]:
    """Names and versions in the output of `cargo tree --prefix none`, where a crate may come several times."""
    return {(name, version) for name, version in re.findall(r"^(\S+) v(\S+)", text, re.MULTILINE)}
