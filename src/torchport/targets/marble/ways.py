"""The two ways to run a graph, which must agree: by groups, which is fast, or by messages, neuron by neuron."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.evaluate import Watch, by_groups, by_messages
from torchport.targets.marble.groups import NeuronGraph

By = Literal["groups", "messages"]
WAYS: tuple[By, ...] = ("groups", "messages")


def evaluated(
    graph: NeuronGraph,
    arrays: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    *,
    by: By,
    watch: Watch = lambda key, value: value,
    state: dict[str, Tensor] | None = None,
) -> list[Tensor]:
    """The outputs of the graph. Memories begin with `state`, and leave there what they hold at the end."""
    if by not in WAYS:
        raise NeuronError(
            "TP0905", f"a graph is run by groups or by messages, not by {by!r}", fix=f"Give one of {WAYS}."
        )
    evaluate = by_groups if by == "groups" else by_messages
    return evaluate(graph, arrays, inputs, watch=watch, state=state)
