"""Commands that have commands of their own, and how help lists them."""

from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class Sections(TyperGroup):
    """Lists commands by what one wants to do with them."""

    titles: ClassVar[dict[str, tuple[str, ...]]] = {
        "Port a model and prove the port": ("port", "check"),
        "See what is wrong": ("report", "tui", "minify", "diff"),
        "Record a model, and write code from that": ("init", "record", "codegen", "todos"),
        "Weights from checkpoints, and in few bits": ("weights", "quantize", "unpack"),
        "Ask what works": ("ops", "doctor", "cache", "explain"),
        "Models under torch.compile": ("bench", "debug"),
        "Models as graphs of neurons": ("marble",),
    }

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in self.titles.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


def group(help: str) -> typer.Typer:
    """A group of commands, which by itself prints what there is."""
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=help)

    @made.callback(invoke_without_command=True, help=help)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return made
