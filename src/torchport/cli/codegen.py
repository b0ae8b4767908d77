"""`torchport codegen`: write the source of a port from a manifest alone."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json, print_summary
from torchport.cli.progress import Progress
from torchport.errors import UsageError


def codegen(
    manifest: Annotated[Path, typer.Option(metavar="FILE", help="The NAME_manifest.json of a recording.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The source file to write.")] = None,
    port: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of a port to write, with a cargo project in it."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="What the model's struct is called.")] = None,
    analyze_only: Annotated[
        bool, typer.Option("--analyze-only", help="Only say what would convert and what not.")
    ] = False,
    checks: options.ChecksOption = None,
    allow_random: options.AllowRandom = False,
    option: options.TargetOption = None,
    as_json: options.Json = False,
) -> int:
    """Write code from a manifest alone.

    Exits with 1 while operations remain to be done by hand.
    """
    if out is None and port is None and not analyze_only:
        raise UsageError("TP0801", "codegen needs --out FILE, --port DIR, or --analyze-only to write nothing")
    if port is not None and (out is not None or analyze_only or model is not None):
        raise UsageError("TP0801", "--port goes with neither --out, --model nor --analyze-only")
    with Progress():
        from torchport.porting.commands import codegen as generate

        given = options.of_target(option, checks, allow_random=allow_random)
        result = generate(manifest, out=out, port=port, model=model, analyze_only=analyze_only, options=given)
    if as_json:
        print_json(result)
    else:
        print_summary(result)
    return 1 if result["todos"] else 0
