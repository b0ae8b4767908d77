"""Rows for operations that move, repeat, join, split, read and write elements."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import INF, NAN, Table, bools, ints, randn, special, values

table = Table("shape")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16
I32, U8 = torch.int32, torch.uint8

# shapes
row(
    "reshape",
    lambda x: (x.reshape(12, -1), x.reshape(-1), x.view(3, 2, 2, 5), x.reshape(1, 60, 1)),
    randn(3, 4, 5),
)
row(
    "reshape_zero_dim",
    lambda x, y: (x.reshape(1, 1), y.reshape(()), x.flatten(), y.view(1, 1)),
    randn(),
    randn(1),
)
row(
    "reshape_permuted",
    lambda x: (x.permute(2, 0, 1).reshape(5, 12), x.transpose(0, 1).flatten(1)),
    randn(3, 4, 5),
)
row(
    "reshape_many_axes",
    lambda x: (x.reshape(1, 3, 2, 2, 5, 1), x.reshape(1, 3, 1, 2, 2, 5, 1)),
    randn(3, 4, 5),
)
row(
    "flatten",
    lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1), x.flatten(-2), x.flatten(1, 1)),
    randn(3, 4, 5),
)
row(
    "unflatten",
    lambda x: (x.unflatten(1, (2, 2)), x.unflatten(-1, (5, -1)), x.unflatten(0, (3,))),
    randn(3, 4, 5),
)
row(
    "permute",
    lambda x: (x.permute(2, 0, 1), x.permute(0, -1, 1), x.permute(-1, -2, -3), x.permute(0, 1, 2)),
    randn(3, 4, 5),
)
row("permute_vector", lambda x: (x.permute(0), x.T, x.unsqueeze(0).T), randn(5))
row("permute_six_axes", lambda x: x.reshape(1, 3, 2, 2, 5, 1).permute(5, 3, 1, 0, 2, 4), randn(3, 4, 5))
row(
    "transpose",
    lambda x: (x.transpose(0, 1), x.transpose(-1, 0), x.mT, x.swapaxes(1, -1), x.transpose(1, 1)),
    randn(3, 4, 5),
)
row("t", lambda x: (x.t(), x.T, x.t().t()), randn(4, 5))
row(
    "movedim",
    lambda x: (x.movedim(0, -1), x.movedim(-1, 0), x.movedim(1, 1), x.movedim((0, 1), (1, 0))),
    randn(3, 4, 5),
)
row("unsqueeze", lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1), x[None, :, None]), randn(4, 5))
row(
    "squeeze",
    lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(-2), x.squeeze((0, 2)), x.squeeze(1)),
    randn(1, 4, 1, 5),
)
row("squeeze_to_zero_dim", lambda x: (x.squeeze(), x.squeeze(0), x[0].unsqueeze(-1)), randn(1))
row("expand", lambda x: (x.expand(4, 5), x.expand(2, -1, 5), x.expand(2, 3, 4, 1)), randn(4, 1))
row("expand_zero_dim", lambda x: (x.expand(3), x.expand(2, 3)), randn())
row("expand_as", lambda x, y: (x.expand_as(y), x.view_as(x) + y), randn(1, 5), randn(4, 5))
row("repeat", lambda x: (x.repeat(2, 3), x.repeat(2, 1, 3), x.tile(2), x.repeat(1, 1)), randn(4, 5))
row("repeat_other_dtypes", lambda x, y: (x.repeat(2), y.repeat(2, 2)), ints(-9, 9, 5), bools(4, 5))
row(
    "repeat_interleave",
    lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, dim=-1), x.repeat_interleave(2, 0)),
    randn(4, 5),
)
row("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), randn(4), randn(5))
row(
    "not_contiguous_chain",
    lambda x: x.permute(1, 2, 0)[::2].transpose(0, 1).reshape(-1, 2) * 2,
    randn(3, 4, 4),
)

# joining and splitting
row("cat", lambda x, y: (torch.cat([x, y]), torch.cat([x, x, y[:4]], -1)), randn(4, 5), randn(6, 5))
row("cat_promotes", lambda x, y: (torch.cat([x, y]), torch.cat([x.double(), y])), ints(-9, 9, 4), randn(5))
row("cat_with_empty", lambda x, y: (torch.cat([x, y]), torch.cat([y[:0], y])), randn(0), randn(4, 5))
row("cat_one", lambda x: (torch.cat([x]), torch.cat([x.t(), x.t()], 1)), randn(4, 5))
row(
    "cat_other_dtypes",
    lambda x, y: (torch.cat([x, ~x]), torch.cat([y, y], -1)),
    bools(4, 5),
    ints(-9, 9, 4, 5, dtype=I32),
)
row(
    "stack",
    lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.stack([x, y, x], 1)),
    randn(4, 5),
    randn(4, 5),
)
row("stack_numbers", lambda x: (torch.stack([x[0], x[1]]), torch.stack([x.long(), x.int()])), randn(5))
row("split", lambda x: (*x.split(2), *x.exp().split([1, 3, 1], -1)), randn(4, 5))
row("split_uneven", lambda x: x.split(2, dim=-1), randn(4, 5))
row("split_with_sizes", lambda x: torch.split_with_sizes(x, [1, 2, 1], 0), randn(4, 5))
row("chunk", lambda x: (*x.chunk(2, -1), *x.tanh().chunk(3)), randn(4, 5))
row("tensor_split", lambda x: (*torch.tensor_split(x, 3, 1), *torch.tensor_split(x, (1, 3), -1)), randn(4, 5))
row("unbind", lambda x: (*x.unbind(), *x.sin().unbind(-1)), randn(3, 2))
row("unbind_part", lambda x: x.reshape(4, 3, 5).unbind(1)[1], randn(4, 15))

# slices
row("slice_step", lambda x: (x[::2], x[:, 1::3], x[1:4:2, :: -1 + 3], x[..., 2:]), randn(5, 9))
row("slice_negative", lambda x: (x[-2:], x[:-1], x[:, -4:-1], x[-3:-1, 1:-1]), randn(5, 9))
row("slice_out_of_range", lambda x: (x[2:99], x[:, -99:3], x[:, :99], x[9:].sum()), randn(5, 9))
row("slice_empty", lambda x: (x[2:2].sum(), x[4:1].sum(0), x[:, 3:]), randn(5, 9))
row("slice_step_negative_bounds", lambda x: (x[-4::2], x[:-1:3], x[:, -8:-1:2]), randn(5, 9))
row("select", lambda x: (x[0], x[-1], x[:, 2], x[..., -2], x[1, -1, 0]), randn(3, 4, 5))
row("select_bool", lambda x: (x[0], x[:, -1], x[1:, ::2]), bools(4, 5))
row("narrow", lambda x: (x.narrow(1, 2, 3), x.narrow(0, -2, 2)), randn(4, 5))
row("unfold", lambda x: (x.unfold(-1, 3, 2), x.unfold(0, 2, 1)), randn(4, 9))
row(
    "im2col", lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)), randn(2, 3, 5, 6)
)
row("col2im", lambda x: F.fold(x, (4, 5), (2, 2), padding=1, stride=2), randn(2, 12, 9))

# turning and triangles
row("flip", lambda x: (x.flip(0), x.flip(-1), x.flip((0, 2)), x.fliplr(), x.flipud()), randn(3, 4, 5))
row("flip_other_dtypes", lambda x, y: (x.flip(-1), y.flip(0)), ints(-9, 9, 4, 5), bools(4, 5))
row(
    "roll",
    lambda x: (x.roll(2, 0), x.roll(-1, -1), x.roll((1, -2), (0, 1)), x.roll(7, 0), x.roll(3)),
    randn(4, 5),
)
row("rot90", lambda x: (torch.rot90(x), torch.rot90(x, 2), torch.rot90(x, -1, (0, 2))), randn(3, 4, 5))
row("tril", lambda x: (x.tril(), x.tril(1), x.tril(-2), x.tril(9)), randn(2, 4, 5))
row("triu", lambda x: (x.triu(), x.triu(1), x.triu(-2), x.triu(9)), randn(2, 5, 4))
row("tril_nan", lambda x: (x.tril(), x.triu(1)), values([[1.0, NAN, INF], [NAN, 2.0, NAN], [3.0, INF, NAN]]))
row("tril_other_dtypes", lambda x, y: (x.tril(-1), y.triu(1), y.tril()), ints(-9, 9, 4, 4), bools(4, 4))
row(
    "diagonal",
    lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 0, 2), x.diagonal(0, -1, -2)),
    randn(3, 4, 5),
)
row("diag_embed", lambda x: (torch.diag_embed(x), torch.diag_embed(x, 1)), randn(3, 4))
row(
    "pixel_shuffle",
    lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)),
    randn(2, 8, 3, 4),
)
row("channel_shuffle", lambda x: torch.channel_shuffle(x, 3), randn(2, 6, 3, 3))

# padding
row(
    "pad_constant",
    lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=-1.5), F.pad(x, (1, 0), value=-INF)),
    randn(3, 4, 5),
)
row(
    "pad_negative",
    lambda x: (F.pad(x, (-1, 2)), F.pad(x, (1, -2, -1, 0)), F.pad(x, (-1, -1))),
    randn(3, 4, 5),
)
row(
    "pad_other_dtypes",
    lambda x, y: (F.pad(x, (1, 1), value=7), F.pad(y, (1, 0), value=True)),
    ints(-9, 9, 4, 5),
    bools(4, 5),
)
row("pad_constant_nd", lambda x: torch.constant_pad_nd(x, (1, 2, 0, 1), 0.5), randn(3, 4, 5))
for mode in ("reflect", "replicate", "circular"):
    row(f"pad_{mode}_1d", lambda x, mode=mode: F.pad(x, (2, 1), mode=mode), randn(2, 3, 5))
    row(f"pad_{mode}_2d", lambda x, mode=mode: F.pad(x, (2, 1, 0, 3), mode=mode), randn(2, 3, 4, 5))
    row(f"pad_{mode}_3d", lambda x, mode=mode: F.pad(x, (1, 1, 2, 1, 0, 1), mode=mode), randn(2, 3, 4, 5, 3))
for rank in (1, 2, 3):
    reflect = getattr(torch.ops.aten, f"reflection_pad{rank}d")
    replicate = getattr(torch.ops.aten, f"replication_pad{rank}d")
    sizes = [2, 1, 1, 0, 0, 2][: 2 * rank]
    row(
        f"pad_kernels_{rank}d",
        lambda x, f=reflect, g=replicate, s=sizes: (f(x, s), g(x, s)),
        randn(2, *([4] * (rank + 1))),
    )

row("special_values_move", lambda x: (x.flip(0), x[1:], x.t(), x.repeat(2, 1), torch.cat([x, x])), special())
