"""`python -m benchmarks.zoo`, or `make zoo`: every model of the zoo, ported and proven at every layer.

    python -m benchmarks.zoo                     # all; what passed before with these sources is not run again
    python -m benchmarks.zoo bert resnet18
    python -m benchmarks.zoo --jobs 4            # or --engine ray, on many machines
    python -m benchmarks.zoo --table docs/zoo.md # writes the page, if all were run

Exits with 1 if a model is not proven.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torchport.files import write_atomically

from ..proving import campaign
from ..proving.subjects import Model, Proof
from . import OTHER_SIZES, ZOO

PAGE = """\
# The zoo

Models that `make zoo` ports to candle with no TODO and proves at every layer. Weights are random and seeded, those of
trained models are the real ones. The third column is how near the limit the worst layer came; at 1 it would fail.
A model with free axes is proven a second time, on sizes that were not recorded.

| model | layers | nearest to the limit | free axes |
|---|---|---|---|
{rows}
"""


def models(names: Sequence[str]) -> list[Model]:
    unknown = [name for name in names if name not in ZOO]
    if unknown:
        raise SystemExit(f"the zoo has no {', '.join(unknown)}; it has {', '.join(sorted(ZOO))}")
    return [_model(name) for name in names or sorted(ZOO)]


def _model(name: str) -> Model:
    spec = f"benchmarks.zoo:{name}"
    if name not in OTHER_SIZES:
        return Model(name, spec)
    return Model(name, spec, OTHER_SIZES[name][0], f"{spec}_elsewhere")


def page(proofs: Sequence[Proof]) -> str:
    rows = (
        f"| {proof.name} | {proof.layers} | {proof.nearest:.2f} | {_axes(proof.name)} |" for proof in proofs
    )
    return PAGE.format(rows="\n".join(rows))


def _axes(name: str) -> str:
    return f"`{OTHER_SIZES[name][0]}`" if name in OTHER_SIZES else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Ports and proves the models of the zoo.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    campaign.add_options(parser)
    parser.add_argument("--table", type=Path, help="write the page with the figures here")
    given = parser.parse_args()
    folder, how = campaign.folder_for("zoo"), {"jobs": given.jobs, "engine": given.engine}
    proofs = campaign.run(models(given.names), folder, again=given.again, **how)
    print(campaign.summary(proofs))
    if any(proof.outcome != "pass" for proof in proofs):
        return 1
    if given.table:
        write_atomically(given.table, page(proofs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
