"""Rows for convolution, pooling and resizing as functions, in one, two and three dimensions."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from .table import INF, NAN, Table, randn, uniform, values

table = Table("convolution")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16

# convolution
_ASYMMETRIC = {1: ((2,), (1,), (2,)), 2: ((2, 1), (0, 2), (1, 2)), 3: ((1, 2, 1), (1, 0, 2), (2, 1, 1))}
for rank in (1, 2, 3):
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    stride, padding, dilation = _ASYMMETRIC[rank]
    size, kernel = (7, 6, 5)[:rank], (3, 2, 3)[:rank]
    full = partial(conv, stride=stride, padding=padding, dilation=dilation)
    row(f"conv{rank}d", conv, randn(2, 4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_options", full, randn(2, 4, *size), randn(6, 4, *kernel), randn(6))
    row(
        f"conv{rank}d_groups",
        lambda x, w, b, f=conv: f(x, w, b, groups=2, padding=1),
        randn(2, 4, *size),
        randn(6, 2, *kernel),
        randn(6),
    )
    row(
        f"conv{rank}d_depthwise",
        lambda x, w, f=conv: f(x, w, groups=4, stride=2),
        randn(2, 4, *size),
        randn(8, 1, *kernel),
    )
    row(
        f"conv{rank}d_same",
        lambda x, w, f=conv: f(x, w, padding="same", dilation=2),
        randn(2, 4, *size),
        randn(6, 4, *kernel),
    )
    row(
        f"conv{rank}d_valid",
        lambda x, w, f=conv: f(x, w, padding="valid"),
        randn(2, 4, *size),
        randn(6, 4, *kernel),
    )
    row(f"conv{rank}d_unbatched", conv, randn(4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_float64", conv, randn(2, 4, *size, dtype=F64), randn(6, 4, *kernel, dtype=F64))
    row(f"conv{rank}d_bfloat16", conv, randn(2, 4, *size, dtype=BF16), randn(6, 4, *kernel, dtype=BF16))
    row(
        f"conv{rank}d_pointwise",
        lambda x, w, b, f=conv: f(x, w, b),
        randn(2, 4, *size),
        randn(6, 4, *([1] * rank)),
        randn(6),
    )
    full = partial(transposed, stride=stride, padding=padding, dilation=dilation)
    row(f"conv_transpose{rank}d", transposed, randn(2, 4, *size), randn(4, 3, *kernel))
    row(f"conv_transpose{rank}d_options", full, randn(2, 4, *size), randn(4, 3, *kernel), randn(3))
    row(
        f"conv_transpose{rank}d_groups",
        lambda x, w, b, f=transposed: f(x, w, b, stride=3, output_padding=2, groups=2),
        randn(2, 4, *size),
        randn(4, 3, *kernel),
        randn(6),
    )
    row(f"conv_transpose{rank}d_unbatched", transposed, randn(4, *size), randn(4, 3, *kernel))

# pooling
for rank in (1, 2, 3):
    size = (7, 8, 9)[:rank]
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    adaptive = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[rank - 1]
    adaptive_max = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[rank - 1]
    row(
        f"max_pool{rank}d",
        lambda x, f=largest: (f(x, 2), f(x, 3, stride=2, padding=1), f(x, 2, dilation=2)),
        randn(2, 3, *size),
    )
    row(
        f"max_pool{rank}d_ceil",
        lambda x, f=largest: (f(x, 2, ceil_mode=True), f(x, 3, 2, 1, 1, True)),
        randn(2, 3, *size),
    )
    row(
        f"avg_pool{rank}d",
        lambda x, f=average: (f(x, 2), f(x, 3, stride=2, padding=1), f(x, 3, 1)),
        randn(2, 3, *size),
    )
    row(
        f"avg_pool{rank}d_ceil",
        lambda x, f=average: (f(x, 2, ceil_mode=True), f(x, 3, 2, 1, True), f(x, 3, 2, 1, True, False)),
        randn(2, 3, *size),
    )
    row(
        f"avg_pool{rank}d_without_padding",
        lambda x, f=average: f(x, 3, stride=2, padding=1, count_include_pad=False),
        randn(2, 3, *size),
    )
    row(f"adaptive_avg_pool{rank}d", lambda x, f=adaptive: (f(x, 1), f(x, 3), f(x, 5)), randn(2, 3, *size))
    row(
        f"adaptive_max_pool{rank}d", lambda x, f=adaptive_max: (f(x, 1), f(x, 3), f(x, 5)), randn(2, 3, *size)
    )
for rank in (1, 2, 3):
    size = (7, 8, 9)[:rank]
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    adaptive = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[rank - 1]
    back = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[rank - 1]
    row(
        f"max_pool{rank}d_indices",
        lambda x, f=largest: (*f(x, 3, 2, 1, return_indices=True), *f(x, 2, 1, 0, 2, True, True)),
        randn(2, 3, *size),
    )
    row(
        f"adaptive_max_pool{rank}d_indices",
        partial(adaptive, output_size=3, return_indices=True),
        randn(2, 3, *size),
    )
    row(
        f"max_unpool{rank}d",
        lambda x, f=largest, g=back: g(*f(x, 2, return_indices=True), 2),
        randn(2, 3, *(6, 8, 4)[:rank]),
    )
row(
    "max_pool_indices_nan",
    lambda x: F.max_pool1d(x, 2, 1, return_indices=True),
    values([[1.0, NAN, 2.0, 2.0, -INF]]),
)
row("max_pool_asymmetric", lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0)), randn(2, 3, 7, 8))
row("max_pool_nan", lambda x: F.max_pool1d(x, 2, 1), values([[1.0, NAN, 2.0, -INF, -INF, 3.0]]))
row("max_pool2d_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], randn(2, 3, 7, 8))
row("max_pool3d_with_indices", lambda x: F.max_pool3d(x, 2, return_indices=True)[0], randn(2, 3, 4, 5, 6))
row(
    "avg_pool_divisor",
    lambda x: F.avg_pool2d(x, (2, 3), stride=(1, 2), divisor_override=5),
    randn(2, 3, 7, 8),
)
row(
    "avg_pool_half",
    lambda x, y: (F.avg_pool2d(x, 4), F.avg_pool2d(y, 4)),
    randn(1, 2, 8, 8, dtype=F16),
    randn(1, 2, 8, 8, dtype=BF16),
)
row(
    "adaptive_avg_pool_sizes",
    lambda x: (F.adaptive_avg_pool2d(x, (3, None)), F.adaptive_avg_pool2d(x, (1, 4))),
    randn(2, 3, 7, 8),
)
row("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), randn(2, 3, 7, 8))

# sampling
for mode in ("bilinear", "nearest", "bicubic"):
    for border in ("zeros", "border", "reflection"):
        row(
            f"grid_sample_{mode}_{border}",
            lambda x, g, m=mode, b=border: (
                F.grid_sample(x, g, m, b, align_corners=False),
                F.grid_sample(x, g, m, b, align_corners=True),
            ),
            randn(2, 3, 5, 6),
            uniform(-1.9, 1.9, 2, 4, 3, 2),
        )

# resizing
for mode, size in {
    "nearest": (2, 3, 5),
    "linear": (2, 3, 5),
    "bilinear": (2, 3, 4, 5),
    "trilinear": (1, 2, 3, 4, 5),
}.items():
    row(
        f"upsample_{mode}_scale",
        lambda x, m=mode: (
            F.interpolate(x, scale_factor=2, mode=m),
            F.interpolate(x, scale_factor=1.7, mode=m),
        ),
        randn(*size),
    )
    row(
        f"upsample_{mode}_size",
        lambda x, m=mode: (F.interpolate(x, size=7, mode=m), F.interpolate(x, size=2, mode=m)),
        randn(*size),
    )
row(
    "upsample_nearest_2d",
    lambda x: (F.interpolate(x, scale_factor=(2, 1.5)), F.interpolate(x, size=(3, 9))),
    randn(2, 3, 4, 5),
)
row(
    "upsample_nearest_3d",
    lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(3, 2, 7))),
    randn(1, 2, 3, 4, 5),
)
row(
    "upsample_align_corners",
    lambda x: (
        F.interpolate(x, size=(7, 1), mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    ),
    randn(2, 3, 4, 5),
)
row(
    "upsample_linear_align_corners",
    lambda x: F.interpolate(x, size=9, mode="linear", align_corners=True),
    randn(2, 3, 5),
)
row(
    "upsample_trilinear_align_corners",
    lambda x: F.interpolate(x, size=(4, 2, 7), mode="trilinear", align_corners=True),
    randn(1, 2, 3, 4, 5),
)
row(
    "upsample_bicubic",
    lambda x: (
        F.interpolate(x, scale_factor=2, mode="bicubic"),
        F.interpolate(x, size=(3, 7), mode="bicubic", align_corners=True),
    ),
    randn(2, 3, 4, 5),
)
row(
    "upsample_recompute",
    lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
    randn(2, 3, 4, 5),
)
row(
    "upsample_nearest_exact",
    lambda x: F.interpolate(x, scale_factor=1.6, mode="nearest-exact"),
    randn(2, 3, 4, 5),
)
row("upsample_area", lambda x: F.interpolate(x, size=(3, 2), mode="area"), randn(2, 3, 4, 5))
