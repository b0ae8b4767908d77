"""Evaluating a neuron graph by messages: neuron by neuron, along synapses, as many at a time as fit near the processor.

A message is the value of the neuron that a synapse comes from, times its weight. What a neuron makes of the messages
depends on its kind. If somebody observes, every message is made; if not, sums are done as products of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from torchport.errors import ConvertError
from torchport.targets.marble import works
from torchport.targets.marble.fans.neurons import ELEMENTWISE
from torchport.targets.marble.groups import Group, Kind
from torchport.targets.marble.messages import choices, sums, together
from torchport.targets.marble.messages.delivery import Delivery, Observer
from torchport.targets.marble.sparse import added_part, has_added, must_fit, own_part

__all__ = ["Observer", "compute"]

Receive = Callable[[Delivery], list[Tensor]]
RECEIVED: dict[str, Receive] = {
    "aligned": sums.aligned,
    "dense": sums.dense,
    "convolution": sums.convolution,
    "bias": sums.bias,
    "sparse": sums.sparse,
    "aten.cumsum.default": sums.along_synapses,
    "aten.diff.default": sums.along_synapses,
    "aten.col2im.default": sums.along_synapses,
    "product": together.product,
    "quotient": together.quotient,
    "aten.cumprod.default": together.product_so_far,
    "aten.logcumsumexp.default": together.log_of_sum_so_far,
    "aten._cdist_forward.default": together.distance,
    "larger": together.larger,
    "smaller": together.smaller,
    **{work: together.along_axes(joined) for work, joined in together.JOINED.items()},
    **{f"aten.{name}": together.compared for name in ELEMENTWISE.split()},
    **{f"aten.max_pool{n}d.default": together.largest_in_window for n in (1, 2, 3)},
    **{
        f"aten.{kind}avg_pool{n}d.default": together.average_in_window
        for kind in ("", "adaptive_", "_adaptive_")
        for n in (1, 2, 3)
    },
    **{
        f"aten.upsample_{name}.vec": sums.along_synapses
        for name in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    },
    **choices.CHOICES,
}
"""What neurons make of their messages, for each work. A function of one value needs no row."""


def compute(
    group: Group,
    inputs: Sequence[Tensor],
    arrays: Mapping[str, Tensor],
    sizes: works.Sizes,
    observe: Observer | None = None,
) -> list[Tensor]:
    """The results of a group, message by message. Wiring and what never changes have no messages."""
    if group.kind in (Kind.WIRING, Kind.CONSTANT, Kind.INPUT):
        return works.compute(group, inputs, arrays, sizes)
    if has_added(group):
        return _with_added(group, inputs, arrays, sizes, observe)
    given = Delivery(group, inputs, arrays, sizes, observe)
    if group.kind is Kind.FUNCTION:
        return together.function(given)
    if group.work not in RECEIVED:
        raise ConvertError(
            "TP0420", f"it is not known what neurons of {group.work!r} make of messages", where=group.name
        )
    return RECEIVED[group.work](given)


def _with_added(
    group: Group,
    inputs: Sequence[Tensor],
    arrays: Mapping[str, Tensor],
    sizes: works.Sizes,
    observe: Observer | None,
) -> list[Tensor]:
    """What the group's own messages give, and what those along its added synapses bring."""
    given = len(group.own_inputs)
    own = compute(own_part(group), inputs[:given], arrays, sizes, observe)
    must_fit(group, own, inputs[given:])
    (more,) = compute(added_part(group), inputs[given:], arrays, sizes, observe)
    return [own[0] + more.to(own[0].dtype)]
