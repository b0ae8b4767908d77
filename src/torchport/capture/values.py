"""The values of a captured graph: golden values, the proof that the model agrees, and the float64 truth.

In: a graph with its weights and inputs, and what the model itself returned. Out: the golden value of every trace key,
and how far each is from the truth.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from torchport.capture import hooks
from torchport.capture.exported import Exported
from torchport.capture.graph import Graph
from torchport.capture.interpret import Interpreter, Watch
from torchport.capture.plan import Plan
from torchport.capture.torch_internals import storage_id
from torchport.errors import CaptureError
from torchport.trace.plan import operation_key
from torchport.trace.residual import residual


def with_values(
    exported: Exported,
    plan: Plan,
    inputs: list[torch.Tensor],
    eager: list[torch.Tensor],
    *,
    ops: bool = False,
    truth: bool = True,
    observed: Mapping[str, list[torch.Tensor]] | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The golden value of every key of the plan, and how far it is from the truth."""
    graph = exported.graph
    golden: dict[str, torch.Tensor] = {}
    distances: dict[str, torch.Tensor] = {}
    unknown = _unknown_keys(graph, plan)
    of_the_model = {storage_id(weight) for weight in exported.weights.values()}

    def keep(key: str, value: torch.Tensor) -> torch.Tensor:
        """Notes the golden value, in memory of its own: the model may be trained on afterwards."""
        if key not in plan.aliases:
            golden[key] = value.clone() if storage_id(value) in of_the_model else value
        return value

    def put_back(key: str, value: torch.Tensor) -> torch.Tensor:
        """Notes how far the golden value is from the same step computed in float64 from golden inputs."""
        known = golden[plan.resolve(key)]
        distance = None if key in plan.aliases or key in unknown else residual(known, value)
        if distance is not None:
            distances[key] = distance
        return known

    def run(watch: Watch, wide: bool) -> list[torch.Tensor]:
        machine = Interpreter(
            graph, exported.weights, plan, watch, truth=wide, nodes=ops, observed=observed or {}
        )
        return machine.run(inputs)

    _must_agree(graph, run(keep, False), eager)
    if truth:
        run(put_back, True)
        _as_their_nodes(graph, plan, distances)
    return golden, distances


def _as_their_nodes(graph: Graph, plan: Plan, distances: dict[str, torch.Tensor]) -> None:
    """Gives an output the distance of the operation that computed it, whose golden value was put back before."""
    for call in plan.calls.values():
        for key, ref in zip(call.outputs, graph.modules[call.module].outputs, strict=True):
            node = operation_key(call.name, ref.name)
            if key in distances and node in distances:
                distances[key] = distances[node]


def _unknown_keys(graph: Graph, plan: Plan) -> set[str]:
    """The keys of values that unknown operations returned, which cannot be computed again in float64."""
    guessed = {call.name for call in plan.calls.values() if hooks.is_unknown(graph.modules[call.module])}
    keys = {key for name in guessed for key in plan.calls[name].outputs}
    return keys | {key for call in plan.calls.values() if call.parent in guessed for key in call.inputs}


def _must_agree(graph: Graph, captured: list[torch.Tensor], eager: list[torch.Tensor]) -> None:
    """CaptureError unless the captured graph computes what the model computed."""
    if len(captured) != len(eager):
        raise CaptureError(
            "TP0203", f"the captured graph gives {len(captured)} tensors, the model {len(eager)}"
        )
    for index, (ours, theirs) in enumerate(zip(captured, eager, strict=True)):
        try:
            torch.testing.assert_close(ours, theirs, equal_nan=True)
        except AssertionError as error:
            raise CaptureError(
                "TP0203",
                f"the captured graph does not reproduce output {graph.output_names[index]}: "
                f"{' '.join(str(error).split())}",
                fix="the model may branch on values or be random in eval mode; make it deterministic",
            ) from error
