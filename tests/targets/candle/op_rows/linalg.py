"""Rows for factorisations and solutions of matrices; of arbitrary signs and bases, what is compared is the product."""

from __future__ import annotations

import torch

from .table import Table, randn

table = Table("linalg")
row = table.op
L = torch.linalg

row("inv", lambda x: (L.inv(x), torch.inverse(x[0])), randn(3, 5, 5))
row(
    "solve",
    lambda x, b, v: (L.solve(x, b), L.solve(x[0], v), L.solve(x, b.mT, left=False)),
    randn(3, 4, 4),
    randn(3, 4, 2),
    randn(4),
)
row("det", lambda x: (L.det(x), *L.slogdet(x), L.det(x[0]), torch.logdet(x[0] @ x[0].mT)), randn(3, 5, 5))
row("det_singular", lambda x: (L.det(x * 0), *L.slogdet(x * 0)), randn(3, 3))
row(
    "cholesky",
    lambda x: (L.cholesky(x @ x.mT + torch.eye(4)), L.cholesky(x @ x.mT + torch.eye(4), upper=True)),
    randn(3, 4, 4),
)
row(
    "cholesky_solve",
    lambda x, b: (
        torch.cholesky_solve(b, x.tril() + 3 * torch.eye(4)),
        torch.cholesky_solve(b, x.triu() + 3 * torch.eye(4), upper=True),
        torch.cholesky_inverse(x.tril() + 3 * torch.eye(4)),
    ),
    randn(4, 4),
    randn(4, 2),
)
row("qr", lambda x: (*L.qr(x), *L.qr(x.mT), *L.qr(x, mode="complete"), L.qr(x, mode="r").R), randn(2, 5, 3))
row(
    "svd",
    lambda x: (
        [
            (u[..., :3] * s.unsqueeze(-2)) @ v[..., :3, :]
            for u, s, v in (L.svd(x), L.svd(x, full_matrices=False))
        ]
        + [L.svdvals(x), L.svdvals(x.mT)]
    ),
    randn(2, 5, 3),
)
row(
    "svd_wide",
    lambda x: (lambda u, s, v: ((u * s.unsqueeze(-2)) @ v, s, u.mT @ u, v @ v.mT))(
        *L.svd(x, full_matrices=False)
    ),
    randn(2, 3, 6),
)
row(
    "svd_low_rank",
    lambda x, y: (lambda u, s, v: ((u * s) @ v, u.mT @ u, v @ v.mT))(*L.svd(x @ y, full_matrices=False)),
    randn(5, 2),
    randn(2, 5),
)
row(
    "eigh",
    lambda x: (lambda w, v: (w, (v * w.unsqueeze(-2)) @ v.mT, v.mT @ v))(*L.eigh(x + x.mT)),
    randn(2, 5, 5),
)
row("eigvalsh", lambda x: (L.eigvalsh(x), L.eigvalsh(x, UPLO="U")), randn(4, 4))
row("pinv", lambda x: (L.pinv(x), L.pinv(x.mT), L.pinv(x, rtol=0.4)), randn(2, 5, 3))
row(
    "norms",
    lambda x: (L.norm(x, "nuc"), L.norm(x, 2), L.cond(x), L.matrix_rank(x), L.norm(x, "fro")),
    randn(4, 3),
)
row("lu", lambda x: (*L.lu(x), *L.lu_factor(x), *torch.lu_unpack(*L.lu_factor(x))), randn(3, 4, 4))
row("lu_wide", lambda x: (*L.lu(x), *L.lu(x.mT)), randn(3, 5))
row(
    "triangular",
    lambda x, b: (
        L.solve_triangular(x, b, upper=True),
        L.solve_triangular(x, b, upper=False, unitriangular=True),
        L.solve_triangular(x, b.mT, upper=False, left=False),
    ),
    lambda g: randn(4, 4)(g) + 3 * torch.eye(4),
    randn(4, 2),
)
row(
    "matrix_exp",
    lambda x: (L.matrix_exp(x), L.matrix_exp(x * 5), L.matrix_power(x, 3), L.matrix_power(x, -2)),
    randn(2, 4, 4),
)
row("inv_float64", lambda x: (L.inv(x), L.det(x)), randn(5, 5, dtype=torch.float64))
row("multi_dot", lambda x, y: L.multi_dot([x, y, x]), randn(4, 5), randn(5, 4))
