"""The page of a neuron graph. In: a core. Out: one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from torchport import pages
from torchport.errors import UsageError
from torchport.files import write_atomically
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.view.data import graph_of

MOST_NEURONS = 500_000
"""Neurons that the page lists below each other. Each of the others is found by its id."""
MOST_BYTES = 20_000_000
"""The size of the page, which decides how exactly weights are kept in it."""
_HERE = Path(__file__).parent
_SCRIPTS = (
    "data.js",
    "synapses.js",
    "tree.js",
    "neurons.js",
    "detail.js",
    "picture.js",
    "heatmap.js",
    "sliders.js",
    "export.js",
    "app.js",
)


def write_view(
    core: Core, path: Path, *, most_neurons: int = MOST_NEURONS, most_bytes: int = MOST_BYTES
) -> None:
    """Writes the page of a graph as it is now, whole or not at all.

    `most_neurons` are listed below each other. Weights are rounded, and then left out, the largest arrays first, until
    the page has at most `most_bytes`; the page says so.
    """
    write_atomically(path, render(core, most_neurons=most_neurons, most_bytes=most_bytes))


def render(core: Core, *, most_neurons: int = MOST_NEURONS, most_bytes: int = MOST_BYTES) -> str:
    """The whole page."""
    if most_neurons < 1 or most_bytes < 0:
        message = f"a page cannot list {most_neurons} neurons in {most_bytes} bytes"
        raise UsageError("TP0801", message, fix="Give at least 1 neuron and 0 bytes.")
    pages.must_be_installed("the page of a neuron graph", ("jinja2",))
    scripts = {"theme": pages.theme(), "page": pages.in_one_scope(_HERE / name for name in _SCRIPTS)}
    style = pages.style(_HERE / "page.css")
    around = sum(len(part.encode()) for part in (*scripts.values(), style))
    data = graph_of(core, most_neurons, max(0, most_bytes - around))
    return pages.filled(
        _HERE / "page.html",
        graph=data,
        policy=pages.policy(scripts.values()),
        style=style,
        scripts=scripts,
        data=pages.as_script(data),
    )
