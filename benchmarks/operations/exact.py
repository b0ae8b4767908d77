"""The operations whose result is determined to the last bit: they move, choose, compare, convert, or round once."""

from __future__ import annotations

from collections.abc import Sequence

from torchport.targets.candle.registry import OPS

_WORDS = """
    __and__ __lshift__ __or__ __rshift__ __xor__ _to_copy _unsafe_index _unsafe_index_put abs add all
    amax amin any arange argmax argmin argsort as_strided bitwise bucketize cat ceil clamp clamp_max
    clamp_min clone constant_pad_nd copy copysign diagonal diff div embedding eq expand fill flip floor
    fmax fmin full full_like gather ge gt hardtanh index index_put index_select isfinite isinf isnan
    isneginf isposinf le logical lt masked_fill max max_pool1d max_pool2d max_pool3d maximum min minimum
    mul ne neg new_full new_ones new_zeros nonzero one_hot ones ones_like pad permute pixel_shuffle
    reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d reshape roll round rsub scalar_tensor scatter
    searchsorted select select_scatter sign signbit slice slice_scatter sort split split_with_sizes
    squeeze stack sub t topk transpose tril triu true_divide trunc type_as unbind unfold unsafe_split
    unsqueeze upsample_nearest1d upsample_nearest2d upsample_nearest3d where zeros zeros_like
"""
_EXACT_WORDS = frozenset(_WORDS.split())


def _word(operation: str) -> str:
    return operation.split(".")[1]


_ROUNDING = frozenset(
    ["add", "sub", "rsub", "mul", "div", "true_divide", "reciprocal", "sqrt", "round", "diff"]
)
"""Those that round: of two in a row, torch may have made one that rounds once."""


def is_exact(operations: Sequence[str]) -> bool:
    """Whether a graph of these operations gives torch's bits, in whatever order they are computed."""
    rounding = sum(_word(operation) in _ROUNDING for operation in operations)
    return EXACT.issuperset(operations) and rounding <= 1


def _is_exact(operation: str) -> bool:
    word = _word(operation)
    return word in _EXACT_WORDS or word.startswith(("bitwise_", "logical_"))


EXACT = frozenset(operation for operation in OPS if _is_exact(operation))
