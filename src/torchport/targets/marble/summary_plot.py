"""A plot of a summary: the neurons and the synapses of each layer as bars, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchport.errors import UsageError
from torchport.files import write_atomically
from torchport.targets.marble.summary import Summary

FORMATS = (".svg", ".png")
WIDTH, STEP = 320, 14
"""Of a panel, and from one layer to the next."""


def must_be_drawable(path: Path) -> None:
    """Raises if the file's name asks for another format, or if what draws it is not installed."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            "TP0801", f"a plot cannot be written to {path}", fix="Give a file that ends in .svg or .png."
        )
    _converter()


def write_plot(summary: Summary, path: Path) -> None:
    """Draws the summary to an .svg or a .png file."""
    must_be_drawable(path)
    converter = _converter()
    if path.suffix.lower() == ".svg":
        write_atomically(path, converter.vegalite_to_svg(specification(summary)))
    else:
        write_atomically(path, converter.vegalite_to_png(specification(summary), scale=2))


def specification(summary: Summary) -> dict[str, Any]:
    """The plot as Vega-Lite: a panel of neurons beside one of synapses, a bar for each layer."""
    rows = [
        {"layer": part.layer, "kind": part.kind, "neurons": part.neurons, "synapses": part.synapses}
        for part in summary.parts
    ]
    layers = list(summary.layers)
    title = f"{summary.name}: {summary.neurons:,} neurons, {summary.synapses:,} synapses"
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": title,
        "data": {"values": rows},
        "hconcat": [_neurons(layers), _synapses(layers)],
        "config": {"background": "white"},
    }


def _neurons(layers: list[str]) -> dict[str, Any]:
    """Bars, in which the kinds of neuron of a layer have colours."""
    encoding = {
        "x": {"field": "neurons", "aggregate": "sum", "type": "quantitative"},
        "y": _by_layer(layers),
        "color": {"field": "kind", "type": "nominal", "title": "kind of neuron"},
    }
    return {"width": WIDTH, "height": {"step": STEP}, "mark": "bar", "encoding": encoding}


def _synapses(layers: list[str]) -> dict[str, Any]:
    """Points on a log scale, as the numbers of synapses of layers are orders of magnitude apart."""
    total = [{"op": "sum", "field": "synapses", "as": "total"}]
    x = {
        "field": "total",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "synapses, on a log scale",
    }
    return {
        "width": WIDTH,
        "height": {"step": STEP},
        "transform": [{"aggregate": total, "groupby": ["layer"]}, {"filter": "datum.total > 0"}],
        "mark": "point",
        "encoding": {"x": x, "y": _by_layer(layers)},
    }


def _by_layer(layers: list[str]) -> dict[str, Any]:
    return {"field": "layer", "type": "nominal", "scale": {"domain": layers}, "title": None}


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise UsageError(
            "TP0803",
            "plots need vl-convert-python, which is not installed",
            fix="Run `pip install 'torchport[html]'`, or write the summary as JSON or CSV.",
        ) from error
    return vl_convert
