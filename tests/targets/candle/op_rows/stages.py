"""Rows for what torch takes higher operations apart into, for training's norms, and for sampling and resizing."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import Table, randn, uniform

table = Table("stages")
row = table.op

row(
    "layer_norm",
    lambda x, w, b: torch.native_layer_norm(x, (5,), w, b, 1e-3),
    randn(3, 4, 5),
    randn(5),
    randn(5),
)
row("layer_norm_two", lambda x: torch.native_layer_norm(x, (4, 5), None, None, 1e-5), randn(3, 4, 5))
row(
    "group_norm",
    lambda x, w: torch.native_group_norm(x, w, None, 2, 6, 20, 3, 1e-4),
    randn(2, 6, 4, 5),
    randn(6),
)
row(
    "convolution",
    lambda x, w, b: torch.convolution(x, w, b, (2,), (1,), (1,), False, (0,), 2),
    randn(2, 4, 9),
    randn(6, 2, 3),
    randn(6),
)
row(
    "convolution_transposed",
    lambda x, w: torch.convolution(x, w, None, (2, 1), (1, 0), (1, 2), True, (1, 0), 1),
    randn(2, 4, 5, 6),
    randn(4, 3, 3, 2),
)
row(
    "adaptive",
    lambda x: (
        torch.ops.aten._adaptive_avg_pool2d(x, (2, 3)),
        torch.ops.aten._adaptive_avg_pool3d(x[:, None], (2, 2, 2)),
    ),
    randn(2, 4, 5, 6),
)
row(
    "var_dim",
    lambda x: (torch.ops.aten.var.dim(x, [1]), torch.ops.aten.var.dim(x, None, False, True)),
    randn(4, 5),
)
row("dropout_off", lambda x: torch.native_dropout(x, 0.5, False), randn(4, 5))
row(
    "addbmm",
    lambda x, a, b: (
        torch.addbmm(x, a, b),
        torch.addbmm(x, a, b, beta=0.5, alpha=2),
        torch.addbmm(x, a, b, beta=0),
    ),
    randn(3, 5),
    randn(2, 3, 4),
    randn(2, 4, 5),
)
row(
    "batch_norm_in_training",
    lambda x, w, b, m, v: torch.ops.aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.2, 1e-3),
    randn(5, 3, 4),
    randn(3),
    randn(3),
    randn(3),
    uniform(0.5, 2.0, 3),
)
_MODES = [(border, aligned) for border in ("zeros", "border", "reflection") for aligned in (False, True)]
for _sampling in ("bilinear", "nearest"):
    row(
        f"volume_{_sampling}",
        lambda x, g, s=_sampling: [F.grid_sample(x, g, s, border, aligned) for border, aligned in _MODES],
        randn(2, 3, 4, 5, 6),
        uniform(-1.4, 1.4, 2, 3, 4, 2, 3),
    )
for _mode in ("bilinear", "bicubic"):
    row(
        f"antialias_{_mode}",
        lambda x, m=_mode: (
            F.interpolate(x, (5, 4), mode=m, antialias=True),
            F.interpolate(x, (20, 7), mode=m, antialias=True),
            F.interpolate(x, scale_factor=(0.4, 1.7), mode=m, antialias=True),
            F.interpolate(x, (3, 17), mode=m, antialias=True, align_corners=True),
        ),
        randn(2, 3, 11, 13),
    )
row(
    "antialias_float64",
    lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
    randn(1, 2, 9, 10, dtype=torch.float64),
)
A = torch.ops.aten
row(
    "resize_nearest",
    lambda x: (
        A.upsample_nearest1d(x[0], [7]),
        A.upsample_nearest2d(x, [3, 9]),
        A.upsample_nearest3d(x[None], [2, 3, 4]),
    ),
    randn(2, 3, 4, 5),
)
row(
    "resize_linear",
    lambda x: (
        A.upsample_linear1d(x[0], [7], False),
        A.upsample_bilinear2d(x, [3, 9], True),
        A.upsample_trilinear3d(x[None], [2, 3, 4], False),
    ),
    randn(2, 3, 4, 5),
)
row("resize_cubic", lambda x: A.upsample_bicubic2d(x, [3, 9], False), randn(2, 3, 4, 5))
row(
    "antialias_stages",
    lambda x: (A._upsample_bilinear2d_aa(x, [3, 9], False), A._upsample_bicubic2d_aa(x, [3, 9], False)),
    randn(2, 3, 8, 5),
)
row(
    "exact",
    lambda x: (F.interpolate(x, (5, 4), mode="nearest-exact"), F.interpolate(x[0], 7, mode="nearest-exact")),
    randn(2, 3, 8, 5),
)
