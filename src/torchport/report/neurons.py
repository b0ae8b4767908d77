"""Neuron graphs on the terminal: the table of a summary."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.porting.cache import readable
from torchport.targets.marble.summary import Summary

SHOWN = 40
"""The layers that a table shows; the rest is one line."""


def render_summary(summary: Summary, console: Console) -> None:
    """Prints the totals, then a line for each layer and for each kind."""
    head = f"{summary.name}: {summary.neurons:,} neurons, {summary.synapses:,} synapses"
    console.print(Text(head, style="bold"))
    stored = f"{summary.weights_stored:,} numbers stored, {readable(summary.bytes_in_memory)} in memory"
    console.print(Text(stored))
    for title, shares in (("Layer", summary.layers), ("Kind", summary.kinds)):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(title, overflow="fold")
        for column in ("Groups", "Neurons", "Synapses"):
            table.add_column(column, justify="right")
        for name, share in list(shares.items())[:SHOWN]:
            table.add_row(Text(name), f"{share.groups:,}", f"{share.neurons:,}", f"{share.synapses:,}")
        rest = list(shares.values())[SHOWN:]
        if rest:
            counts = [sum(getattr(one, field) for one in rest) for field in ("groups", "neurons", "synapses")]
            table.add_row(Text(f"{len(rest)} more"), *(f"{count:,}" for count in counts))
        console.print(Padding(table, (1, 0, 0, 0)))
