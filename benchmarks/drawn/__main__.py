"""Architectures drawn at random, ported and proven: `python -m benchmarks.drawn --seed 1 --count 20`.

A draw that cannot be built here or that fails its own forward pass is replaced by the next. Exits with 1 if one of the
others is neither proven nor refused with a reason.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator

from ..proving import campaign
from ..proving.subjects import ROOT, Model
from . import names

RUNS = """
import sys, torch, benchmarks.drawn as drawn
model, args, *rest = getattr(drawn, sys.argv[1])()
with torch.no_grad():
    model(*args, **(rest[0] if rest else {}))
"""


def runs_here(name: str) -> bool:
    """Whether the architecture can be built small, and runs in PyTorch itself."""
    command = [sys.executable, "-W", "ignore", "-c", RUNS, name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        print(f"    not drawn: {name} runs for longer than two minutes")
        return False
    if done.returncode:
        print(f"    not drawn: {name}: {(done.stderr.strip().splitlines() or ['?'])[-1][:140]}", flush=True)
    return done.returncode == 0


def drawn(seed: int, count: int) -> Iterator[Model]:
    pool = names()
    random.Random(seed).shuffle(pool)
    for name in pool:
        if count and runs_here(name):
            count -= 1
            yield Model(name, f"benchmarks.drawn:{name}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Ports and proves architectures drawn at random.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    campaign.add_options(parser)
    given = parser.parse_args()
    models = list(drawn(given.seed, given.count))
    folder, how = campaign.folder_for(f"drawn-{given.seed}"), {"jobs": given.jobs, "engine": given.engine}
    proofs = campaign.run(models, folder, again=given.again, **how)
    print(f"seed {given.seed}: {campaign.summary(proofs)}")
    return any(proof.outcome not in ("pass", "unsupported") for proof in proofs)


if __name__ == "__main__":
    sys.exit(main())
