"""What a graph computes in one run that can be watched, or in several steps."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from torchport.targets.marble.core.core import Core
from torchport.targets.marble.evaluate import Watch
from torchport.targets.marble.ways import By, evaluated


def outputs_of(
    core: Core,
    inputs: Sequence[Tensor],
    *,
    by: By = "groups",
    watch: Watch = lambda key, value: value,
) -> list[Tensor]:
    """The outputs of the graph as it is now; memories begin anew."""
    version = core.version
    return evaluated(version.graph, version.arrays, inputs, by=by, watch=watch)


def steps_of(core: Core, inputs: Sequence[Tensor], steps: int, *, by: By = "groups") -> list[Tensor]:
    """The outputs of the last of several steps on the same inputs. Memories go on from what the core holds."""
    outputs: list[Tensor] = []
    for _ in range(steps):
        outputs = core.step(*inputs, by=by)
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
