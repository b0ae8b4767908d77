"""Rows for products of vectors and matrices, and for attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import INF, NAN, Table, bools, ints, randn, values

table = Table("products")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16

# products
row("linear", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w)), randn(2, 3, 5), randn(4, 5), randn(4))
row("linear_vector", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w[0])), randn(5), randn(4, 5), randn(4))
row(
    "linear_bfloat16",
    lambda x, w, b: F.linear(x, w, b),
    randn(9, 64, dtype=BF16),
    randn(32, 64, dtype=BF16),
    randn(32, dtype=BF16),
)
row(
    "linear_float64",
    lambda x, w, b: F.linear(x, w, b),
    randn(3, 5, dtype=F64),
    randn(4, 5, dtype=F64),
    randn(4, dtype=F64),
)
row("linear_empty", lambda x, w, y: (F.linear(x, w), F.linear(y, w)), randn(0, 5), randn(4, 5), randn(1, 5))
row("matmul", lambda x, y: (x @ y, x @ y[0], x[0, 0] @ y, x @ y[0, :, 0]), randn(2, 3, 4, 5), randn(3, 5, 6))
row(
    "matmul_vectors",
    lambda x, y: (x @ y, torch.dot(x, y), torch.vdot(x, y), torch.inner(x, y)),
    randn(9),
    randn(9),
)
row("matmul_broadcast", torch.matmul, randn(2, 1, 4, 5), randn(3, 5, 6))
row("matmul_float64", torch.matmul, randn(4, 5, dtype=F64), randn(5, 6, dtype=F64))
row(
    "matmul_half",
    lambda x, y: (x @ y, x.half() @ y.half()),
    randn(8, 64, dtype=BF16),
    randn(64, 8, dtype=BF16),
)
row(
    "matmul_transposed", lambda x, y: (x @ y.t(), x.t() @ y, (x.t() @ x).mT @ y.t()), randn(4, 5), randn(4, 5)
)
row(
    "matmul_infinite",
    torch.matmul,
    values([[1.0, INF], [0.5, 2.0], [NAN, 1.0]]),
    values([[1.0, 2.0], [0.5, -1.0]]),
)
row(
    "mm_bmm_mv",
    lambda x, y: (torch.mm(x[0], y[0]), torch.bmm(x, y), torch.mv(x[0], y[0, :, 0])),
    randn(2, 4, 5),
    randn(2, 5, 6),
)
row(
    "addmm",
    lambda c, x, y: (torch.addmm(c, x, y), torch.addmm(c, x, y, alpha=0.5, beta=-2)),
    randn(6),
    randn(4, 5),
    randn(5, 6),
)
row(
    "addmm_beta_zero",
    lambda c, x, y: torch.addmm(c, x, y, beta=0),
    values([NAN, 1.0, 2.0, INF, 3.0, 4.0]),
    randn(4, 5),
    randn(5, 6),
)
row(
    "baddbmm",
    lambda c, x, y: torch.baddbmm(c, x, y, alpha=0.5, beta=2),
    randn(2, 4, 6),
    randn(2, 4, 5),
    randn(2, 5, 6),
)
row(
    "addmv_addr",
    lambda x, y, z: (torch.addmv(x, z, y), torch.addr(z, x, y, alpha=0.5)),
    randn(4),
    randn(5),
    randn(4, 5),
)
row("outer_kron", lambda x, y: (torch.outer(x, y), torch.kron(x, y)), randn(4), randn(5))
row(
    "einsum",
    lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,bjk->ki", x, y)),
    randn(2, 4, 5),
    randn(2, 5, 6),
)
row("einsum_heads", lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y), randn(2, 3, 4, 5), randn(2, 6, 4, 5))
row(
    "einsum_one",
    lambda x: (torch.einsum("ij->ji", x), torch.einsum("ij->i", x), torch.einsum("ii->i", x)),
    randn(4, 4),
)
row("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), randn(3, 4, 5), randn(4, 5, 6))
row("bilinear", F.bilinear, randn(4, 5), randn(4, 6), randn(3, 5, 6), randn(3))
row("cdist", torch.cdist, randn(4, 5), randn(6, 5))

# attention
_QKV = (randn(2, 4, 6, 8), randn(2, 4, 9, 8), randn(2, 4, 9, 8))
_SQUARE = (randn(2, 4, 6, 8), randn(2, 4, 6, 8), randn(2, 4, 6, 8))
sdpa = F.scaled_dot_product_attention
row("attention", sdpa, *_QKV)
row("attention_bool_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_QKV, bools(2, 1, 6, 9))
row("attention_float_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_QKV, randn(6, 9))
row(
    "attention_infinite_mask",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=torch.where(m > 1.2, -INF, 0.0)),
    *_QKV,
    randn(2, 1, 6, 9),
)
row(
    "attention_masked_row",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=(m > 0) & (torch.arange(6)[:, None] != 2)),
    *_QKV,
    randn(2, 4, 6, 9),
)
row("attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), *_SQUARE)
row("attention_causal_longer_keys", lambda q, k, v: sdpa(q, k, v, is_causal=True), *_QKV)
row("attention_scale", lambda q, k, v: (sdpa(q, k, v, scale=0.3), sdpa(q, k, v, scale=1.0)), *_QKV)
row(
    "attention_grouped",
    lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
    randn(2, 8, 6, 8),
    randn(2, 2, 9, 8),
    randn(2, 2, 9, 8),
)
row("attention_three_axes", sdpa, randn(4, 6, 8), randn(4, 9, 8), randn(4, 9, 5))
row("attention_bfloat16", sdpa, *(randn(2, 4, 6, 8, dtype=BF16) for _ in range(3)))
row(
    "attention_float64",
    lambda q, k, v: sdpa(q, k, v, is_causal=True),
    *(randn(2, 4, 6, 8, dtype=F64) for _ in range(3)),
)
row(
    "attention_transposed",
    lambda q, k, v: sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
    *_SQUARE,
)
row("attention_by_hand", lambda q, k, v: ((q @ k.mT) * 8**-0.5).softmax(-1) @ v, *_QKV)
row(
    "rotary",
    lambda x, p: torch.cat(
        [x[..., :4] * p.cos() - x[..., 4:] * p.sin(), x[..., 4:] * p.cos() + x[..., :4] * p.sin()], -1
    ),
    randn(2, 6, 8),
    randn(6, 4),
)
row("token_positions", lambda i: (i.ne(1).int().cumsum(1).type_as(i) * i.ne(1)).long() + 1, ints(0, 4, 2, 6))
