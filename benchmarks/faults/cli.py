"""The campaign's command line: what to plant, and what to print."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from torchport.files import cache_directory, write_atomically
from torchport.targets.registry import DEFAULT

from .. import zoo
from .alarms import runs
from .campaign import Planted, Subject
from .kinds import KINDS
from .models import MODELS
from .outcome import Outcome, as_json, good_enough, missed, table

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.command()
def main(
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind of fault; may be repeated.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be repeated.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write every outcome to this file.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say what would be planted, and stop.")] = False,
    suggestions: Annotated[bool, typer.Option(help="Judge the suggestions as well.")] = True,
    zoo_: Annotated[bool, typer.Option("--zoo", help="Count false alarms on the models of the zoo.")] = False,
    to: Annotated[str, typer.Option(metavar="TARGET", help="The target whose ports are tried.")] = DEFAULT,
) -> None:
    """Plants faults and counts what is found. Exits 1 when too few are detected, or blamed on the right layer."""
    if zoo_:
        raise typer.Exit(_false_alarms(_chosen(model, zoo.ZOO, "model"), to))
    kinds, models = _chosen(kind, KINDS, "kind"), _chosen(model, MODELS, "model")
    outcomes: list[Outcome] = []
    alarms: list[str] = []
    quiet_places = 0
    for name in models:
        say(f"{name}: capturing")
        subject = Subject(name, _folder(to) / name, to)
        if not list_ and (alarm := subject.false_alarm()) is not None:
            alarms.append(f"{name} fails without a fault, so none is planted in it: {alarm}")
            say(f"  {alarms[-1]}")
            continue
        for planted in subject.all_faults(kinds):
            if list_:
                print(f"{name}\t{planted.way}\t{planted.kind}\t{planted.place}\t{planted.culprit}")
                continue
            outcomes.append(check(subject, planted, explain=suggestions))
            say(f"  {'ok  ' if outcomes[-1].exact else 'MISS'} {outcomes[-1]}")
        quiet_places += subject.quiet_places
    if list_:
        return
    print(table(outcomes, suggestions=suggestions))
    print(f"\n{quiet_places} places were passed over, where a fault changes nothing beyond noise.")
    print("\n".join([*missed(outcomes), *alarms]))
    if json is not None:
        write_atomically(json, as_json(outcomes))
    raise typer.Exit(0 if not alarms and good_enough(outcomes, suggestions=suggestions) else 1)


def _chosen(wanted: list[str] | None, known: dict, what: str) -> list[str]:
    if unknown := set(wanted or ()) - set(known):
        raise typer.BadParameter(
            f"there is no {what} {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    return wanted or list(known)


def check(subject: Subject, planted: Planted, *, explain: bool = False) -> Outcome:
    """Plants a fault, lets torchport prove the port, and notes what it says."""
    start = time.perf_counter()
    try:
        report = subject.port(planted).check(explain=explain)
    except Exception as error:  # A crash is no verdict either, and the campaign goes on.
        return Outcome.of_error(planted, error, time.perf_counter() - start)
    return Outcome.of(planted, report, time.perf_counter() - start)


def _folder(target: str) -> Path:
    """Where the ports to a target are written."""
    return cache_directory() / ("faults" if target == DEFAULT else f"faults-{target}")


def _false_alarms(names: list[str], target: str) -> int:
    done = []
    for run in runs(names, _folder(target) / "zoo", target):
        say(str(run))
        done.append(run)
    alarms = [run for run in done if run.status == "fail"]
    proven = [run for run in done if run.status == "pass"]
    others = [run for run in done if run.status not in ("pass", "fail")]
    print(f"{len(alarms)} false alarms in {len(alarms) + len(proven)} runs of models without a fault")
    for title, some in (("False alarms", alarms), ("Not ported yet", others)):
        if some:
            print("\n".join(["", title, *(f"  {run}" for run in some)]))
    return 1 if alarms else 0
