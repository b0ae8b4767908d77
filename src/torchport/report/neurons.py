"""Neuron graphs on the terminal: what one consists of, its groups, and how it compares with its model."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.porting.cache import readable
from torchport.targets.marble.groups import Group, NeuronGraph
from torchport.targets.marble.summary import Summary
from torchport.targets.marble.validation import Validation

SHOWN = 40
"""The layers that a table shows; the rest is one line."""


def headline(summary: Summary) -> str:
    return f"{summary.name}: {summary.neurons:,} neurons, {summary.synapses:,} synapses"


def render_summary(summary: Summary, console: Console) -> None:
    """Prints the totals, then a line for each layer and for each kind."""
    console.print(Text(headline(summary), style="bold"))
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


def render_graph(graph: NeuronGraph, console: Console) -> None:
    """Prints the groups in the order in which they are computed, each with what it takes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("Group", "Kind", "Work", "Shape", "First id", "Takes"):
        table.add_column(column, overflow="fold", justify="right" if column == "First id" else "left")
    for group in graph.groups():
        shapes = " ".join(str(list(form.shape)) for form in group.results)
        first = f"{group.first:,}" if group.kind.has_neurons else ""
        table.add_row(
            Text(group.name), group.kind.value, Text(group.work), Text(shapes), first, _takes(group)
        )
    console.print(table)


def _takes(group: Group) -> Text:
    return Text(" ".join(dict.fromkeys(port.group.removeprefix("border:") for port in group.inputs)))


def render_validation(validation: Validation, console: Console) -> None:
    """Prints the verdict, and the layers that differ."""
    word, style = ("PASS", "bold green") if validation.passed else ("FAIL", "bold red")
    told = f"{validation.name} by {validation.by}: {_verdict(validation)} ({validation.rule})"
    console.print(Text.assemble((word, style), f"  {told}"))
    if validation.output_error is not None:
        error = f"error {validation.output_error:.2g} of the largest magnitude ({validation.output_rule})"
        console.print(Text(f"      outputs: {error}"))
    if validation.uncompared:
        names = ", ".join(validation.uncompared[:SHOWN])
        console.print(
            Text(f"      not compared, as they have no border in the graph: {names}", style="yellow")
        )
    for layer in validation.layers:
        if layer.name in validation.differing:
            own = "" if layer.own_error is None else f"own error {layer.own_error:.2g}"
            chained = "" if layer.chained_error is None else f"chained {layer.chained_error:.2g}"
            facts = ", ".join(fact for fact in (own, chained, layer.reason) if fact)
            console.print(Text.assemble("  ", (layer.name, "bold red"), f"  {facts}"))


def _verdict(validation: Validation) -> str:
    layers = len(validation.layers)
    if validation.passed:
        return f"all {layers} layers agree with PyTorch"
    if not validation.compared:
        return "nothing was compared"
    return f"{len(validation.differing)} of {layers} layers differ"
