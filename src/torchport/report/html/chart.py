"""The chart of errors by layer: a Vega-Lite specification, and the script that draws it in a page.

In: the layers. Out: the specification as JSON, without data: the page fills in the columns that it has anyway. The
script comes out of the vl-convert package, so that a page needs no network.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypedDict

from torchport.parity.result import Layer, Measured

HEIGHT = 120
MOST_NAMES = 24
ERRORS = ("mse", "apart")
"""The panels of which one is shown at a time."""
_FAIL = "#d9480f"
OWN, CHAINED, FAILED = "own error", "chained error", "own error, out of bounds"


class Specification(TypedDict):
    """Charts as JSON: one for each of ERRORS, the panels in them, and the colour of what is out of bounds."""

    specs: dict[str, dict[str, Any]]
    panels: dict[str, dict[str, Any]]
    fail: str


def panels(layers: Sequence[Layer]) -> dict[str, dict[str, Any]]:
    """The value that each panel shows, and the range of its axis; exact zeros lie below it, NaN and infinity above."""
    measured = [m for layer in layers for m in (layer.own, layer.chained) if m is not None]
    ratios = [layer.own.ratio for layer in layers if layer.own is not None and layer.own.ratio is not None]
    return {
        "ratio": {"title": "own, share of limit", **_range([*ratios, 1.0])},
        "mse": {"title": "mean squared error", **_range(_error(m, m.mse) for m in measured)},
        "apart": {"title": "1 − cosine", **_range(_error(m, 1.0 - m.cosine) for m in measured)},
    }


def _error(measured: Measured, value: float) -> float:
    """The error `value`, or NaN if one side has a NaN or Inf that the other has not: `value` leaves those out."""
    return math.nan if measured.nan_mismatches or measured.inf_mismatches else value


def _range(values: Iterable[float]) -> dict[str, Any]:
    """Powers of ten around the finite positive values, with a lane for zeros and one for NaN if there are any."""
    known = list(values)
    positive = [value for value in known if math.isfinite(value) and value > 0]
    low = math.floor(math.log10(min(positive))) if positive else -1
    high = max(math.ceil(math.log10(max(positive))) if positive else 0, low + 1)
    step = math.ceil((high - low) / 4)
    return {
        "low": low,
        "high": high,
        "zero": low - step if any(value <= 0 for value in known) else None,
        "over": high + step if any(not math.isfinite(value) for value in known) else None,
        "ticks": [power for power in range(low, high + 1) if power % step == 0],
    }


def specification(layers: Sequence[Layer]) -> Specification:
    """The charts: the share of the limit and, over the same axis, one of the two errors, of which a reader chooses.

    The page fills in `rows`, `culprit` and `selected`.
    """
    import altair as alt

    made, names = panels(layers), block_names([layer.name for layer in layers])

    def stacked(second: str) -> dict[str, Any]:
        both = [
            _panel(alt, name, made[name], len(layers), names if name == second else {})
            for name in ("ratio", second)
        ]
        return _drawn(alt, alt.vconcat(*both, spacing=22).resolve_scale(color="shared", shape="shared"))

    return {"specs": {name: stacked(name) for name in ERRORS}, "panels": made, "fail": _FAIL}


def block_names(names: Sequence[str]) -> dict[int, str]:
    """The place at which each block begins, with its name: at most so many that they can be read beside each other."""
    paths = [name.partition("#")[0].split(".") for name in names]
    numbered = [next((at for at, part in enumerate(path) if part.isdecimal()), None) for path in paths]
    first: dict[str, int] = {}
    for place, (path, at) in enumerate(zip(paths, numbered, strict=True)):
        first.setdefault(".".join(path[: (0 if at is None else at) + 1]), place)
    step = math.ceil(len(first) / MOST_NAMES)
    return {place: name for name, place in list(first.items())[:: max(1, step)]}


def _drawn(alt: Any, stack: Any) -> dict[str, Any]:
    zoom = alt.selection_interval(
        bind="scales",
        encodings=["x"],
        name="zoom",
        zoom="wheel![event.ctrlKey || event.metaKey]",
    )
    with warnings.catch_warnings():
        # Altair warns that all panels share one zoom, which is meant to be so.
        warnings.filterwarnings("ignore", message="Automatically deduplicated")
        chart = stack.add_params(zoom)
    result: dict[str, Any] = chart.to_dict()
    result.pop("config", None)
    result["padding"] = 4
    return result


def _panel(alt: Any, name: str, panel: dict[str, Any], number: int, names: dict[int, str]) -> Any:
    """A panel; the last one has the names of the blocks."""
    y_axis = _y_axis(alt, panel)
    base = alt.Chart(alt.NamedData(name="rows")).encode(
        x=_x(alt, number, names), y=_y(alt, name, panel, y_axis)
    )
    color, shape = _series(alt)
    # With thousands of points, work for each is dear: sizes come with the data, texts only if one points at a point.
    series = "datum.series {} " + f"'{CHAINED}'"
    chained = base.transform_filter(series.format("==")).mark_line(strokeWidth=1.5, clip=True, aria=False)
    own = base.transform_filter(series.format("!=")).mark_point(
        filled=True, opacity=0.9, clip=True, aria=False, tooltip={"content": "data"}
    )
    size = alt.Size("size:Q", scale=None, legend=None)
    is_first = name == "ratio"
    layers = [
        _mark(alt, "selected", "#8a8f98", 7, 0.4),
        _mark(alt, "culprit", _FAIL, 1.5, 1.0),
        _limit(alt, panel["title"], y_axis) if is_first else chained.encode(color=color),
        own.encode(color=color, shape=shape, size=size),
        *([_words(alt, late=False), _words(alt, late=True)] if is_first else []),
    ]
    return alt.layer(*layers).properties(width=600, height=HEIGHT)


def _x(alt: Any, number: int, names: dict[int, str]) -> Any:
    axis = alt.Axis(
        grid=False,
        values=sorted(names),
        labels=bool(names),
        ticks=bool(names),
        labelExpr=f"{json.dumps({str(place): name for place, name in names.items()})}[datum.value]",
        labelAlign="left",
        labelOverlap="greedy",
        labelSeparation=8,
        labelLimit=130,
    )
    return alt.X(
        "place:Q",
        title="blocks, in order of execution" if names else None,
        scale=alt.Scale(domain=[-0.5, max(number - 0.5, 0.5)], nice=False),
        axis=axis,
    )


def _y(alt: Any, name: str, panel: dict[str, Any], axis: Any) -> Any:
    # The page computes the logarithms, because a log scale has no places for zero and NaN.
    bottom = panel["low"] if panel["zero"] is None else panel["zero"]
    top = panel["high"] if panel["over"] is None else panel["over"]
    edge = (top - bottom) * 0.05
    scale = alt.Scale(domain=[bottom - edge, top + edge], nice=False, zero=False)
    return alt.Y(f"{name}:Q", title=panel["title"], scale=scale, axis=axis)


def _y_axis(alt: Any, panel: dict[str, Any]) -> Any:
    lanes = [panel[lane] for lane in ("zero", "over") if panel[lane] is not None]
    ticks = sorted([*lanes, *panel["ticks"]])
    return alt.Axis(values=ticks, labelExpr=_label(panel), labelOverlap=False, minExtent=54)


def _series(alt: Any) -> tuple[Any, Any]:
    """The colour and the shape of a point. Both say the same, so that no one has to tell colours apart."""
    kinds = [OWN, CHAINED, FAILED]
    legend = alt.Legend(orient="top", symbolOpacity=1, offset=24)
    colours = alt.Scale(domain=kinds, range=["#2f7fc4", "#8a8f98", _FAIL])
    shapes = alt.Scale(domain=kinds, range=["circle", "stroke", "diamond"])
    return (
        alt.Color("series:N", title=None, scale=colours, legend=legend),
        alt.Shape("series:N", title=None, scale=shapes, legend=legend),
    )


def _label(panel: dict[str, Any]) -> str:
    """The labels of the axis: powers of ten as they are written, and words for the two lanes."""
    zero, over = (panel[lane] if panel[lane] is not None else 9999 for lane in ("zero", "over"))
    power = "datum.value >= -2 && datum.value <= 3 ? format(pow(10, datum.value), '~r') : '1e' + datum.value"
    return f"datum.value == {zero} ? 'exact 0' : datum.value == {over} ? 'NaN, Inf' : {power}"


def _limit(alt: Any, title: str, axis: Any) -> Any:
    """The line at what the rule allows: 1, which is ten to the power of 0."""
    values = alt.InlineData(values=[{"limit": 0}])
    rule = alt.Chart(values).mark_rule(strokeDash=[6, 4], color=_FAIL)
    return rule.encode(y=alt.Y("limit:Q", title=title, axis=axis))


def _mark(alt: Any, name: str, colour: str, width: float, opacity: float) -> Any:
    chart = alt.Chart(alt.NamedData(name=name))
    return chart.mark_rule(color=colour, strokeWidth=width, opacity=opacity, clip=True).encode(x="place:Q")


def _words(alt: Any, late: bool) -> Any:
    """The name of the culprit above its line: to the right of it, or to the left if the culprit comes late."""
    chart = alt.Chart(alt.NamedData(name="culprit")).transform_filter(f"datum.late == {str(late).lower()}")
    text = chart.mark_text(
        align="right" if late else "left",
        dx=5 if late else -5,
        baseline="bottom",
        clip=False,
        fontWeight="bold",
        fontSize=12,
        color=_FAIL,
        y=-4,
    )
    return text.encode(x="place:Q", text="words:N")


@cache
def script() -> str:
    """The script with Vega, Vega-Lite and vegaEmbed in one piece."""
    import vl_convert

    assign: Callable[[str], str] = "window.{0} = {0};".format
    bundle: str = vl_convert.javascript_bundle(assign("vegaEmbed"))
    return bundle
