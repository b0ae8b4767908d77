"""`torchport port`: capture, convert, build, run, compare, report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_report
from torchport.cli.progress import Progress
from torchport.errors import UsageError

if TYPE_CHECKING:
    from torchport.events import Watcher
    from torchport.runs.report import Report


def port(
    spec: options.Spec,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="Where to (candle, if not given); `torchport doctor` lists them."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the port is written.")] = None,
    name: Annotated[str | None, typer.Option(help="What the port is called.")] = None,
    dynamic: options.Dynamic = None,
    hints: options.Hints = None,
    checks: options.ChecksOption = None,
    allow_random: options.AllowRandom = False,
    option: options.TargetOption = None,
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    explain: options.Explain = True,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a port that was edited by hand; the edits are lost.")
    ] = False,
    tui: Annotated[bool, typer.Option("--tui", help="Show it on a dashboard while it is made.")] = False,
    as_json: options.Json = False,
) -> int:
    """Port a model and prove the port, layer by layer."""
    if tui and as_json:
        raise UsageError("TP0801", "--tui and --json do not go together", fix="Give one of them.")

    given = options.of_target(option, checks, allow_random=allow_random)

    def work(watch: "Watcher") -> "Report":
        from torchport.porting.commands import port_spec
        from torchport.targets.registry import DEFAULT

        return port_spec(
            spec,
            target=to or DEFAULT,
            out=out,
            name=name,
            dynamic=dynamic,
            hints=hints,
            options=given,
            rtol=rtol,
            atol=atol,
            explain=explain,
            force=force,
            watch=watch,
        )

    if tui:
        from torchport.report.tui import require

        require()
        from torchport.report.tui.session import watch

        return print_report(watch(work, f"{spec} to {to}" if to else spec), as_json)
    with Progress() as progress:
        report = work(progress)
    return print_report(report, as_json)
