"""The commands of `torchport`, and the options that come before a command."""

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from torchport.cli.bench import bench
from torchport.cli.cache import cache
from torchport.cli.check import check
from torchport.cli.codegen import codegen
from torchport.cli.debug import app as debug
from torchport.cli.diff import diff
from torchport.cli.doctor import doctor
from torchport.cli.explain import explain
from torchport.cli.groups import Sections
from torchport.cli.init import init
from torchport.cli.marble import app as marble
from torchport.cli.minify import minify
from torchport.cli.ops import ops
from torchport.cli.port import port
from torchport.cli.quantize import quantize
from torchport.cli.record import record
from torchport.cli.report import report
from torchport.cli.todos import todos
from torchport.cli.tui import tui
from torchport.cli.unpack import unpack
from torchport.cli.weights import app as weights

# Plain help starts in half the time of the boxed one, and wraps as it is written.
app = typer.Typer(cls=Sections, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"torchport {version('torchport')}")
        except PackageNotFoundError:
            typer.echo("torchport (not installed)")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def torchport(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Port a PyTorch model somewhere else, and prove the port.

    SPEC names a model: path/to/file.py:callable or package.module:callable. The callable takes no
    arguments and returns (model, args) or (model, args, kwargs).
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMMANDS = (
    port,
    check,
    report,
    tui,
    minify,
    diff,
    quantize,
    unpack,
    init,
    record,
    codegen,
    todos,
    ops,
    bench,
    doctor,
    cache,
    explain,
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(marble, name="marble")
app.add_typer(debug, name="debug")
app.add_typer(weights, name="weights")
