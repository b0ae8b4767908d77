"""The values of a captured graph: golden values, the proof that the model agrees, and the float64 truth.

In: a graph with its weights and inputs, and what the model itself returned. Out: the golden value of every trace key,
and how far each is from the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from torchport.capture import hooks
from torchport.capture.drawn import SEED, drawn_values
from torchport.capture.exported import Exported
from torchport.capture.graph import Graph, body_keys
from torchport.capture.interpret import Interpreter, Watch
from torchport.capture.plan import Plan
from torchport.capture.torch_internals import storage_id
from torchport.errors import CaptureError
from torchport.trace.plan import operation_key
from torchport.trace.residual import residual


@dataclass(frozen=True)
class Values:
    """What a graph computes, by trace key, and how far that is from the truth."""

    golden: dict[str, torch.Tensor]
    truth: dict[str, torch.Tensor]
    idle: tuple[str, ...] = ()
    """The bodies of control flow that did not run."""


def with_values(
    exported: Exported,
    plan: Plan,
    inputs: list[torch.Tensor],
    eager: list[torch.Tensor],
    *,
    ops: bool = False,
    truth: bool = True,
    observed: Mapping[str, list[torch.Tensor]] | None = None,
) -> Values:
    """The golden value of every key of the plan, and how far it is from the truth."""
    graph = exported.graph
    golden: dict[str, torch.Tensor] = {}
    distances: dict[str, torch.Tensor] = {}
    drawn = drawn_values(graph, plan)
    unknown = _unknown_keys(graph, plan) | drawn.values
    of_the_model = {storage_id(weight) for weight in exported.weights.values()}

    def keep(key: str, value: torch.Tensor) -> torch.Tensor:
        """Notes the golden value, in memory of its own: the model may be trained on afterwards."""
        if key not in plan.aliases:
            golden[key] = value.clone() if storage_id(value) in of_the_model else value
        return value

    def put_back(key: str, value: torch.Tensor) -> torch.Tensor:
        """Notes how far the golden value is from the same step computed in float64 from golden inputs."""
        known = golden[plan.resolve(key)]
        # In float64 other elements may be chosen, so that there are more or fewer.
        apart = key in plan.aliases or key in unknown or known.shape != value.shape
        distance = None if apart else residual(known, value)
        if distance is not None:
            distances[key] = distance
        return known

    def machine(watch: Watch, wide: bool) -> Interpreter:
        return Interpreter(
            graph, exported.weights, plan, watch, truth=wide, nodes=ops, observed=observed or {}
        )

    plain = machine(keep, False)
    if drawn.values:
        torch.manual_seed(SEED)
    try:
        outputs = plain.run(inputs)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:  # what operations of torch raise
        raise CaptureError(
            "TP0203",
            f"the captured graph cannot be run on these inputs, on which the model runs: {error}",
            fix="give inputs of sizes that are more like those that the model was captured with",
        ) from error
    must_agree(graph, outputs, eager)
    if truth:
        machine(put_back, True).run(inputs)
        _as_their_nodes(graph, plan, distances)
    return Values(golden, distances, _idle(graph, plain.bodies_run))


def _idle(graph: Graph, ran: set[str]) -> tuple[str, ...]:
    """The bodies that did not run, without those that are inside another such body."""
    idle = sorted(body_keys(graph.modules) - ran)
    return tuple(key for key in idle if not any(key.startswith(f"{other}.") for other in idle))


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


def must_agree(graph: Graph, captured: list[torch.Tensor], eager: list[torch.Tensor]) -> None:
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
