"""Selections: which value is passed on depends on another value."""

from __future__ import annotations

from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.registry import rows

_CHOOSING = """
    where.self where.ScalarSelf where.ScalarOther masked_fill.Scalar masked_fill.Tensor gather.default index.Tensor
    _unsafe_index.Tensor index_select.default embedding.default argmax.default argmin.default topk.default sort.default
    sort.stable argsort.default argsort.stable max.dim min.dim scatter.src scatter.value scatter_add.default
    scatter_reduce.two index_put.default _unsafe_index_put.default one_hot.default bucketize.Tensor searchsorted.Tensor
    grid_sampler_2d.default embedding_bag.padding_idx _embedding_bag_forward_only.default nonzero.default
    _embedding_bag.default embedding_renorm.default masked_scatter.default median.default median.dim kthvalue.default
    cummax.default cummin.default where.Scalar isin.Tensor_Tensor
"""
rows(Kind.SELECTION, [f"aten.{name}" for name in _CHOOSING.split()])
rows(Kind.SELECTION, [f"aten.max_pool{n}d_with_indices.default" for n in (1, 2, 3)])
rows(Kind.SELECTION, [f"aten.adaptive_max_pool{n}d.default" for n in (1, 2, 3)])
