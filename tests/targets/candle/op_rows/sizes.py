"""Rows whose sizes are free: the first axis of the model's own input is only known when the port runs."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import Table

table = Table("sizes")
row = table.op

row(
    "arange",
    lambda x: (
        x + torch.arange(x.size(0))[:, None],
        torch.arange(1, x.size(0) + 1),
        torch.arange(x.size(0) - 1),
    ),
)
row("arange_step", lambda x: (torch.arange(0, 2 * x.size(0), 2)[:, None] * x, torch.arange(x.size(0), 0, -1)))
row(
    "arithmetic",
    lambda x: (x + x.size(0), x - (x.size(0) + 1), x * (x.size(0) - 1), x / x.size(0), x.size(0) - x),
)
row(
    "arithmetic_int",
    lambda x: (x.long() + x.size(0), x.long() - (x.size(0) + 1), x.long() * x.size(0), x.long() // x.size(0)),
)
row(
    "arithmetic_half",
    lambda x: (x.bfloat16() + x.size(0), x.bfloat16() - (x.size(0) + 1), x.bfloat16() * x.size(0)),
)
row(
    "remainder",
    lambda x: (
        x % x.size(0),
        x.long() % (x.size(0) + 1),
        torch.fmod(x, x.size(0)),
        x.size(0) // (x.long() + 9),
    ),
)
row("compare", lambda x: (x < x.size(0) - 2, x.long() == x.size(0), x >= x.size(0) // 3))
row(
    "clamp",
    lambda x: (x.clamp(max=x.size(0) - 2), x.long().clamp(0, x.size(0) - 1), x.clamp(min=x.size(0) // 9)),
)
row(
    "fill",
    lambda x: (
        x.masked_fill(x > 0, x.size(0)),
        torch.full((2, 3), x.size(0)),
        x.new_full((2,), x.size(0) + 1),
    ),
)
row(
    "full",
    lambda x: (
        torch.zeros(x.size(0), 2),
        torch.ones(2, x.size(0) + 1),
        torch.full((x.size(0),), 2.5),
        x.new_zeros(x.size(0)),
    ),
)
row("like", lambda x: (torch.zeros_like(x), torch.full_like(x, 3.0), torch.ones_like(x, dtype=torch.int64)))
row(
    "reshape",
    lambda x: (
        x.reshape(-1),
        x.view(x.size(0), 2, 3),
        x.reshape(2, -1),
        x.reshape(x.size(0) * 2, 3),
        x.view(-1, 3, 2),
    ),
)
row(
    "expand",
    lambda x: (x[:, None].expand(-1, 3, -1), x[0].expand(x.size(0), 6), x.unsqueeze(0).repeat(2, 1, 1)),
)
row("repeat", lambda x: (x.repeat(2, 3), x.repeat_interleave(2, dim=0), x[0].repeat(x.size(0), 1)))
row("slice", lambda x: (x[1:], x[:-1], x[: x.size(0) - 1], x[x.size(0) // 2 :], x[::2], x[-2:]))
row("select", lambda x: (x[-1], x[x.size(0) - 1], x[0], x[:, -1]))
row(
    "join",
    lambda x: (torch.cat([x, x[1:]]), torch.cat([x, x], 1), torch.stack([x, x]), torch.stack([x, -x], -1)),
)
row("split", lambda x: (*x.split(2, 1), *x.chunk(2, -1), *x.unbind(1)[:2]))
row(
    "move",
    lambda x: (x.t(), x.flip(0), x.roll(1, 0), x.roll(-1, 1), F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0))),
)
row("reduce", lambda x: (x.sum(0), x.mean(), x.std(0), x.amax(0), x.argmax(0), x.sum() / x.size(0)))
row("along", lambda x: (x.softmax(0), x.cumsum(0), x.sort(0)[0], x.log_softmax(-1), x.topk(2, 0)[0]))
row("matmul", lambda x: (x @ x.t(), x.t() @ x, torch.einsum("ij,kj->ik", x, x), F.linear(x, x[:2])))
row(
    "causal",
    lambda x: (
        torch.ones(x.size(0), x.size(0)).tril() * (x @ x.t()),
        (x @ x.t()).masked_fill(torch.ones(x.size(0), x.size(0)).triu(1) > 0, -1e9),
    ),
)
row(
    "positions",
    lambda x: (
        torch.arange(x.size(0)) <= torch.arange(x.size(0))[:, None],
        x[torch.arange(x.size(0)), 0],
        x[:, torch.tensor([0, -1])],
    ),
)
row("norms", lambda x: (F.layer_norm(x, (6,)), F.rms_norm(x, (6,)), F.group_norm(x, 2), F.glu(x)))
row("attention", lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True))
row(
    "attention_heads",
    lambda x: (
        F.scaled_dot_product_attention(*(x.view(1, x.size(0), 2, 3).transpose(1, 2),) * 3)
        .transpose(1, 2)
        .reshape(1, x.size(0), 6)
    ),
)
row(
    "convolution",
    lambda x: (
        F.conv1d(x[:, None], x[None, :2, :3].transpose(0, 1)),
        F.max_pool1d(x[:, None], 2),
        F.avg_pool1d(x, 2),
    ),
)
row(
    "write",
    lambda x: (
        x.index_put((torch.arange(x.size(0)), torch.zeros(x.size(0), dtype=torch.int64)), x[:, 1]),
        x.scatter(1, x.argmax(1, keepdim=True), 0.0),
    ),
)
row("assign", lambda x: (torch.slice_scatter(x, x[1:] * 2, 0, 1), torch.select_scatter(x, x[0], 0, -1)))
row(
    "pad_to_a_multiple",
    lambda x: (
        F.pad(x, (0, 0, 0, -x.size(0) % 4)),
        F.pad(x, (0, 0, 0, (4 - x.size(0) % 4) % 4)).view(-1, 4, 6),
        F.pad(x, (x.size(0), 1, 1, x.size(0) - 2), value=2.5),
        F.pad(x, (0, 0, 1, -1)),
    ),
)
row(
    "split_free",
    lambda x: (
        *x.split([2, x.size(0) - 2]),
        *x.split([x.size(0) - 3, 3]),
        *x.repeat(2, 1).split(x.size(0)),
        *x.repeat(2, 1).chunk(2),
        F.glu(x.repeat(2, 1), 0),
    ),
)
row(
    "slice_any_end",
    lambda x: (
        x[: x.size(0) // 2],
        x[-(x.size(0) // 2) :],
        x[: -(x.size(0) // 3)],
        x[: max(x.size(0) - 4, 2)],
        x[max(x.size(0) - 3, 0) : min(x.size(0), 99)],
        x[1 - x.size(0) :],
        x[: x.size(0) - 40],
        x[x.size(0) - 40 :],
        torch.arange(30)[: 2 * x.size(0)],
        torch.arange(30)[x.size(0) : x.size(0) + 5],
    ),
)
