"""Many models one after the other: what was proven is kept, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from torchport.files import write_atomically

from .subjects import ROOT, Model, Proof, prove


def source_digest() -> str:
    """A short name for the sources that a verdict depends on: a pass under other sources is none under these."""
    digest = hashlib.sha256()
    for folder in ("src", "crates", "benchmarks/zoo"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".rs", ".toml"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def run(
    models: Sequence[Model], folder: Path, *, again: bool = False, most_seconds: float = 900
) -> list[Proof]:
    """Proves each model, and says so. What passed before under the same sources is not run again, unless wished."""
    kept = {} if again else _kept(folder)
    proofs: list[Proof] = []
    for number, model in enumerate(models, start=1):
        proof = kept.get(model.name) or prove(model, folder, most_seconds)
        known = " (before)" if model.name in kept else f" ({proof.seconds:.0f} s)"
        print(f"{number}/{len(models)} {model.name}: {proof}{known}", flush=True)
        proofs.append(proof)
        _keep(folder, [*proofs, *(kept[name] for name in kept if name not in {p.name for p in proofs})])
    return proofs


def summary(proofs: Sequence[Proof]) -> str:
    counts = Counter(proof.outcome for proof in proofs)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()) or "nothing was run"


def folder_for(name: str) -> Path:
    """Where a campaign keeps its projects and what it found."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "torchport" / "campaigns" / name


def _file(folder: Path) -> Path:
    return folder / "proofs.json"


def _kept(folder: Path) -> dict[str, Proof]:
    if not _file(folder).is_file():
        return {}
    held = json.loads(_file(folder).read_text())
    if held["sources"] != source_digest():
        return {}
    return {item["name"]: Proof(**item) for item in held["proofs"] if item["outcome"] == "pass"}


def _keep(folder: Path, proofs: Sequence[Proof]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    held = {"sources": source_digest(), "proofs": [proof.as_dict() for proof in proofs]}
    write_atomically(_file(folder), json.dumps(held, indent=1) + "\n")
