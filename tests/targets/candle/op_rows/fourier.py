"""Rows for complex numbers and Fourier transforms of every kind; what is complex is read as pairs at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .table import INF, NAN, Maker, Table, bools, ints, randn, uniform, values

table = Table("fourier")
C = torch.complex
K = torch.fft


def row(name: str, compute: Callable[..., Any], *makers: Maker) -> None:
    """A row whose complex results are read as pairs."""

    def real(*inputs: Tensor) -> list[Tensor]:
        results = compute(*inputs)
        results = results if isinstance(results, (list, tuple)) else [results]
        return [torch.view_as_real(v.resolve_conj()) if v.is_complex() else v for v in results]

    table.op(name, real, *makers)


def _norms(f: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    return lambda x: [f(x), f(x, norm="ortho"), f(x, norm="forward"), f(x, dim=0), f(x, n=7, dim=1)]


row("fft", _norms(K.fft), randn(4, 12))
row("ifft", lambda x: _norms(K.ifft)(torch.view_as_complex(x)), randn(4, 9, 2))
row("rfft", _norms(K.rfft), randn(4, 11))
row("irfft", lambda x: _norms(K.irfft)(torch.view_as_complex(x)), randn(4, 6, 2))
row("hfft", lambda x: _norms(K.hfft)(torch.view_as_complex(x)), randn(4, 6, 2))
row("ihfft", _norms(K.ihfft), randn(4, 10))
row("fft_lengths", lambda *xs: [K.fft(x) for x in xs], *(randn(2, n) for n in (1, 2, 7, 64, 67, 134, 500)))
row(
    "rfft_lengths",
    lambda *xs: [K.irfft(K.rfft(x), n=x.shape[-1]) for x in xs],
    *(randn(2, n) for n in (1, 3, 16, 71, 90)),
)
row(
    "fft_two",
    lambda x: (
        K.fft2(x),
        K.ifft2(x),
        K.rfft2(x),
        K.irfft2(K.rfft2(x)),
        K.fftn(x),
        K.rfftn(x),
        K.irfftn(K.rfftn(x), s=x.shape),
        K.fft2(x, dim=(0, 2), norm="ortho"),
    ),
    randn(3, 4, 6),
)
row(
    "fft_shift",
    lambda x: (K.fftshift(K.fft(x)), K.ifftshift(x), x * K.fftfreq(6), K.rfftfreq(6, 0.1)),
    randn(4, 6),
)
row("fft_float64", lambda x: (K.fft(x), K.irfft(K.rfft(x))), randn(3, 10, dtype=torch.float64))
row("fft_real_part", lambda x: K.fft(K.fft(x, dim=-1), dim=-2).real, randn(2, 5, 8))
row(
    "parts",
    lambda x, y: (
        C(x, y).real,
        C(x, y).imag,
        C(x, y).abs(),
        C(x, y).angle(),
        C(x, y).conj(),
        x.angle(),
        -C(x, y),
    ),
    randn(4, 5),
    randn(4, 5),
)
row("polar", lambda x, y: torch.polar(x, y), uniform(0.1, 3.0, 4, 5), randn(4, 5, scale=3.0))
row(
    "product",
    lambda x, y: (
        C(x, y) * C(y, x),
        C(x, y) / C(y, x),
        C(x, y) + C(y, x[:1]),
        C(x, y) - C(y, x),
        C(x, y) * C(y[0], x[0]),
    ),
    randn(4, 5),
    randn(4, 5),
)
row(
    "with_real",
    lambda x, y: (
        C(x, y) * x,
        y * C(x, y),
        C(x, y) / y,
        C(x, y) + x,
        C(x, y) - y[:1],
        x - C(x, y),
        x / C(x, y),
        C(x, y) * x[0],
    ),
    randn(4, 5),
    uniform(0.5, 2.0, 4, 5),
)
row(
    "with_numbers",
    lambda x, y: (
        C(x, y) * 2,
        C(x, y) / 3,
        C(x, y) + 1.5,
        2 - C(x, y),
        C(x, y) * 1j,
        C(x, y) + (1 - 2j),
        1 / C(x, y),
        torch.add(C(x, y), C(x, y), alpha=2),
    ),
    randn(4, 5),
    randn(4, 5),
)
row(
    "functions",
    lambda x, y: [
        f(C(x, y))
        for f in (
            torch.exp,
            torch.log,
            torch.sqrt,
            torch.reciprocal,
            torch.sin,
            torch.cos,
            torch.square,
            torch.sgn,
        )
    ],
    randn(4, 5),
    randn(4, 5),
)
row(
    "powers",
    lambda x, y: (C(x, y) ** 2, C(x, y) ** 3, C(x, y) ** 0.5, C(x, y) ** C(y, x), 2.0 ** C(x, y)),
    randn(4, 5),
    randn(4, 5),
)
row(
    "sums",
    lambda x, y: (
        C(x, y).sum(),
        C(x, y).sum(0),
        C(x, y).mean((0, 2), keepdim=True),
        C(x, y).mean(),
        C(x, y).prod(1),
        C(x, y).cumsum(-1),
    ),
    randn(2, 3, 4),
    randn(2, 3, 4),
)
row(
    "matrices",
    lambda x, y: (
        C(x, y) @ C(y, x).mT,
        torch.einsum("ij,kj->ik", C(x, y), C(y, x)),
        C(x, y) @ C(x[0], y[0]),
        C(x, y).conj().mT @ C(x, y),
    ),
    randn(4, 5),
    randn(4, 5),
)
row(
    "moves",
    lambda x, y: (
        C(x, y).reshape(4, -1),
        C(x, y).transpose(0, -1),
        C(x, y).permute(2, 0, 1),
        C(x, y)[:, -1],
        C(x, y)[..., 1:],
        C(x, y).unsqueeze(-1).squeeze(-1),
        torch.cat([C(x, y), C(y, x)], -1),
        torch.stack([C(x, y), C(y, x)], -1),
        *C(x, y).split(2, -1),
        *C(x, y).unbind(-1)[:2],
        C(x, y).flip(-1),
        C(x, y).roll(1, -1),
        C(x, y)[0].t(),
        C(x, y).repeat(2, 1, 1),
        C(x, y)[:1].expand(3, -1, -1),
        C(x, y)[torch.tensor([1, 0])],
        torch.zeros_like(C(x, y)),
        torch.nn.functional.pad(C(x, y), (1, 2)),
    ),
    randn(2, 3, 4),
    randn(2, 3, 4),
)
row(
    "choice",
    lambda x, y, m: (
        torch.where(m, C(x, y), C(y, x)),
        C(x, y) == C(x, x.abs()),
        C(x, y) != C(x, y),
        x.to(torch.complex64),
        C(x, y).to(torch.complex128),
    ),
    randn(4, 5),
    randn(4, 5),
    bools(4, 5),
)
row(
    "special_parts",
    lambda x, y: (C(x, y).abs(), C(x, y).angle(), torch.isnan(C(x, y)), C(x, y).exp()),
    values([0.0, INF, NAN, -1.0, 1e-30]),
    values([0.0, 1.0, 1.0, -0.0, 1e-30]),
)
row(
    "stft",
    lambda x: [
        torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True),
        torch.stft(x, 12, 5, center=False, onesided=False, normalized=True, return_complex=True),
    ],
    randn(2, 80),
)
row(
    "istft",
    lambda x: torch.istft(
        torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True),
        16,
        4,
        window=torch.hann_window(16),
        length=80,
    ),
    randn(2, 80),
)
row(
    "rotary",
    lambda x, a: torch.view_as_real(
        torch.view_as_complex(x.reshape(2, 5, 3, 2)) * torch.polar(torch.ones_like(a), a)
    ).flatten(2),
    randn(2, 5, 6),
    randn(5, 3),
)
row("circulant", lambda x, y: K.irfft(K.rfft(x) * K.rfft(y).conj(), n=9), randn(4, 9), randn(9))
row("integers", lambda x: K.fft(x.float()).abs(), ints(-9, 9, 3, 8))
