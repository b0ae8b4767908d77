"""AOTAutograd in front of graphs that are run as they are: the ATen graphs of a graph of Dynamo's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from torchport.debug.internals.needs import Need
from torchport.debug.internals.observing import aten_backend

_AT_ONCE = "force_non_lazy_backward_lowering"
NEEDS = (
    Need(
        "restarts", "torch._dynamo.exc", "TensorifyScalarRestartAnalysis", "the mock backend with free sizes"
    ),
    Need(
        "backward graphs at once",
        "torch._functorch.config",
        _AT_ONCE,
        "backward graphs of other backends held against constraints",
    ),
)
Run = Callable[..., Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Run]


def compile_ahead(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    forward: Compile,
    backward: Compile,
    at_once: bool = False,
) -> Run:
    """A graph of Dynamo's as graphs of ATen operations.

    `backward` is called if gradients are wanted: when the backward pass runs for the first time, or `at_once`.
    """
    from torch._functorch import config

    with config.patch({_AT_ONCE: True}) if at_once else nullcontext():
        compiled: Run = aten_backend(forward, backward)(module, inputs)
    return compiled


def is_restart(error: BaseException) -> bool:
    """Whether an error only tells Dynamo to make the graph anew, with other inputs."""
    from torch._dynamo import exc

    restarts: list[type[BaseException]] = [exc.RestartAnalysis]
    restarts += [kind for kind in [getattr(exc, "TensorifyScalarRestartAnalysis", None)] if kind is not None]
    return isinstance(error, tuple(restarts))


def input_number(node: torch.fx.Node) -> int | None:
    """Which input of Dynamo's graph an input of an ATen graph is; None if it is something else, such as a gradient."""
    number = getattr(node.meta.get("desc"), "idx", None)
    return number if isinstance(number, int) and node.name.startswith(("primals_", "arg")) else None
