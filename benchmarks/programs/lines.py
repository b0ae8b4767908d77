"""The lines that a `forward` may have. Each maker writes one, and says whether it could.

A maker takes the scope, chooses values that are known there, and gives the expression of the result; None if nothing
there fits. Whether the expression is right is found out by running it.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.programs.writing import Scope

Maker = Callable[[Scope], str | None]

_UNARY = (
    *(
        "torch.tanh({x})",
        "{x}.relu()",
        "F.gelu({x})",
        "torch.sigmoid({x})",
        "{x} * 0.5",
        "{x} + 1",
        "1.0 - {x}",
        "-{x}",
    ),
    *(
        "{x}.abs()",
        "{x}.clamp(-1, 1)",
        "torch.softmax({x}, dim=-1)",
        "{x}.exp().clamp(max=3.0)",
        "2 / ({x}.abs() + 1)",
    ),
    *(
        "({x} * {x} + 1.0).sqrt()",
        "F.silu({x})",
        "{x}.sin()",
        "F.dropout({x}, 0.5, self.training)",
        "{x}.contiguous()",
    ),
    *(
        "{x}.detach()",
        "{x}.clone()",
        "{x}.float()",
        "{x}.double().float()",
        "{x}.to(torch.float32)",
        "F.relu({x}) - 1",
    ),
    *(
        "torch.zeros_like({x}) + {x}",
        "torch.ones_like({x}) * 0.5",
        "{x}.masked_fill({x} > 0, 0.5)",
        "{x}.square()",
    ),
    *(
        "{x} * 2 if {x}.shape[0] > 2 else {x}",
        "{x} if {x}.shape[-1] % 2 == 0 else {x} + 1",
        "{x}.mean(1) if {x}.shape[0] < {x}.shape[1] else {x}.sum(1)",
        "{x}[:, :4] if {x}.shape[1] >= 4 else {x}",
        "-{x} if {x}.dim() == 3 else {x}",
    ),
    *(
        "{x}.half()",
        "{x}.bfloat16()",
        "({x}.half() * 2).float()",
        "({x}.bfloat16() + 1).float()",
        "F.gelu({x}.bfloat16()).float()",
        "{x}.half().softmax(-1)",
        "{x}.half().mean(-1).float()",
    ),
    *(
        "{x} / {x}.shape[0]",
        "{x} * {x}.shape[-1] ** -0.5",
        "F.layer_norm({x}, {x}.shape[-1:])",
        "{x}.cumsum(-1)",
    ),
    *(
        "{x}.flip(0)",
        "{x}.roll(1, -1)",
        "{x}.unsqueeze(0)",
        "{x}.unsqueeze(-1)",
        "{x}.flatten()",
        "{x}.reshape(-1)",
    ),
    *(
        "{x}.mean()",
        "{x}.sum(0)",
        "{x}.mean(-1, keepdim=True)",
        "{x}.amax(-1)",
        "{x}.sum((0, -1))",
        "{x}.var(-1)",
    ),
    *(
        "{x}.transpose(0, -1)",
        "{x}.transpose(-1, -2)",
        "{x}.squeeze(0)",
        "{x}.squeeze(-1)",
        "{x}.movedim(0, -1)",
    ),
    *("{x}.reshape({x}.shape[0], -1)", "{x}.flatten(1)", "{x}.flatten(0, 1)", "{x}.unflatten(-1, (2, -1))"),
    *(
        "{x}[0]",
        "{x}[-1]",
        "{x}[..., 0]",
        "{x}[:, -1]",
        "{x}[None]",
        "{x}[..., None]",
        "{x}[:, None]",
        "{x}[1:]",
    ),
    *(
        "{x}[:, :2]",
        "{x}[..., -2:]",
        "{x}[:, 1:-1]",
        "{x}[::2]",
        "{x}[..., ::2]",
        "{x}[:, :{x}.shape[1] - 1]",
    ),
    *(
        "{x}[:, {x}.shape[1] // 2 :]",
        "{x}[:, -{x}.shape[1] :]",
        "{x}.narrow(1, {x}.shape[1] - 2, 2)",
        "{x}[:-2]",
    ),
    *(
        "{x}[:, : {x}.shape[1] // 2]",
        "{x}[:, max({x}.shape[1] - 3, 0) :]",
        "{x}[: {x}.shape[0] - 1]",
        "{x}[:, 2:]",
    ),
    *(
        "{x}.repeat(2, *[1] * ({x}.dim() - 1))",
        "{x}.unsqueeze(1).expand(-1, 2, *{x}.shape[1:])",
        "F.pad({x}, (1, 2))",
    ),
    *("{x}.view(*{x}.shape[:-1], 2, -1)", "{x}.view({x}.shape[0], -1, 2)", "{x}.repeat_interleave(2, dim=0)"),
    *(
        "torch.cat([{x}, {x}], -1)",
        "torch.stack([{x}, -{x}], 1)",
        "torch.cat(({x}[:, :1], {x}), 1)",
        "{x}.tril()",
    ),
    *(
        "torch.arange({x}.shape[0]).float()",
        "torch.zeros({x}.shape[0], 2)",
        "torch.ones({x}.size(-1)) + {x}.mean()",
    ),
    *(
        "torch.full(({x}.shape[0],), 0.5)",
        "{x}.new_zeros({x}.shape[0])",
        "torch.linspace(0, 1, 4) + {x}.mean()",
    ),
    *(
        "torch.eye({x}.shape[-1])",
        "{x} @ {x}.transpose(-1, -2)",
        "{x}.norm(dim=-1)",
        "F.normalize({x}, dim=-1)",
    ),
    *(
        "torch.arange(0, {x}.shape[1], 2).float()",
        "torch.arange(3.0, dtype=torch.int64) + {x}.mean()",
        "{x}.std(-1)",
    ),
    *("{x} + {x}.numel()", "{x} * float({x}.dim())", "torch.einsum('...a,...a->...', {x}, {x})", "{x} % 1.5"),
)
_BINARY = (
    *(
        "{x} + {y}",
        "{x} * {y}",
        "{x} - {y}",
        "torch.maximum({x}, {y})",
        "torch.where({x} > 0, {x}, {y})",
        "{y} + {x}",
    ),
    *(
        "{x} / ({y}.abs() + 1)",
        "{x} @ {y}",
        "torch.cat([{x}, {y}], -1)",
        "torch.cat([{x}, {y}], 0)",
        "{x} * {y} + {x}",
    ),
    *(
        "torch.stack([{x}, {y}])",
        "torch.cat([{x}, {y}], 1)",
        "{x} @ {y}.transpose(-1, -2)",
        "torch.add({x}, {y}, alpha=2)",
    ),
    *(
        "{x} - {y}.mean(0)",
        "{x} * torch.sigmoid({y})",
        "torch.lerp({x}, {y}, 0.25)",
        "{x}[:, : {y}.shape[1]]",
    ),
    *("{x}.expand_as({y})", "{x}.masked_fill({y} < 0, 0.0)", "{x} + {y}.shape[0]", "{x}.view({y}.shape)"),
)
_FROM_INTEGERS = (
    *(
        "{n}.float()",
        "{n} + 1",
        "{n} % 3",
        "{n} * 2 - 1",
        "{n}.clamp(0, 2)",
        "-{n}",
        "{n} // 2",
        "{n}.sum()",
        "{n}.flip(0)",
    ),
    *(
        "({n} > 1).float()",
        "({n} > 0) & ({n} < 3)",
        "{n}.ne(0)",
        "F.one_hot({n} % 4, 4)",
        "{n}.to(torch.float32)",
    ),
    *(
        "{n}.unsqueeze(-1)",
        "{n}[:, :2]",
        "{n}[:, -1]",
        "{n} / 2",
        "{n}.max()",
        "{n}.cumsum(0)",
        "{n}.to(torch.int32)",
    ),
    *("torch.arange({n}.shape[-1]) + {n}", "torch.where({n} > 1, {n}, 0)", "{n} * {n}.shape[0]", "{n}.abs()"),
)
_TO_INTEGERS = (
    *("{x}.argmax(-1)", "{x}.long()", "torch.arange({x}.shape[1])", "({x} > 0).long()", "{x}.argsort(-1)"),
    *("torch.arange({x}.shape[0], dtype=torch.int64)", "torch.ones({x}.shape[0], dtype=torch.long)"),
)
_OF_MASKS = (
    *(
        "{m}.float()",
        "~{m}",
        "{m}.sum()",
        "{m}.any(-1)",
        "{m}.long()",
        "{m}.all()",
        "{m}[:, None]",
        "{m} & {m}",
    ),
    *("torch.where({m}, 0.0, -1.0)", "{m}.unsqueeze(-1) * 0.5", "{m}.int()"),
)
_SEVERAL = (
    *(("{x}.chunk(2, -1)", 2), ("{x}.split(2, -1)[:2]", 2), ("{x}.max(-1)", 2), ("{x}.topk(2, -1)", 2)),
    *(
        ("{x}.sort(-1)", 2),
        ("{x}[:2].unbind(0)", 2),
        ("{x}.tensor_split(3, -1)", 3),
        ("torch.var_mean({x}, -1)", 2),
    ),
    *(("({x}, {x} * 2)", 2), ("{x}.min(dim=0)", 2), ("{x}.split([1, {x}.shape[-1] - 1], -1)", 2)),
)


def unary(scope: Scope) -> str | None:
    x = scope.floats()
    return x and scope.choices.one(_UNARY).format(x=x)


def nested(scope: Scope) -> str | None:
    """Two operations in one line, so that a value has no name."""
    inner = unary(scope)
    return inner and scope.choices.one(_UNARY).format(x=f"({inner})")


def binary(scope: Scope) -> str | None:
    x, y = scope.floats(), scope.floats()
    return x and y and scope.choices.one(_BINARY).format(x=x, y=y)


def of_integers(scope: Scope) -> str | None:
    n = scope.integers()
    return n and scope.choices.one(_FROM_INTEGERS).format(n=n)


def to_integers(scope: Scope) -> str | None:
    x = scope.floats()
    return x and scope.choices.one(_TO_INTEGERS).format(x=x)


def of_masks(scope: Scope) -> str | None:
    m = scope.pick(lambda tensor: str(tensor.dtype) == "torch.bool")
    return m and scope.choices.one(_OF_MASKS).format(m=m)


def masked(scope: Scope) -> str | None:
    m = scope.pick(lambda tensor: str(tensor.dtype) == "torch.bool")
    x = scope.floats()
    return m and x and f"torch.where({m}, {x}, {x} * 0.5)"


def gathered(scope: Scope) -> str | None:
    x, n = scope.floats(), scope.integers()
    return (
        x
        and n
        and scope.choices.one(
            ("{x}[{n} % 2]", "{x}[:, {n} % 2]", "{x}.index_select(0, {n}.flatten() % 2)")
        ).format(x=x, n=n)
    )


EXPRESSIONS: tuple[Maker, ...] = (
    *(unary, binary, unary, binary, nested, unary, of_integers, to_integers, of_masks, masked, gathered),
)


def several(scope: Scope) -> tuple[str, int] | None:
    """An expression that gives several tensors, and how many."""
    x = scope.floats()
    template, count = scope.choices.one(_SEVERAL)
    return None if x is None else (template.format(x=x), count)
