"""Rows for gamma, error and Bessel functions, and for whole numbers; far from, near to and at their poles."""

from __future__ import annotations

import torch

from .table import INF, NAN, Table, ints, randn, uniform, values

table = Table("special")
row = table.op
S = torch.special

row("erfinv", torch.erfinv, uniform(-0.999, 0.999, 40))
row("erfinv_ends", torch.erfinv, values([-1.0, 1.0, 0.0, 1.5, NAN, 1e-8, 0.9999999]))
row("erfinv_float64", torch.erfinv, uniform(-0.999, 0.999, 40, dtype=torch.float64))
row("lgamma", torch.lgamma, uniform(-3.9, 30.0, 60))
row("lgamma_poles", torch.lgamma, values([0.0, -1.0, -2.0, INF, NAN, 1.0, 2.0, 1e-4]))
row("digamma", torch.digamma, uniform(0.05, 30.0, 60))
row("digamma_below_zero", torch.digamma, values([-0.4, -1.3, -2.7, -0.9, 0.0, -1.0, NAN, INF]))
row("polygamma", lambda x: [torch.polygamma(n, x) for n in range(4)], uniform(0.3, 9.0, 30))
row("trigamma_below_zero", lambda x: torch.polygamma(1, x), values([-0.4, -1.3, 0.2, 0.0]))
row("mvlgamma", lambda x: torch.mvlgamma(x, 3), uniform(2.0, 9.0, 20))
row("zeta", S.zeta, uniform(1.5, 9.0, 30), uniform(0.2, 12.0, 30))
row("i0", lambda x: (torch.i0(x), S.i0e(x), S.i1(x), S.i1e(x)), uniform(-60.0, 60.0, 50))
row("i0_ends", lambda x: (torch.i0(x), S.i0e(x), S.i1(x), S.i1e(x)), values([0.0, -0.0, INF, NAN, 1e-3]))
row("bessel_j", lambda x: (S.bessel_j0(x), S.bessel_j1(x)), uniform(-12.0, 12.0, 40))
row("bessel_y", S.bessel_y0, uniform(0.3, 12.0, 40))
row("bessel_i", lambda x: (S.modified_bessel_i0(x), S.modified_bessel_i1(x)), uniform(-20.0, 20.0, 40))
row("bessel_k", lambda x: (S.modified_bessel_k0(x), S.modified_bessel_k1(x)), uniform(0.05, 20.0, 40))
row(
    "bessel_k_scaled",
    lambda x: (S.scaled_modified_bessel_k0(x), S.scaled_modified_bessel_k1(x)),
    uniform(0.05, 60.0, 40),
)
row("spherical_bessel_j0", S.spherical_bessel_j0, values([0.0, 0.3, -2.0, 9.0, INF, 1e-5]))
row("erfcx", S.erfcx, uniform(-4.0, 60.0, 50))
row("ndtri", S.ndtri, uniform(0.0001, 0.9999, 50))
row("ndtri_ends", S.ndtri, values([0.0, 1.0, -0.1, 1.5, NAN, 1e-20]))
row("ndtr", lambda x: (S.ndtr(x), S.log_ndtr(x)), uniform(-12.0, 6.0, 50))
row("entr", S.entr, uniform(-0.5, 3.0, 20))
row("sinc", lambda x: (torch.sinc(x), torch.logit(x, 1e-3)), uniform(0.05, 0.95, 20))
row(
    "incomplete_gamma",
    lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
    uniform(0.2, 9.0, 60),
    uniform(0.1, 14.0, 60),
)
row(
    "incomplete_gamma_ends",
    lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
    values([0.0, 1.0, INF, 2.0, -1.0, NAN, 0.0]),
    values([1.0, 0.0, 1.0, INF, 1.0, 1.0, 0.0]),
)
row(
    "logaddexp",
    lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)),
    randn(30, scale=30.0),
    randn(30, scale=30.0),
)
row(
    "logaddexp_infinite",
    lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)),
    values([INF, -INF, -INF, INF, NAN, 1.0]),
    values([INF, -INF, 1.0, 1.0, 1.0, -INF]),
)
row(
    "xlogy",
    lambda x, y: (
        torch.xlogy(x, y),
        S.xlog1py(x, y),
        torch.xlogy(x, 2.5),
        torch.xlogy(2.0, y),
        S.xlog1py(x, 2.5),
        S.xlog1py(2.0, y),
    ),
    values([0.0, 1.0, 0.0, 2.0]),
    values([0.0, 3.0, NAN, 0.5]),
)
row("heaviside", torch.heaviside, values([-1.0, 0.0, 2.0, NAN]), values([0.5]))
row("heaviside_int", torch.heaviside, ints(-2, 3, 9), ints(4, 9, 9))
row("nextafter", torch.nextafter, randn(9), randn(9))
row("gcd", lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), ints(-30, 30, 40), ints(-30, 30, 40))
row("gcd_int32", torch.gcd, ints(0, 30, 9, dtype=torch.int32), ints(0, 30, 9, dtype=torch.int32))
row("frexp", torch.frexp, values([0.0, 1.0, -3.5, 1e-30, 1e30, 0.4999]))
row("ldexp", torch.ldexp, randn(9), ints(-9, 9, 9))
row("special_of_int", lambda x: (torch.lgamma(x), torch.i0(x), torch.digamma(x)), ints(1, 9, 9))
row(
    "special_half",
    lambda x: (torch.lgamma(x), torch.erfinv(x / 10), torch.i0(x)),
    uniform(0.5, 9.0, 20, dtype=torch.bfloat16),
)
row(
    "bits_of_number",
    lambda x: (
        3 & x,
        3 | x,
        3 ^ x,
        1 << x,
        torch.bitwise_and(6, x),
        torch.bitwise_left_shift(5, x),
        torch.bitwise_right_shift(500, x),
        torch.bitwise_or(6, x),
        torch.bitwise_xor(6, x),
    ),
    ints(0, 9, 9),
)
