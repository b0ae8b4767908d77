"""Commands that have commands of their own."""

import typer


def group(help: str) -> typer.Typer:
    """A group of commands, which by itself prints what there is."""
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=help)

    @made.callback(invoke_without_command=True, help=help)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return made
