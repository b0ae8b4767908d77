"""`torchport port`: capture, convert, build, run, compare, report."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_report
from torchport.cli.progress import Progress


def port(
    spec: options.Spec,
    to: Annotated[str, typer.Option(metavar="TARGET", help="Where to, such as candle.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the port is written.")] = None,
    name: Annotated[str | None, typer.Option(help="What the port is called.")] = None,
    dynamic: options.Dynamic = None,
    hints: options.Hints = None,
    checks: options.ChecksOption = options.Checks.layers,
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    explain: options.Explain = True,
    as_json: options.Json = False,
) -> int:
    """Port a model and prove the port, layer by layer."""
    with Progress() as progress:
        from torchport.pipeline import port_spec

        report = port_spec(
            spec,
            target=to,
            out=out,
            name=name,
            dynamic=dynamic,
            hints=hints,
            checks=checks.value,
            rtol=rtol,
            atol=atol,
            explain=explain,
            progress=progress,
        )
    return print_report(report, as_json)
