"""Rows for the functional forms of layers: products, convolution, pooling, resizing, normalisation, attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import INF, NAN, Table, bools, ints, randn, uniform, values

table = Table("neural")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16

# products
row("linear", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w)), randn(2, 3, 5), randn(4, 5), randn(4))
row("linear_vector", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w[0])), randn(5), randn(4, 5), randn(4))
row("linear_bfloat16", lambda x, w, b: F.linear(x, w, b), randn(9, 64, dtype=BF16), randn(32, 64, dtype=BF16), randn(32, dtype=BF16))
row("linear_float64", lambda x, w, b: F.linear(x, w, b), randn(3, 5, dtype=F64), randn(4, 5, dtype=F64), randn(4, dtype=F64))
row("linear_empty", lambda x, w, y: (F.linear(x, w), F.linear(y, w)), randn(0, 5), randn(4, 5), randn(1, 5))
row("matmul", lambda x, y: (x @ y, x @ y[0], x[0, 0] @ y, x @ y[0, :, 0]), randn(2, 3, 4, 5), randn(3, 5, 6))
row("matmul_vectors", lambda x, y: (x @ y, torch.dot(x, y), torch.vdot(x, y), torch.inner(x, y)), randn(9), randn(9))
row("matmul_broadcast", torch.matmul, randn(2, 1, 4, 5), randn(3, 5, 6))
row("matmul_float64", torch.matmul, randn(4, 5, dtype=F64), randn(5, 6, dtype=F64))
row("matmul_half", lambda x, y: (x @ y, x.half() @ y.half()), randn(8, 64, dtype=BF16), randn(64, 8, dtype=BF16))
row("matmul_transposed", lambda x, y: (x @ y.t(), x.t() @ y, (x.t() @ x).mT @ y.t()), randn(4, 5), randn(4, 5))
row("matmul_infinite", torch.matmul, values([[1.0, INF], [0.5, 2.0], [NAN, 1.0]]), values([[1.0, 2.0], [0.5, -1.0]]))
row("mm_bmm_mv", lambda x, y: (torch.mm(x[0], y[0]), torch.bmm(x, y), torch.mv(x[0], y[0, :, 0])), randn(2, 4, 5), randn(2, 5, 6))
row("addmm", lambda c, x, y: (torch.addmm(c, x, y), torch.addmm(c, x, y, alpha=0.5, beta=-2)), randn(6), randn(4, 5), randn(5, 6))
row("addmm_beta_zero", lambda c, x, y: torch.addmm(c, x, y, beta=0), values([NAN, 1.0, 2.0, INF, 3.0, 4.0]), randn(4, 5), randn(5, 6))
row("baddbmm", lambda c, x, y: torch.baddbmm(c, x, y, alpha=0.5, beta=2), randn(2, 4, 6), randn(2, 4, 5), randn(2, 5, 6))
row("addmv_addr", lambda x, y, z: (torch.addmv(x, z, y), torch.addr(z, x, y, alpha=0.5)), randn(4), randn(5), randn(4, 5))
row("outer_kron", lambda x, y: (torch.outer(x, y), torch.kron(x, y)), randn(4), randn(5))
row("einsum", lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,bjk->ki", x, y)), randn(2, 4, 5), randn(2, 5, 6))
row("einsum_heads", lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y), randn(2, 3, 4, 5), randn(2, 6, 4, 5))
row("einsum_one", lambda x: (torch.einsum("ij->ji", x), torch.einsum("ij->i", x), torch.einsum("ii->i", x)), randn(4, 4))
row("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), randn(3, 4, 5), randn(4, 5, 6))
row("bilinear", F.bilinear, randn(4, 5), randn(4, 6), randn(3, 5, 6), randn(3))
row("cdist", torch.cdist, randn(4, 5), randn(6, 5))

# convolution
_ASYMMETRIC = {1: ((2,), (1,), (2,)), 2: ((2, 1), (0, 2), (1, 2)), 3: ((1, 2, 1), (1, 0, 2), (2, 1, 1))}
for rank in (1, 2, 3):
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    stride, padding, dilation = _ASYMMETRIC[rank]
    size, kernel = (7, 6, 5)[:rank], (3, 2, 3)[:rank]
    bare = lambda x, w, f=conv: f(x, w)
    full = lambda x, w, b, f=conv, s=stride, p=padding, d=dilation: f(x, w, b, s, p, d)
    row(f"conv{rank}d", bare, randn(2, 4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_options", full, randn(2, 4, *size), randn(6, 4, *kernel), randn(6))
    row(f"conv{rank}d_groups", lambda x, w, b, f=conv: f(x, w, b, groups=2, padding=1), randn(2, 4, *size), randn(6, 2, *kernel), randn(6))
    row(f"conv{rank}d_depthwise", lambda x, w, f=conv: f(x, w, groups=4, stride=2), randn(2, 4, *size), randn(8, 1, *kernel))
    row(f"conv{rank}d_same", lambda x, w, f=conv: f(x, w, padding="same", dilation=2), randn(2, 4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_valid", lambda x, w, f=conv: f(x, w, padding="valid"), randn(2, 4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_unbatched", bare, randn(4, *size), randn(6, 4, *kernel))
    row(f"conv{rank}d_float64", bare, randn(2, 4, *size, dtype=F64), randn(6, 4, *kernel, dtype=F64))
    row(f"conv{rank}d_bfloat16", bare, randn(2, 4, *size, dtype=BF16), randn(6, 4, *kernel, dtype=BF16))
    row(f"conv{rank}d_pointwise", lambda x, w, b, f=conv: f(x, w, b), randn(2, 4, *size), randn(6, 4, *([1] * rank)), randn(6))
    bare = lambda x, w, f=transposed: f(x, w)
    full = lambda x, w, b, f=transposed, s=stride, p=padding, d=dilation: f(x, w, b, s, p, 0, 1, d)
    row(f"conv_transpose{rank}d", bare, randn(2, 4, *size), randn(4, 3, *kernel))
    row(f"conv_transpose{rank}d_options", full, randn(2, 4, *size), randn(4, 3, *kernel), randn(3))
    row(f"conv_transpose{rank}d_groups", lambda x, w, b, f=transposed: f(x, w, b, stride=3, output_padding=2, groups=2),
        randn(2, 4, *size), randn(4, 3, *kernel), randn(6))
    row(f"conv_transpose{rank}d_unbatched", bare, randn(4, *size), randn(4, 3, *kernel))

# pooling
for rank in (1, 2, 3):
    size = (7, 8, 9)[:rank]
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    adaptive = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[rank - 1]
    adaptive_max = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[rank - 1]
    row(f"max_pool{rank}d", lambda x, f=largest: (f(x, 2), f(x, 3, stride=2, padding=1), f(x, 2, dilation=2)), randn(2, 3, *size))
    row(f"max_pool{rank}d_ceil", lambda x, f=largest: (f(x, 2, ceil_mode=True), f(x, 3, 2, 1, 1, True)), randn(2, 3, *size))
    row(f"avg_pool{rank}d", lambda x, f=average: (f(x, 2), f(x, 3, stride=2, padding=1), f(x, 3, 1)), randn(2, 3, *size))
    row(f"avg_pool{rank}d_ceil", lambda x, f=average: (f(x, 2, ceil_mode=True), f(x, 3, 2, 1, True), f(x, 3, 2, 1, True, False)), randn(2, 3, *size))
    row(f"avg_pool{rank}d_without_padding", lambda x, f=average: f(x, 3, stride=2, padding=1, count_include_pad=False), randn(2, 3, *size))
    row(f"adaptive_avg_pool{rank}d", lambda x, f=adaptive: (f(x, 1), f(x, 3), f(x, 5)), randn(2, 3, *size))
    row(f"adaptive_max_pool{rank}d", lambda x, f=adaptive_max: (f(x, 1), f(x, 3), f(x, 5)), randn(2, 3, *size))
row("max_pool_asymmetric", lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0)), randn(2, 3, 7, 8))
row("max_pool_nan", lambda x: F.max_pool1d(x, 2, 1), values([[1.0, NAN, 2.0, -INF, -INF, 3.0]]))
row("max_pool_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], randn(2, 3, 7, 8))
row("avg_pool_divisor", lambda x: F.avg_pool2d(x, (2, 3), stride=(1, 2), divisor_override=5), randn(2, 3, 7, 8))
row("avg_pool_half", lambda x, y: (F.avg_pool2d(x, 4), F.avg_pool2d(y, 4)), randn(1, 2, 8, 8, dtype=F16), randn(1, 2, 8, 8, dtype=BF16))
row("adaptive_avg_pool_sizes", lambda x: (F.adaptive_avg_pool2d(x, (3, None)), F.adaptive_avg_pool2d(x, (1, 4))), randn(2, 3, 7, 8))
row("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), randn(2, 3, 7, 8))

# resizing
for mode, size in {"nearest": (2, 3, 5), "linear": (2, 3, 5), "bilinear": (2, 3, 4, 5), "trilinear": (1, 2, 3, 4, 5)}.items():
    row(f"upsample_{mode}_scale", lambda x, m=mode: (F.interpolate(x, scale_factor=2, mode=m), F.interpolate(x, scale_factor=1.7, mode=m)), randn(*size))
    row(f"upsample_{mode}_size", lambda x, m=mode: (F.interpolate(x, size=7, mode=m), F.interpolate(x, size=2, mode=m)), randn(*size))
row("upsample_nearest_2d", lambda x: (F.interpolate(x, scale_factor=(2, 1.5)), F.interpolate(x, size=(3, 9))), randn(2, 3, 4, 5))
row("upsample_nearest_3d", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(3, 2, 7))), randn(1, 2, 3, 4, 5))
row("upsample_align_corners", lambda x: (F.interpolate(x, size=(7, 1), mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)), randn(2, 3, 4, 5))
row("upsample_linear_align_corners", lambda x: F.interpolate(x, size=9, mode="linear", align_corners=True), randn(2, 3, 5))
row("upsample_trilinear_align_corners", lambda x: F.interpolate(x, size=(4, 2, 7), mode="trilinear", align_corners=True), randn(1, 2, 3, 4, 5))
row("upsample_bicubic", lambda x: (F.interpolate(x, scale_factor=2, mode="bicubic"), F.interpolate(x, size=(3, 7), mode="bicubic", align_corners=True)), randn(2, 3, 4, 5))
row("upsample_recompute", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), randn(2, 3, 4, 5))
row("upsample_nearest_exact", lambda x: F.interpolate(x, scale_factor=1.6, mode="nearest-exact"), randn(2, 3, 4, 5))
row("upsample_area", lambda x: F.interpolate(x, size=(3, 2), mode="area"), randn(2, 3, 4, 5))

# normalisation
row("layer_norm", lambda x, w, b: (F.layer_norm(x, (5,), w, b), F.layer_norm(x, (5,)), F.layer_norm(x, (5,), w, eps=0.1)), randn(3, 4, 5), randn(5), randn(5))
row("layer_norm_axes", lambda x, w, b: (F.layer_norm(x, (4, 5), w, b), F.layer_norm(x, (3, 4, 5))), randn(3, 4, 5), randn(4, 5), randn(4, 5))
row("layer_norm_far_from_zero", lambda x: F.layer_norm(x + 100, (64,)), randn(8, 64))
row("layer_norm_bfloat16", lambda x, w, b: F.layer_norm(x, (64,), w, b), randn(8, 64, dtype=BF16), randn(64, dtype=BF16), randn(64, dtype=BF16))
row("layer_norm_float64", lambda x: F.layer_norm(x, (5,), eps=1e-12), randn(3, 5, dtype=F64))
row("rms_norm", lambda x, w: (F.rms_norm(x, (5,), w), F.rms_norm(x, (5,)), F.rms_norm(x, (5,), w, 0.1)), randn(3, 4, 5), randn(5))
row("rms_norm_axes", lambda x, w: F.rms_norm(x, (4, 5), w), randn(3, 4, 5), randn(4, 5))
row("rms_norm_other_dtypes", lambda x, y: (F.rms_norm(x, (64,)), F.rms_norm(y, (5,))), randn(8, 64, dtype=BF16), randn(3, 5, dtype=F64))
row("group_norm", lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 3), F.group_norm(x, 6, w, eps=0.1)), randn(2, 6, 4, 5), randn(6), randn(6))
row("group_norm_vector", lambda x: F.group_norm(x, 2), randn(3, 6))
row("instance_norm", lambda x, w, b: (F.instance_norm(x), F.instance_norm(x, weight=w, bias=b, eps=0.1)), randn(2, 3, 4, 5), randn(3), randn(3))
row("instance_norm_statistics", lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), randn(2, 3, 5), randn(3), uniform(0.5, 2.0, 3))
row("batch_norm", lambda x, m, v, w, b: (F.batch_norm(x, m, v, w, b), F.batch_norm(x, m, v, eps=0.1)), randn(2, 3, 4, 5), randn(3), uniform(0.5, 2.0, 3), randn(3), randn(3))
row("batch_norm_vector", lambda x, m, v, w: F.batch_norm(x, m, v, w), randn(4, 3), randn(3), uniform(0.5, 2.0, 3), randn(3))
row("batch_norm_of_batch", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), randn(4, 3, 5), randn(3), randn(3))
row("local_response_norm", lambda x: F.local_response_norm(x, 3, alpha=0.1, beta=0.5, k=2.0), randn(2, 6, 4, 5))
row("weight_norm", lambda v, g: (torch._weight_norm(v, g, 0), torch._weight_norm(v, g, 0) * 2), randn(4, 5, 3), uniform(0.5, 2.0, 4, 1, 1))
row("weight_norm_last", lambda v, g: torch._weight_norm(v, g, 1), randn(4, 5), uniform(0.5, 2.0, 1, 5))

# attention
_QKV = (randn(2, 4, 6, 8), randn(2, 4, 9, 8), randn(2, 4, 9, 8))
_SQUARE = (randn(2, 4, 6, 8), randn(2, 4, 6, 8), randn(2, 4, 6, 8))
sdpa = F.scaled_dot_product_attention
row("attention", sdpa, *_QKV)
row("attention_bool_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_QKV, bools(2, 1, 6, 9))
row("attention_float_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *_QKV, randn(6, 9))
row("attention_infinite_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=torch.where(m > 1.2, -INF, 0.0)), *_QKV, randn(2, 1, 6, 9))
row("attention_masked_row", lambda q, k, v, m: sdpa(q, k, v, attn_mask=(m > 0) & (torch.arange(6)[:, None] != 2)), *_QKV, randn(2, 4, 6, 9))
row("attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), *_SQUARE)
row("attention_causal_longer_keys", lambda q, k, v: sdpa(q, k, v, is_causal=True), *_QKV)
row("attention_scale", lambda q, k, v: (sdpa(q, k, v, scale=0.3), sdpa(q, k, v, scale=1.0)), *_QKV)
row("attention_grouped", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), randn(2, 8, 6, 8), randn(2, 2, 9, 8), randn(2, 2, 9, 8))
row("attention_three_axes", sdpa, randn(4, 6, 8), randn(4, 9, 8), randn(4, 9, 5))
row("attention_bfloat16", sdpa, *(randn(2, 4, 6, 8, dtype=BF16) for _ in range(3)))
row("attention_float64", lambda q, k, v: sdpa(q, k, v, is_causal=True), *(randn(2, 4, 6, 8, dtype=F64) for _ in range(3)))
row("attention_transposed", lambda q, k, v: sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)), *_SQUARE)
row("attention_by_hand", lambda q, k, v: ((q @ k.mT) * 8**-0.5).softmax(-1) @ v, *_QKV)
row("rotary", lambda x, p: torch.cat([x[..., :4] * p.cos() - x[..., 4:] * p.sin(), x[..., 4:] * p.cos() + x[..., :4] * p.sin()], -1), randn(2, 6, 8), randn(6, 4))
row("token_positions", lambda i: (i.ne(1).int().cumsum(1).type_as(i) * i.ne(1)).long() + 1, ints(0, 4, 2, 6))
