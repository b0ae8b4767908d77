"""Size against drift, as a picture: a point for each scheme, and a line through those that nothing beats."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

from torchport.errors import UsageError
from torchport.files import atomic_write, write_atomically
from torchport.quant.results import QuantReport, SchemeDrift

KINDS = (".html", ".svg", ".png")


def must_be_drawable(file: Path) -> None:
    """Raises before anything is measured if a plot cannot be written to such a file."""
    if file.suffix not in KINDS:
        raise UsageError("TP0801", f"--plot {file}: a plot is {', '.join(KINDS)}")
    if any(importlib.util.find_spec(name) is None for name in ("altair", "vl_convert")):
        fix = "Run `pip install 'torchport[html]'`."
        raise UsageError(
            "TP0803", "plots need altair and vl-convert-python, which are not installed", fix=fix
        )


def draw(report: QuantReport, file: Path) -> None:
    """Writes the plot of a report."""
    chart = _chart(report)
    if file.suffix == ".html":
        write_atomically(file, chart.to_html(inline=True))
        return
    with atomic_write(file) as temporary:
        chart.save(temporary, format=file.suffix[1:])


def points(report: QuantReport) -> list[dict[str, Any]]:
    """The schemes and the plan: megabytes, relative drift of the output, and whether nothing smaller is better."""
    drifts = [
        *report.schemes,
        *([report.plan.drift] if report.plan is not None and report.plan.drift else []),
    ]
    known = [drift for drift in drifts if drift.outputs.sqnr_db == drift.outputs.sqnr_db]
    return [
        {
            "scheme": drift.scheme,
            "MB": drift.bytes / 1e6,
            "drift": 10 ** (-drift.outputs.sqnr_db / 20),
            "best": not any(_is_better(other, drift) for other in known),
        }
        for drift in known
        if math.isfinite(drift.outputs.sqnr_db)
    ]


def _is_better(one: SchemeDrift, other: SchemeDrift) -> bool:
    """Whether one is no larger and drifts no more, and is better in one of these."""
    sizes, errors = (one.bytes, other.bytes), (-one.outputs.sqnr_db, -other.outputs.sqnr_db)
    return sizes[0] <= sizes[1] and errors[0] <= errors[1] and (sizes[0] < sizes[1] or errors[0] < errors[1])


def _chart(report: QuantReport) -> Any:
    import altair as alt

    rows = points(report)
    data: Any = alt.InlineData(values=rows)
    x = alt.X("MB:Q", title="megabytes of weights", scale=alt.Scale(zero=False))
    y = alt.Y("drift:Q", title="RMS error of the output, of its RMS", scale=alt.Scale(type="log"))
    line = alt.Chart(data).mark_line(color="#adb5bd").transform_filter("datum.best").encode(x=x, y=y)
    colour = alt.condition("datum.best", alt.value("#1971c2"), alt.value("#868e96"))
    dots = (
        alt.Chart(data)
        .mark_point(filled=True, size=70)
        .encode(x=x, y=y, color=colour, tooltip=["scheme:N", "MB:Q"])
    )
    names = alt.Chart(data).mark_text(dx=8, align="left").encode(x=x, y=y, text="scheme:N")
    return (line + dots + names).properties(
        width=560, height=340, title=f"{report.model}: size against drift"
    )
