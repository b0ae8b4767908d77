"""Operations that are not mapped, and will not be, each with the reason; those in no table are only not mapped yet."""

from __future__ import annotations

_GRADIENT = "it computes a gradient, which no inference path has"
_RANDOM = "its result is random, so there is nothing that a port could be compared with"
_SIZE = "it gives a size, which is part of a graph's shapes"

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "aten._adaptive_avg_pool2d_backward.default",
            "aten.avg_pool2d_backward.default",
            "aten.convolution_backward.default",
            "aten.embedding_dense_backward.default",
            "aten.max_pool2d_with_indices_backward.default",
            "aten.native_group_norm_backward.default",
            "aten.native_layer_norm_backward.default",
        ),
        _GRADIENT,
    ),
    **{
        f"aten.{name}": _RANDOM
        for name in (
            *("rand.default", "randn.default", "randperm.default", "rand_like.default", "randn_like.default"),
            *("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype"),
            *(
                "bernoulli.default",
                "bernoulli.p",
                "multinomial.default",
                "normal.Tensor_Tensor",
                "poisson.default",
            ),
            *("normal.float_Tensor", "normal.Tensor_float", "normal_functional.default", "uniform.default"),
            *(
                "exponential.default",
                "geometric.default",
                "cauchy.default",
                "log_normal.default",
                "binomial.default",
            ),
        )
    },
    **dict.fromkeys(
        (
            "aten.sym_numel.default",
            "aten.sym_size.int",
            "aten.sym_stride.int",
            "aten.sym_storage_offset.default",
        ),
        _SIZE,
    ),
    "aten._local_scalar_dense.default": "it takes a number out of a tensor (.item()), which no graph can follow: keep "
    "the value a tensor",
    "aten._native_batch_norm_legit.default": "it writes to its arguments; graphs have its form that does not",
    "aten.as_strided.default": "it reads memory of a view with gaps, or in front of it, which a graph does not have",
    "aten.atan2.out": "it writes to its arguments; graphs have aten.atan2.default",
    "aten.special_bessel_y1.default": "torch's own float64 result is off by 8e-7, so nothing could be proven",
}
"""Operation → why it has no place in a port."""
