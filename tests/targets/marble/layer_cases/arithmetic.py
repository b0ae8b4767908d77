"""What is computed from tensors alone."""

from collections.abc import Iterator

import torch
from torch.nn import functional as F

from .case import Case, Fn, rand


def arithmetic() -> Iterator[Case]:
    x, y = rand(2, 3, 4), rand(3, 1)
    flags = torch.tensor([True, False, True, False])
    whole = torch.tensor([-7, -2, 0, 5, 9])
    for function in (
        lambda a, b: (a * 2 + 1, 3 - a, a / 3, 2 / a, a / b, a - b, -a, b - 2 * a),
        lambda a, b: (
            torch.add(a, b, alpha=3),
            torch.sub(a, b, alpha=2),
            torch.rsub(a, b),
            a * b,
            a**2,
            a ** b.abs(),
        ),
        lambda a, b: (
            a > b,
            a == a,
            torch.where(a > 0, a, b),
            a.clamp(-0.5, 0.5),
            a.clamp(min=b),
            torch.max(a, b),
        ),
        lambda a, b: (torch.lerp(a, a + 1, 0.3), torch.lerp(a, a + 1, a), torch.addcmul(a, a, b, value=2)),
        lambda a, b: (
            torch.addcdiv(a, a, b, value=2),
            torch.fmod(a, 0.3),
            a % 0.3,
            a // 0.3,
            torch.atan2(a, b),
        ),
        lambda a, b: (
            a.cumsum(1),
            a.cumprod(2),
            a.flip(0),
            a.roll(1, 2),
            a.tril(),
            a.triu(1),
            a.diagonal(0, 1, 2),
        ),
        lambda a, b: (
            a.sort(2),
            a.topk(2),
            a.argmax(1),
            a.argmin(),
            a.max(1),
            a.min(2, keepdim=True),
            a.median(),
        ),
        lambda a, b: (
            a.sum(),
            a.sum((0, 2)),
            a.mean(),
            a.prod(),
            a.prod(1),
            a.amin((0, 1)),
            (a > 0).any(1),
            (a > 0).all(),
        ),
        lambda a, b: (
            a.view(6, 4),
            a.permute(2, 0, 1),
            a.unflatten(2, (2, 2)),
            a.expand(5, 2, 3, 4),
            a[:, 1:, ::2],
        ),
        lambda a, b: (
            a.split([1, 2], 1),
            a.chunk(2, 2),
            a.unbind(0),
            torch.cat([a, a], 1),
            torch.stack([a, a]),
        ),
        lambda a, b: (
            a.repeat(1, 2, 1),
            a.repeat_interleave(2, 1),
            a.squeeze(),
            a.unsqueeze(1),
            a.movedim(0, 2),
            a.mT,
        ),
        lambda a, b: (
            F.pad(a, (1, 2)),
            F.pad(a, (1, 1), mode="reflect"),
            F.pad(a, (-1, 1), value=2.0),
            a.abs().sqrt(),
        ),
        lambda a, b: (
            a.float() + a,
            a.half() * 2,
            a.to(torch.bfloat16).float(),
            a.long() / 2,
            a.int() + 0.5,
            a.bool(),
        ),
        lambda a, b: (
            a.masked_fill(a > 0, 2.0),
            a.new_zeros(2),
            torch.zeros_like(a),
            torch.full((2,), 3.0) + a[0, 0, 0],
        ),
    ):
        yield Fn(function), (x, y)
    yield (
        Fn(lambda i: (i + 1, i // 2, i / 2, i % 3, i * i, i.float().mean(), i & 3, ~i, i.sum(), i.cumsum(0))),
        (whole,),
    )
    yield (
        Fn(lambda i: (torch.div(i, 2, rounding_mode="trunc"), torch.div(i, 2, rounding_mode="floor"))),
        (whole,),
    )
    yield (
        Fn(lambda f: (f & f, f | ~f, f.sum(), f.cumsum(0), f.float(), f.logical_xor(f), f.any(), f.all())),
        (flags,),
    )
    yield (
        Fn(lambda a, i: (a[:, i], a.index_select(1, i), a.gather(1, i[None, :, None].expand(2, 2, 4)))),
        (x, whole[2:4] % 3),
    )
    yield Fn(lambda a, i: a.scatter(1, i, 5.0)), (x, torch.zeros(2, 1, 4, dtype=torch.long))
    yield (
        Fn(lambda a: (a + 1, a * 2, a.sum(), a.exp(), a.reshape(1), a.item if False else a)),
        (torch.tensor(2.0),),
    )
    yield Fn(lambda a: (a + 1, a.sum(), a.sum(1), F.relu(a), torch.cat([a, a]), a @ a.mT)), (rand(0, 3),)
