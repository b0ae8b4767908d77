"""Wiring: whose values arrive where. It has no neurons, but for those whose value never changes."""

from __future__ import annotations

from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.registry import rows

_WIRED = """
    view.default reshape.default _unsafe_view.default permute.default transpose.int t.default numpy_T.default
    expand.default expand_as.default squeeze.default squeeze.dim squeeze.dims unsqueeze.default slice.Tensor select.int
    narrow.default split.Tensor split_with_sizes.default unsafe_split.Tensor chunk.default unbind.int cat.default
    stack.default flatten.using_ints unflatten.int clone.default contiguous.default detach.default alias.default
    detach_.default lift_fresh_copy.default dropout.default feature_dropout.default alpha_dropout.default
    repeat.default repeat_interleave.self_int roll.default flip.default
    tril.default triu.default diagonal.default unfold.default pixel_shuffle.default pixel_unshuffle.default
    channel_shuffle.default movedim.int movedim.intlist select_scatter.default slice_scatter.default
    constant_pad_nd.default pad.default upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec
    reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default replication_pad1d.default
    replication_pad2d.default replication_pad3d.default as_strided.default
    copy.default im2col.default tile.default view_as.default broadcast_to.default
"""
_MADE = """
    arange.default arange.start arange.start_step full.default zeros.default ones.default scalar_tensor.default
    full_like.default zeros_like.default ones_like.default new_zeros.default new_ones.default new_full.default
    empty.memory_format empty_like.default new_empty.default eye.default eye.m linspace.default
    empty_permuted.default empty_strided.default fill.Scalar fill.Tensor
"""
rows(Kind.WIRING, [f"aten.{name}" for name in _WIRED.split()])
rows(Kind.CONSTANT, [f"aten.{name}" for name in _MADE.split()])
