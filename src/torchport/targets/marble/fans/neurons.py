"""The table of patterns by work, and the fan of some neurons."""

from __future__ import annotations

import torch
from torch import Tensor

from torchport.capture.control_flow import CONTROL_FLOW
from torchport.errors import ConvertError
from torchport.targets.marble.fans import patterns
from torchport.targets.marble.fans.lists import is_listed, listing
from torchport.targets.marble.fans.patterns import Pattern
from torchport.targets.marble.fans.reach import Reach, Rows
from torchport.targets.marble.fans.request import Fan, Request, coordinates
from torchport.targets.marble.fans.weights import WEIGHTS, Asked
from torchport.targets.marble.groups import Form, Kind


def _named(pattern: Pattern, names: str) -> dict[str, Pattern]:
    return {f"aten.{name}": pattern for name in names.split()}


def _for_each_rank(names: str) -> str:
    return " ".join(names.replace("{}", str(axes)) for axes in (1, 2, 3))


ELEMENTWISE = """
    where.self where.ScalarSelf where.ScalarOther masked_fill.Scalar masked_fill.Tensor
    eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor remainder.Tensor fmod.Tensor
    logical_and.default logical_or.default logical_xor.default atan2.default
    bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor __and__.Tensor __or__.Tensor __xor__.Tensor
    floor_divide.default div.Tensor_mode pow.Tensor_Tensor hypot.default fmax.default fmin.default where.Scalar
    __lshift__.Tensor __rshift__.Tensor bitwise_left_shift.Tensor bitwise_right_shift.Tensor copysign.Tensor
    remainder.Scalar_Tensor
"""
PATTERNS: dict[str, Pattern] = {
    **dict.fromkeys((kind.name for kind in CONTROL_FLOW.values()), patterns.everything),
    "aligned": patterns.aligned,
    "dense": patterns.dense,
    "convolution": patterns.convolved,
    "product": patterns.aligned,
    "quotient": patterns.aligned,
    "larger": patterns.aligned,
    "smaller": patterns.aligned,
    **dict.fromkeys(("sum", "mean", "max", "min", "any", "all"), patterns.reduced),
    **_named(patterns.aligned, ELEMENTWISE),
    **_named(
        patterns.along_dim,
        """prod.default prod.dim_int linalg_vector_norm.default norm.ScalarOpt_dim argmax.default argmin.default
        topk.default sort.default sort.stable argsort.default argsort.stable max.dim min.dim median.default
        median.dim kthvalue.default""",
    ),
    **_named(
        patterns.pooled,
        _for_each_rank("max_pool{}d.default max_pool{}d_with_indices.default avg_pool{}d.default"),
    ),
    **_named(
        patterns.adaptively_pooled,
        _for_each_rank(
            "adaptive_max_pool{}d.default adaptive_avg_pool{}d.default _adaptive_avg_pool{}d.default"
        ),
    ),
    **_named(
        patterns.accumulated,
        "cumsum.default cumprod.default logcumsumexp.default cummax.default cummin.default",
    ),
    **_named(patterns.along_other_dims, "norm_except_dim.default"),
    **_named(patterns.distances, "_cdist_forward.default"),
    **_named(patterns.differing, "diff.default"),
    **_named(
        patterns.interpolated,
        "upsample_linear1d.vec upsample_bilinear2d.vec upsample_bicubic2d.vec upsample_trilinear3d.vec",
    ),
    **_named(patterns.gathered, "gather.default"),
    **_named(patterns.index_selected, "index_select.default"),
    **_named(patterns.embedded, "embedding.default"),
    **_named(patterns.one_hot, "one_hot.default"),
    **_named(patterns.searched, "bucketize.Tensor searchsorted.Tensor"),
    **_named(patterns.renormed, "embedding_renorm.default"),
    **_named(patterns.looked_up, "isin.Tensor_Tensor"),
    **_named(patterns.sampled, "grid_sampler_2d.default"),
    **_named(
        patterns.everything,
        """index.Tensor _unsafe_index.Tensor index_put.default _unsafe_index_put.default scatter.src scatter.value
        scatter_add.default scatter_reduce.two masked_scatter.default nonzero.default embedding_bag.padding_idx
        _embedding_bag.default _embedding_bag_forward_only.default _trilinear.default _pdist_forward.default""",
    ),
}
"""Where the synapses of each work come from. A function of one value needs no row."""


def reaches(ask: Request, result: Form) -> list[Reach]:
    """How far the synapses into one of the group's results reach, for each input that they come from."""
    group = ask.group
    if group.kind in (Kind.INPUT, Kind.CONSTANT, Kind.MEMORY, Kind.WIRING):
        return []
    if group.kind is Kind.FUNCTION:
        return patterns.single(ask, result)
    if group.work not in PATTERNS:
        raise ConvertError(
            "TP0420",
            f"it is not known which synapses {group.work!r} has",
            where=group.name,
            fix="add a row to PATTERNS in torchport/targets/marble/fans/neurons.py",
        )
    return PATTERNS[group.work](ask, result)


def fan(ask: Request, neurons: Tensor | range, index: int = 0) -> Fan:
    """The synapses into some neurons of one of the group's results, which are counted from 0."""
    if isinstance(neurons, range):
        neurons = torch.arange(neurons.start, neurons.stop, neurons.step)
    if is_listed(ask):
        return listing(ask).fan(neurons)
    result = ask.results[index]
    place = coordinates(neurons, result.shape)
    found = [reach.rows(place, len(neurons)) for reach in reaches(ask, result)]
    source = _beside([rows.source for rows in found], len(neurons))
    present = _present(found)
    if ask.group.kind is not Kind.WEIGHTED_SUM:
        return Fan(source, present=present)
    weigh = WEIGHTS.get(ask.group.work)
    if weigh is None:
        return Fan(source, _factors(found), present)
    made = weigh(Asked(ask, result, place, neurons))
    if made.present is not None:
        present = made.present if present is None else present & made.present
    return Fan(source, made.weight, present, made.bias)


def _beside(parts: list[Tensor], neurons: int) -> Tensor:
    return torch.cat(parts, 1) if parts else torch.zeros(neurons, 0, dtype=torch.int64)


def _present(found: list[Rows]) -> Tensor | None:
    if all(rows.present is None for rows in found):
        return None
    return torch.cat([_or_all(rows) for rows in found], 1)


def _or_all(rows: Rows) -> Tensor:
    return torch.ones_like(rows.source, dtype=torch.bool) if rows.present is None else rows.present


def _factors(found: list[Rows]) -> Tensor:
    ones = (torch.ones_like(rows.source) if rows.factor is None else rows.factor for rows in found)
    return torch.cat(list(ones), 1)
