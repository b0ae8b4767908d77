"""Rows for normalisation as functions, with and without weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import Table, randn, uniform

table = Table("norms")
row = table.op

F64, BF16 = torch.float64, torch.bfloat16

# normalisation
row(
    "layer_norm",
    lambda x, w, b: (F.layer_norm(x, (5,), w, b), F.layer_norm(x, (5,)), F.layer_norm(x, (5,), w, eps=0.1)),
    randn(3, 4, 5),
    randn(5),
    randn(5),
)
row(
    "layer_norm_axes",
    lambda x, w, b: (F.layer_norm(x, (4, 5), w, b), F.layer_norm(x, (3, 4, 5))),
    randn(3, 4, 5),
    randn(4, 5),
    randn(4, 5),
)
row("layer_norm_far_from_zero", lambda x: F.layer_norm(x + 100, (64,)), randn(8, 64))
row(
    "layer_norm_bfloat16",
    lambda x, w, b: F.layer_norm(x, (64,), w, b),
    randn(8, 64, dtype=BF16),
    randn(64, dtype=BF16),
    randn(64, dtype=BF16),
)
row("layer_norm_float64", lambda x: F.layer_norm(x, (5,), eps=1e-12), randn(3, 5, dtype=F64))
row(
    "rms_norm",
    lambda x, w: (F.rms_norm(x, (5,), w), F.rms_norm(x, (5,)), F.rms_norm(x, (5,), w, 0.1)),
    randn(3, 4, 5),
    randn(5),
)
row("rms_norm_axes", lambda x, w: F.rms_norm(x, (4, 5), w), randn(3, 4, 5), randn(4, 5))
row(
    "rms_norm_other_dtypes",
    lambda x, y: (F.rms_norm(x, (64,)), F.rms_norm(y, (5,))),
    randn(8, 64, dtype=BF16),
    randn(3, 5, dtype=F64),
)
row(
    "group_norm",
    lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 3), F.group_norm(x, 6, w, eps=0.1)),
    randn(2, 6, 4, 5),
    randn(6),
    randn(6),
)
row("group_norm_vector", lambda x: F.group_norm(x, 2), randn(3, 6))
row(
    "instance_norm",
    lambda x, w, b: (F.instance_norm(x), F.instance_norm(x, weight=w, bias=b, eps=0.1)),
    randn(2, 3, 4, 5),
    randn(3),
    randn(3),
)
row(
    "instance_norm_statistics",
    lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
    randn(2, 3, 5),
    randn(3),
    uniform(0.5, 2.0, 3),
)
row(
    "batch_norm",
    lambda x, m, v, w, b: (F.batch_norm(x, m, v, w, b), F.batch_norm(x, m, v, eps=0.1)),
    randn(2, 3, 4, 5),
    randn(3),
    uniform(0.5, 2.0, 3),
    randn(3),
    randn(3),
)
row(
    "batch_norm_vector",
    lambda x, m, v, w: F.batch_norm(x, m, v, w),
    randn(4, 3),
    randn(3),
    uniform(0.5, 2.0, 3),
    randn(3),
)
row(
    "batch_norm_of_batch",
    lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    randn(4, 3, 5),
    randn(3),
    randn(3),
)
row(
    "local_response_norm",
    lambda x: F.local_response_norm(x, 3, alpha=0.1, beta=0.5, k=2.0),
    randn(2, 6, 4, 5),
)
row(
    "weight_norm",
    lambda v, g: (torch._weight_norm(v, g, 0), torch._weight_norm(v, g, 0) * 2),
    randn(4, 5, 3),
    uniform(0.5, 2.0, 4, 1, 1),
)
row("weight_norm_last", lambda v, g: torch._weight_norm(v, g, 1), randn(4, 5), uniform(0.5, 2.0, 1, 5))
