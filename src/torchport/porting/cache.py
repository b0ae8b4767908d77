"""What all targets keep on this machine, and how it is cleared: the functions behind `torchport cache`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchport.events import Say
from torchport.files import cache_directory
from torchport.targets.base import Cached, KeepsCache
from torchport.targets.registry import loaded_targets

_SHOWN = 20
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Cache:
    folder: Path
    entries: tuple[tuple[str, Cached], ...]
    """Each with the target that keeps it."""

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for _, entry in self.entries)

    def as_json(self) -> dict[str, Any]:
        entries = [{"target": target, **asdict(entry)} for target, entry in self.entries]
        return {"folder": str(self.folder), "bytes": self.bytes, "entries": entries}

    def as_text(self, freed: int | None) -> str:
        shown = self.entries[:_SHOWN]
        lines = [
            f"{readable(entry.bytes):>8}  {'stale' if entry.stale else '     '}  {entry.name}  {entry.about}"
            for _, entry in shown
        ]
        if rest := self.entries[_SHOWN:]:
            size = readable(sum(entry.bytes for _, entry in rest))
            lines.append(f"{size:>8}         {len(rest)} more")
        stale = sum(entry.bytes for _, entry in self.entries if entry.stale)
        lines.append(f"{readable(self.bytes)} in {self.folder}, of which {readable(stale)} are stale")
        if freed is not None:
            lines.append(f"freed {readable(freed)}")
        elif stale:
            lines.append("`torchport cache --clear stale` removes what is stale.")
        return "\n".join(lines)


def cache_contents(days: float) -> Cache:
    entries = [(name, entry) for name, keeper in _keepers() for entry in keeper.cached(days)]
    return Cache(cache_directory(), tuple(entries))


def clear_cache(*, everything: bool, days: float, say: Say) -> int:
    """Removes what is stale, or everything, and gives how many bytes that freed."""
    return sum(keeper.clear_cache(everything=everything, days=days, say=say) for _, keeper in _keepers())


def _keepers() -> Iterator[tuple[str, KeepsCache]]:
    for name, target in loaded_targets():
        if isinstance(target, KeepsCache):
            yield name, target


def readable(size: float) -> str:
    """A number of bytes as people say it."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes every size")
