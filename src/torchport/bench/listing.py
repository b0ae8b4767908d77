"""What can be benchmarked: models and backends by name, with the reason why one cannot be had."""

from __future__ import annotations

from torchport.bench.backends import listed_backends
from torchport.bench.models import MODELS

Entry = dict[str, str | None]


def listed() -> dict[str, list[Entry]]:
    return {
        "models": [_entry(model.name, model.what, model.advice) for model in MODELS.values()],
        "backends": [_entry(one.name, one.what, one.problem) for one in listed_backends()],
    }


def _entry(name: str, what: str, problem: str | None) -> Entry:
    return {"name": name, "what": what, "problem": problem}
