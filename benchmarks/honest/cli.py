"""The honest arm's command line: what to rewrite, and what to print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from torchport.files import write_atomically

from .arm import outcomes as compare
from .models import MODELS, half_of
from .outcome import Outcome, alarms, as_json, good_enough, share, table
from .rewriting import REWRITINGS

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def main(
    kind: Annotated[
        list[str] | None, typer.Option(help="Only kinds that contain this; may be repeated.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be repeated.")] = None,
    half: Annotated[
        str | None, typer.Option(help="Only one half of the models: calibration or held-out.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write every outcome to this file.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the kinds and models, and stop.")] = False,
) -> None:
    """Compares models with honest rewritings of them. Exits 1 if more than 0.5 % are called wrong."""
    kinds, models = _kinds(kind), _models(model, half)
    if list_:
        print("\n".join([*kinds, "", *(f"{name} ({half_of(name)})" for name in models)]))
        return
    done: list[Outcome] = []
    for name in models:
        for outcome in compare(name, kinds):
            done.append(outcome)
            print(f"{'ALARM' if outcome.is_alarm else 'ok   '} {outcome}", file=sys.stderr, flush=True)
    print(table(done))
    count = sum(one.is_alarm for one in done)
    print(f"\n{count} alarms in {len(done)} runs: {share(done):.1%}")
    print("\n".join(alarms(done)))
    if json is not None:
        write_atomically(json, as_json(done))
    raise typer.Exit(0 if good_enough(done) else 1)


def _kinds(wanted: list[str] | None) -> list[str]:
    found = [kind for kind in REWRITINGS if wanted is None or any(part in kind for part in wanted)]
    if not found:
        raise typer.BadParameter(f"there is no kind with {wanted}; --list names them all")
    return found


def _models(wanted: list[str] | None, half: str | None) -> list[str]:
    if half not in (None, "calibration", "held-out"):
        raise typer.BadParameter(f"there is no half {half}; there are calibration and held-out")
    if unknown := set(wanted or ()) - set(MODELS):
        raise typer.BadParameter(
            f"there is no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}"
        )
    return [name for name in wanted or MODELS if half in (None, half_of(name))]
