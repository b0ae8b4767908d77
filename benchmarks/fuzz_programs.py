"""Makes random models, ports them, compiles their Rust by the hundred in one crate, and proves some of them.

    python -m benchmarks.fuzz_programs                        # two minutes
    python -m benchmarks.fuzz_programs --minutes 10 --seed 3

A model must become Rust that compiles without a warning, and be proven at its own sizes and at others; or it must be
refused with a code, and every refusal is counted. A fault is shrunk to the least model that still has it, which is
left as a script beside what was said about it. Exits with 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.programs.judging import Fault, Judgement, judged
from benchmarks.programs.making import made_by
from benchmarks.programs.shrinking import shrunk
from benchmarks.programs.strategy import Program


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="for how long; the batch that runs is ended"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=100, help="how many models are one crate")
    parser.add_argument("--proofs", type=int, default=40, help="how many of a batch are proven")
    parser.add_argument("--keep", type=Path, default=Path("torchport-out/fuzz"), help="the folder for faults")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    end = time.monotonic() + 60 * given.minutes
    print(f"seed {given.seed}", flush=True)
    whole = Judgement()
    batch = 0
    while batch == 0 or time.monotonic() < end:
        whole += _batch(given, batch)
        batch += 1
    print("\n".join(_lines(f"seed {given.seed}", whole)))
    for code, message in sorted(whole.messages.items()):
        print(f"  {code}, for example: {' '.join(message.split())[:300]}")
    return 1 if whole.faults else 0


def _batch(given: argparse.Namespace, batch: int) -> Judgement:
    """What becomes of one crate of models. Faults are printed, shrunk and kept."""
    made = made_by(f"{given.seed} {batch}", given.batch)
    programs = {f"p{batch}_{index}": program for index, program in enumerate(made)}
    with tempfile.TemporaryDirectory() as scratch:
        found = judged(programs, Path(scratch), proofs=given.proofs)
        print("\n".join(_lines(f"batch {batch}", found)), flush=True)
        for name, fault in found.faults.items():
            script = given.keep / f"{given.seed}_{name}.py"
            _keep(script, programs[name], fault)
            print(
                f"--- {fault.kind}: {script}\n{fault.message[:3000]}\nlooking for the least such model",
                flush=True,
            )
            program, fault = shrunk(programs[name], fault, Path(scratch) / "shrinking")
            _keep(script, program, fault)
            print(f"{program.script}\n{fault.message[:3000]}", flush=True)
    return found


def _keep(script: Path, program: Program, fault: Fault) -> None:
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(program.script, encoding="utf-8")
    script.with_suffix(".txt").write_text(f"{fault.kind}\n{fault.message}\n", encoding="utf-8")


def _lines(label: str, found: Judgement) -> list[str]:
    refused = ", ".join(f"{what} {count}" for what, count in found.refused.most_common())
    elsewhere = ", ".join(f"{what} {count}" for what, count in found.refused_elsewhere.most_common())
    return [
        f"{label}: {found.made} made, {found.compiled} compiled, {found.proven} of {found.tried} proven, "
        f"{len(found.faults)} faults; refused {found.refused.total()} ({refused or 'none'})",
        f"  at other sizes {found.elsewhere} proven, {found.refused_elsewhere.total()} refused ({elsewhere or 'none'})",
    ]


if __name__ == "__main__":
    sys.exit(main())
