"""Many models, some at a time: what was proven is kept, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from torchport.fan_out import Engine, fan_out
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a command line that runs a campaign."""
    parser.add_argument("--again", action="store_true", help="also what passed before with the same sources")
    parser.add_argument("--jobs", type=int, default=1, help="how many models are proven at a time")
    parser.add_argument("--engine", choices=get_args(Engine), default="local", help="where they are proven")


def run(
    models: Sequence[Model],
    folder: Path,
    *,
    again: bool = False,
    most_seconds: float = 900,
    jobs: int = 1,
    engine: Engine = "local",
) -> list[Proof]:
    """Proves each model, and says so. What passed before under the same sources is not run again, unless wished.

    The proofs are in the order of the models. Workers of Ray must see the folder, and these sources.
    """
    kept = {} if again else _kept(folder)
    open_ = [model for model in models if model.name not in kept]
    found = dict(kept)
    for number, model in enumerate((model for model in models if model.name in kept), start=1):
        print(f"{number}/{len(models)} {model.name}: {kept[model.name]} (before)", flush=True)
    work = partial(_proven, folder=folder, most_seconds=most_seconds)
    done = fan_out(work, open_, jobs=jobs, engine=engine)
    for number, (_, proof) in enumerate(done, start=len(models) - len(open_) + 1):
        print(f"{number}/{len(models)} {proof.name}: {proof} ({proof.seconds:.0f} s)", flush=True)
        found[proof.name] = proof
        _keep(folder, list(found.values()))
    return [found[model.name] for model in models]


def _proven(model: Model, folder: Path, most_seconds: float) -> Proof:
    return prove(model, folder, most_seconds)


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
