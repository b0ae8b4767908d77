"""Compares what the program computed for one row with torch: by bits where the operations are exact, else by the rule
of the noise floor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchport.parity.judge import judge

from .exact import is_exact
from .sample import Sample

UNDEFINED = frozenset(
    f"aten.{name}"
    for name in ("empty.memory_format", "empty_like.default", "empty_permuted.default", "new_empty.default")
)
"""Operations whose elements are whatever is in memory: only dtype and shape are compared."""

CHOOSING = frozenset(
    f"aten.{name}"
    for name in (
        "sort.default",
        "argsort.default",
        "kthvalue.default",
        "median.dim",
        "nanmedian.dim",
        "mode.default",
        "topk.default",
    )
)
"""Operations that leave open which of equal elements is meant, or comes first: that depends on the CPU in torch."""

_TOPK = "aten.topk.default"
_SORTED = 4
"""The place of `sorted` among the arguments of topk."""


def difference(
    sample: Sample,
    operations: Sequence[str],
    golden: Sequence[torch.Tensor],
    candidates: Sequence[torch.Tensor],
    truths: Sequence[torch.Tensor] | None,
) -> str | None:
    """What is wrong with the tensors that a graph of these operations gave; None if nothing is."""
    if len(golden) != len(candidates):
        return f"{len(candidates)} results instead of {len(golden)}"
    if operations and CHOOSING.issuperset(operations) and len(sample.tensors) == 1:
        x = sample.tensors[0]
        if set(operations) == {_TOPK} and not _is_sorted(sample) and _are_topmost(x, golden, candidates):
            return None
        candidates = [*candidates[:-1], _as_chosen(x, golden[-1], candidates[-1])]
    for index, (wanted, given) in enumerate(zip(golden, candidates, strict=True)):
        truth = truths[index] if truths is not None and index < len(truths) else None
        why = _difference(sample, operations, wanted, given, truth)
        if why is not None:
            return f"result {index}: {why}"
    return None


def _is_sorted(sample: Sample) -> bool:
    """Whether topk must give its elements in order; torch promises none without."""
    given = sample.args[_SORTED] if len(sample.args) > _SORTED else True
    return bool(sample.kwargs.get("sorted", given))


def _are_topmost(x: torch.Tensor, golden: Sequence[torch.Tensor], candidates: Sequence[torch.Tensor]) -> bool:
    """Whether values and indices are those of topk in another order: the same values, each from a place of its own."""
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(golden, candidates, strict=True)):
        return False
    values, indices = candidates
    for dim in range(x.ndim):
        if any(size != x.shape[axis] for axis, size in enumerate(indices.shape) if axis != dim):
            continue
        inside = bool(((indices >= 0) & (indices < max(1, x.shape[dim]))).all())
        once = bool((indices.sort(dim).values.diff(dim=dim) > 0).all())
        if inside and once and _unequal(x.gather(dim, indices), values) is None:
            wanted, given = ((ordered + 0).sort(dim).values for ordered in (golden[0], values))
            if _unequal(wanted, given) is None:
                return True
    return False


def _as_chosen(x: torch.Tensor, golden: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
    """The indices that torch chose, if the candidate chose others of equal elements, each at most once."""
    if not golden.dtype == candidate.dtype == torch.int64 or golden.shape != candidate.shape:
        return candidate
    for dim in range(x.ndim):
        wanted, given = (i.unsqueeze(dim) if i.ndim == x.ndim - 1 else i for i in (golden, candidate))
        if any(size != x.shape[axis] for axis, size in enumerate(wanted.shape) if axis != dim):
            continue
        inside = bool(((given >= 0) & (given < max(1, x.shape[dim]))).all())
        once = bool((given.sort(dim).values.diff(dim=dim) > 0).all())
        if inside and once and _unequal(x.gather(dim, wanted), x.gather(dim, given)) is None:
            return golden
    return candidate


def _difference(
    sample: Sample,
    operations: Sequence[str],
    golden: torch.Tensor,
    candidate: torch.Tensor,
    truth: torch.Tensor | None,
) -> str | None:
    if golden.dtype == torch.bool and candidate.dtype == torch.uint8:
        if bool((candidate > 1).any()):
            return "a bool is neither 0 nor 1"
        candidate = candidate.bool()
    if golden.dtype != candidate.dtype:
        return f"dtype {candidate.dtype} instead of {golden.dtype}"
    if golden.shape != candidate.shape:
        return f"shape {tuple(candidate.shape)} instead of {tuple(golden.shape)}"
    if golden.numel() == 0 or UNDEFINED.issuperset(operations):
        return None
    if not golden.is_floating_point() or is_exact(operations):
        return _unequal(golden, candidate)
    if bool(golden.isnan().all()):
        return None if bool(candidate.isnan().all()) else "numbers instead of NaN"
    usable = truth is not None and truth.shape == golden.shape and truth.is_floating_point()
    _, verdict = judge(golden, candidate, truth if usable else None)
    return None if verdict.passed else f"{verdict.reason}: {_worst(golden, candidate)}"


def _unequal(golden: torch.Tensor, candidate: torch.Tensor) -> str | None:
    """Where two tensors differ, the sign of zero included."""
    differs = golden != candidate
    if golden.is_floating_point():
        differs &= ~(golden.isnan() & candidate.isnan())
        differs |= (golden == 0) & (candidate == 0) & (golden.signbit() != candidate.signbit())
    if not bool(differs.any()):
        return None
    return f"{int(differs.sum())} of {golden.numel()} elements differ: {_at(golden, candidate, differs)}"


def _worst(golden: torch.Tensor, candidate: torch.Tensor) -> str:
    error = (golden.double() - candidate.double()).abs()
    unlike = golden.isfinite() != candidate.isfinite()
    differs = unlike if bool(unlike.any()) else error == error.nan_to_num(0.0).max()
    return _at(golden, candidate, differs)


def _at(golden: torch.Tensor, candidate: torch.Tensor, where: torch.Tensor) -> str:
    if not bool(where.any()):
        return "nowhere"
    place = tuple(where.nonzero()[0].tolist())
    return f"at {place} {candidate[place].item()!r} instead of {golden[place].item()!r}"
