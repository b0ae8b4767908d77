"""Every element of the tensors that fail, as shares of what each may be off: the pattern is often the diagnosis.

In: a run whose traces are kept. Out: for the failing layers that there is room for, the tensor as a matrix of one byte
an element, and what its axes are called. A tensor that is too large for a page is shown in cells of several elements,
by their worst one.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import torch

from torchport.capture.graph import Graph, Ref, TensorMeta
from torchport.capture.plan import make_plan
from torchport.errors import TorchportError
from torchport.parity.picture import Picture
from torchport.parity.result import Layer
from torchport.report.html.drawing import size
from torchport.runs.findings import findings
from torchport.runs.run import Run
from torchport.trace.reading import Trace

MOST_BYTES = 1_500_000
"""So much of a page is for these pictures; layers that come later have their cells of a few elements."""
MOST_ACROSS, MOST_DOWN = 768, 384
LOWEST, DECADES = 1e-3, 9
"""A byte is the logarithm of the share, from `LOWEST` on, over so many decades."""
EXACT, NOT_FINITE = 0, 255


def elements(run: Run, graph: Graph | None) -> dict[int, dict[str, Any]]:
    """By the place of the layer in the report: the matrix, for the first layer of each finding."""
    if run.golden is None or run.lockstep is None:
        return {}
    places = {layer.name: place for place, layer in enumerate(run.report.layers)}
    drawn: dict[int, dict[str, Any]] = {}
    room = MOST_BYTES
    try:
        with Trace(run.golden) as golden, Trace(run.lockstep) as lockstep:
            for layer in (finding.layer for finding in findings(run.report)):
                if layer.own is None or layer.picture is None or not lockstep.has(layer.own.key):
                    continue
                pair = golden.get(layer.own.key), lockstep.get(layer.own.key)
                if pair[0].shape == pair[1].shape and pair[0].ndim:
                    found = _matrix(*pair, layer.picture, _axes(layer, graph, pair[0]))
                    room -= len(found["shares"])
                    if room < 0:
                        break
                    drawn[places[layer.name]] = found
    except TorchportError:
        return drawn  # A trace that is damaged is no reason to show nothing else.
    return drawn


def _matrix(
    golden: torch.Tensor, candidate: torch.Tensor, picture: Picture, axes: list[str]
) -> dict[str, Any]:
    columns = golden.shape[-1]
    first, second = (one.detach().cpu().double().reshape(-1, columns).numpy() for one in (golden, candidate))
    with np.errstate(invalid="ignore"):
        errors = np.abs(second - first)
    alike = (first == second) | (np.isnan(first) & np.isnan(second))
    errors = np.where(alike, 0.0, np.where(np.isnan(errors), np.inf, errors))
    step = math.ceil(errors.shape[0] / MOST_DOWN), math.ceil(columns / MOST_ACROSS)
    pooled = _pooled(errors, *step)
    return {
        "shape": list(golden.shape),
        "axes": axes,
        "down": pooled.shape[0],
        "across": pooled.shape[1],
        "step": step,
        "shares": base64.b64encode(_bytes(pooled, picture.allowed).tobytes()).decode(),
    }


def _pooled(errors: np.ndarray, down: int, across: int) -> np.ndarray:
    """The largest error in each cell of so many rows and columns."""
    rows = np.maximum.reduceat(errors, np.arange(0, errors.shape[0], down), axis=0)
    cells: np.ndarray = np.maximum.reduceat(rows, np.arange(0, errors.shape[1], across), axis=1)
    return cells


def _bytes(errors: np.ndarray, allowed: float | None) -> np.ndarray:
    finite = errors[np.isfinite(errors)]
    unit = allowed or float(finite.max(initial=0.0)) or 1.0
    with np.errstate(divide="ignore"):
        steps = np.log10(errors / unit / LOWEST) * (253 / DECADES)
    levels = np.where(np.isfinite(errors), 1 + np.clip(np.nan_to_num(steps), 0, 253), NOT_FINITE)
    return np.where(errors == 0, EXACT, levels).astype(np.uint8)


def _axes(layer: Layer, graph: Graph | None, golden: torch.Tensor) -> list[str]:
    """What each axis is: its free size if it has one, such as `batch`, or else its number."""
    meta = _meta(layer, graph)
    dims = meta.shape if meta is not None and len(meta.shape) == golden.ndim else golden.shape
    names = [size(dim) for dim in dims]
    return [f"axis {at}" if name.isdecimal() else name for at, name in enumerate(names)]


def _meta(layer: Layer, graph: Graph | None) -> TensorMeta | None:
    """What the graph knows of the tensor: an output of the layer, or what it hands to a layer that it calls."""
    if graph is None or layer.own is None:
        return None
    key = layer.own.key
    for call in make_plan(graph).calls.values():
        module = graph.modules[call.module]
        if key in call.inputs:
            return module.inputs[call.inputs.index(key)].meta
        if key in call.outputs and call.name == layer.name:
            output = module.outputs[call.outputs.index(key)]
            nodes = {node.name: node for node in module.nodes}
            node = nodes.get(output.name) if isinstance(output, Ref) else None
            known = () if node is None else node.outputs
            return known[output.index] if isinstance(output, Ref) and output.index < len(known) else None
    return None
