"""Draws $layer: heatmaps and histograms of the golden and the candidate values and of the error.

Writes plot.html and plot.png beside this file. Needs torchport[html]: altair and vl-convert.
"""

from pathlib import Path

import altair as alt
import numpy as np
import torch
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
MOST = 64  # cells of a heatmap, down and across


def matrix(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as a matrix: the last axis across, all others down."""
    values = tensor.double().numpy()
    return values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)


def shrunk(values: np.ndarray) -> np.ndarray:
    """At most MOST by MOST cells; a cell has the value of largest magnitude in it."""
    for axis in (0, 1):
        parts = np.array_split(values, min(MOST, values.shape[axis]), axis)
        values = np.stack([_largest(part, axis) for part in parts], axis)
    return values


def _largest(part: np.ndarray, axis: int) -> np.ndarray:
    at = np.abs(np.nan_to_num(part, nan=np.inf)).argmax(axis, keepdims=True)
    return np.take_along_axis(part, at, axis).squeeze(axis)


def heatmap(values: np.ndarray, title: str, scheme: str, both: np.ndarray) -> alt.Chart:
    """`both` holds the values that set the ends of the colours."""
    cells, finite = shrunk(values), both[np.isfinite(both)]
    ends = [float(finite.min()), float(finite.max())] if finite.size else [0.0, 1.0]
    rows = [
        {"row": i, "column": j, "value": None if np.isnan(cells[i, j]) else float(cells[i, j])}
        for i in range(cells.shape[0])
        for j in range(cells.shape[1])
    ]
    return (
        alt.Chart(alt.Data(values=rows), title=title, width=260, height=260)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color("value:Q", scale=alt.Scale(scheme=scheme, domain=ends), title=None),
            tooltip=["row:O", "column:O", "value:Q"],
        )
    )


def histogram(title: str, sides: dict[str, np.ndarray]) -> alt.Chart:
    sides = {side: values[np.isfinite(values)] for side, values in sides.items()}
    both = np.concatenate(list(sides.values()))
    edges = np.histogram_bin_edges(both if both.size else np.zeros(1), bins=60)
    rows = []
    for side, values in sides.items():
        counts, _ = np.histogram(values, bins=edges)
        rows += [
            {"side": side, "value": float(low), "count": int(count)}
            for low, count in zip(edges, [*counts, 0])
        ]
    return (
        alt.Chart(alt.Data(values=rows), title=title, width=380, height=220)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", title=None),
            y=alt.Y("count:Q", title="elements"),
            color=alt.Color("side:N", title=None),
            strokeDash=alt.StrokeDash("side:N", title=None),
        )
    )


def main() -> None:
    with safe_open(HERE / "tensors.safetensors", framework="pt") as file:
        key = file.metadata()["key"]
        golden, names = matrix(file.get_tensor(f"golden/{key}")), file.keys()
        if f"candidate/{key}" not in names:
            raise SystemExit(f"the port computed no value for {key}, so there is nothing to draw")
        candidate = matrix(file.get_tensor(f"candidate/{key}"))
    print(f"{key}: golden {golden.shape}, candidate {candidate.shape} (as matrices)")
    both = np.concatenate([golden.ravel(), candidate.ravel()])
    maps = [heatmap(golden, "golden", "viridis", both), heatmap(candidate, "candidate", "viridis", both)]
    spread = [histogram("values", {"golden": golden, "candidate": candidate})]
    if golden.shape == candidate.shape:
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs(candidate - golden)
            digits = np.log10(error[error > 0])
        print(f"largest error {np.nanmax(error):.3g}, {np.isnan(error).sum()} places with NaN")
        maps.append(heatmap(error, "absolute error", "inferno", error))
        spread.append(histogram("log10 of the absolute error", {"error": digits}))
    page = alt.vconcat(
        alt.hconcat(*maps).resolve_scale(color="independent"),
        alt.hconcat(*spread).resolve_scale(color="independent", strokeDash="independent"),
    ).properties(title="$layer: " + key)
    page.save(HERE / "plot.html", inline=True)
    page.save(HERE / "plot.png", scale_factor=2)
    print(f"wrote {HERE / 'plot.html'} and plot.png")


if __name__ == "__main__":
    main()
