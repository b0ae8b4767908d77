"""Rows for reading and writing elements by index."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .table import INF, NAN, Table, bools, ints, randn, special, values

table = Table("index")
row = table.op

BF16, I32 = torch.bfloat16, torch.int32

# reading by index
row(
    "embedding",
    lambda w, i: (F.embedding(i, w), F.embedding(i.int(), w, padding_idx=0)),
    randn(7, 4),
    ints(0, 7, 2, 3),
)
row("embedding_bfloat16", lambda w, i: F.embedding(i, w), randn(7, 4, dtype=BF16), ints(0, 7, 5))
for mode in ("sum", "mean", "max"):
    row(
        f"embedding_bag_{mode}",
        lambda w, i, o, m=mode: (
            F.embedding_bag(i, w, o, mode=m, padding_idx=2),
            F.embedding_bag(i.view(2, 4), w, mode=m),
        ),
        randn(7, 4),
        ints(0, 7, 8),
        values([0, 3, 3]),
    )
row(
    "embedding_bag_weighted",
    lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True),
    randn(7, 4),
    ints(0, 7, 8),
    values([0, 3, 8]),
    randn(8),
)
row("index_select", lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), randn(4, 5), ints(0, 4, 6))
row("gather", lambda x, i: (x.gather(0, i), x.gather(-1, i)), randn(4, 5), ints(0, 4, 3, 2))
row(
    "gather_other_dtypes",
    lambda x, y, i: (x.gather(1, i), y.gather(0, i)),
    ints(-9, 9, 4, 5),
    bools(4, 5),
    ints(0, 4, 2, 5),
)
row(
    "take_along_dim",
    lambda x, i: (torch.take_along_dim(x, i, 1), torch.take(x, i)),
    randn(4, 5),
    ints(0, 4, 4, 2),
)
row("index_one", lambda x, i: (x[i], x[:, i], x[..., i]), randn(4, 5), values([0, -1, 2]))
row("index_matrix", lambda x, i: (x[i], x[:, i]), randn(4, 5), ints(-4, 4, 2, 3))
row(
    "index_broadcast",
    lambda x, i, j: (x[i, j], x[i[:, None], j], x[:, i[:, None], j]),
    randn(4, 4, 5),
    values([0, -1]),
    values([1, 3]),
)
row(
    "index_apart",
    lambda x, i, j: (x[i, :, j], x[:, i, None, j], x[i, ..., j]),
    randn(4, 4, 5),
    values([0, -1]),
    values([1, 3]),
)
row(
    "index_none", lambda x, i: (x[None, i], x[:, None, i, 1:], x[i, None]), randn(4, 4, 5), values([2, 0, -1])
)
row("index_int32", lambda x, i: (x[i], x[:, i]), randn(4, 5), values([0, -1, 2], I32))
row("index_numbers", lambda x, i: (x[i, 1], x[2, i], x[i][:, -1]), randn(4, 5), values([0, -1, 2]))
row("index_other_dtypes", lambda x, y, i: (x[i], y[:, i]), ints(-9, 9, 4), bools(4, 5), values([0, -1, 2]))
row("index_unsafe", lambda x, i: torch.ops.aten._unsafe_index(x, [None, i]), randn(4, 5), values([0, -1, 2]))
row("one_hot", lambda i: F.one_hot(i, 5), ints(0, 5, 2, 3))


# writing by index; each on a copy, since functions here must not change their inputs
def assign(x: Tensor, place: object, value: object) -> Tensor:
    result = x.clone()
    result[place] = value
    return result


row(
    "assign_slice",
    lambda x, y: (assign(x, slice(1, 3), y), assign(x, (slice(None), slice(0, 4, 2)), 7.0)),
    randn(4, 5),
    randn(5),
)
row(
    "assign_select",
    lambda x, y: (assign(x, -1, y), assign(x, (slice(None), 2), 0.5), assign(x, (1, 2), 3.0)),
    randn(4, 5),
    randn(5),
)
row(
    "assign_strided",
    lambda x, y: (assign(x, slice(None, None, 2), y), assign(x, (..., slice(-3, -1)), 0)),
    ints(-9, 9, 4, 5),
    ints(0, 9, 5),
)
row("assign_mask", lambda x, m: (assign(x, m, 0.5), assign(x, x > 0.3, -INF)), randn(4, 5), bools(4, 5))
row("assign_row_mask", lambda x, m: assign(x, m, 0.5), randn(4, 5), values([True, False, True, False]))
row(
    "assign_indices",
    lambda x, i, y: (assign(x, i, y), assign(x, (slice(None), i), 1.5)),
    randn(4, 5),
    values([0, -1]),
    randn(5),
)
row(
    "index_put",
    lambda x, i, j, y: x.index_put((i, j), y),
    randn(4, 5),
    values([0, 2, -1]),
    values([1, -1, 0]),
    randn(3),
)
row(
    "index_put_accumulate",
    lambda x, i, y: x.index_put((i,), y, accumulate=True),
    randn(4, 5),
    values([0, 2, 0]),
    randn(3, 5),
)
row(
    "index_put_other_dtypes",
    lambda x, i: (assign(x, i, 9), assign(x > 0, i, True)),
    ints(-9, 9, 4),
    values([0, 2]),
)
row(
    "index_add",
    lambda x, i, y: (x.index_add(0, i, y), x.index_add(0, i, y, alpha=-2)),
    randn(4, 5),
    values([0, 2, 0]),
    randn(3, 5),
)
row("index_copy", lambda x, i, y: x.index_copy(0, i, y), randn(4, 5), values([0, 2]), randn(2, 5))
row("index_fill", lambda x, i: x.index_fill(1, i, 2.5), randn(4, 5), values([0, 2]))
row(
    "scatter",
    lambda x, i, y: (x.scatter(0, i, y), x.scatter(-2, i, 1.5)),
    randn(4, 5),
    values([[0, 3, 1], [1, 0, 2]]),
    randn(3, 5),
)
row(
    "scatter_bool_value",
    lambda x, i: (x.scatter(1, i, True), x.long().scatter(1, i, 7)),
    bools(4, 5),
    ints(0, 5, 4, 1),
)
row(
    "scatter_add",
    lambda x, i, y: (x.scatter_add(0, i, y), x.scatter_add(1, i, y)),
    randn(4, 5),
    ints(0, 4, 3, 4),
    randn(3, 5),
)
row(
    "scatter_add_other",
    lambda x, i, y: (x.scatter_add(0, i, y), x.bfloat16().scatter_add(0, i, y.bfloat16())),
    ints(-9, 9, 4, 5),
    ints(0, 4, 3, 4),
    ints(0, 9, 3, 5),
)
for mode in ("sum", "prod", "mean", "amax", "amin"):
    row(
        f"scatter_reduce_{mode}",
        lambda x, i, y, m=mode: (
            x.scatter_reduce(0, i, y, m),
            x.scatter_reduce(1, i, y, m, include_self=False),
            x.long().scatter_reduce(0, i, y.mul(9).long(), m),
        ),
        randn(4, 5),
        ints(0, 4, 3, 4),
        randn(3, 5),
    )
row(
    "scatter_reduce_nan",
    lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
    randn(3),
    values([0, 0, 1]),
    values([1.0, NAN, 9.0]),
)
row(
    "searchsorted",
    lambda x, y: (torch.searchsorted(x.sort(-1)[0], y), torch.searchsorted(x.sort(-1)[0], y, right=True)),
    ints(0, 9, 4, 6, dtype=I32),
    ints(-2, 12, 4, 3, dtype=I32),
)
row(
    "bucketize",
    lambda x, b: (
        torch.bucketize(x, b.sort()[0]),
        torch.bucketize(x, b.sort()[0], right=True, out_int32=True),
    ),
    special(),
    randn(9),
)
row("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, -3, -1), randn(4, 5), randn(4, 2))
row(
    "select_scatter",
    lambda x, y: (torch.select_scatter(x, y, 0, -2), torch.select_scatter(x, y[:4], 1, 0)),
    randn(4, 5),
    randn(5),
)
