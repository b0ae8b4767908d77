"""Running a graph in one of two ways that must agree: by groups, which is fast, or by messages, neuron by neuron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from torchport.targets.marble.core.core import Core
from torchport.targets.marble.evaluate import Watch, by_groups, by_messages

By = Literal["groups", "messages"]
WAYS: tuple[By, ...] = ("groups", "messages")


def outputs_of(
    core: Core,
    inputs: Sequence[Tensor],
    *,
    by: By = "groups",
    watch: Watch = lambda key, value: value,
    state: dict[str, Tensor] | None = None,
) -> list[Tensor]:
    """The outputs of the graph as it is now. Memories begin with `state`, and leave there what they hold at the end."""
    version = core.version
    evaluate = by_groups if by == "groups" else by_messages
    return evaluate(version.graph, version.arrays, inputs, watch=watch, state=state)


def steps_of(core: Core, inputs: Sequence[Tensor], steps: int, *, by: By = "groups") -> list[Tensor]:
    """The outputs of the last of several steps on the same inputs. Memories go on from what the core holds."""
    outputs: list[Tensor] = []
    for _ in range(steps):
        state = dict(core.state)
        outputs = outputs_of(core, inputs, by=by, state=state)
        core.state = state
    return outputs


def layer_values(core: Core, *inputs: Tensor) -> dict[str, Tensor]:
    """What passes the borders of the layers in one run, under the keys of a trace: `fc` for what the layer fc gives."""
    found: dict[str, Tensor] = {}

    def watch(key: str, value: Tensor) -> Tensor:
        found[key] = value
        return value

    outputs_of(core, inputs, watch=watch)
    return found


def device_of(core: Core) -> str:
    """The kind of device that the arrays of a graph are on; the CPU if it has none."""
    kinds = {array.device.type for array in core.version.arrays.values()}
    return next(iter(sorted(kinds - {"cpu"})), "cpu")
