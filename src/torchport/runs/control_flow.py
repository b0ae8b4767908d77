"""The control flow of a model as a report shows it: each branch, loop, scan or map with the bodies that it runs.

In: a graph, and which bodies did not run on the recorded inputs. Out: a summary for each layer that is control flow.
"""

from __future__ import annotations

from collections.abc import Collection

from pydantic import BaseModel, ConfigDict

from torchport.capture.graph import Graph, reached


class BodySummary(BaseModel):
    """A graph that control flow runs."""

    model_config = ConfigDict(frozen=True)

    operations: tuple[str, ...]
    """In their order; control flow inside is one operation, and its bodies have summaries of their own."""
    ran: bool
    """Whether it ran on the recorded inputs. If not, nothing is proven of it."""

    @property
    def text(self) -> str:
        count = len(self.operations)
        size = "1 operation" if count == 1 else f"{count} operations"
        return f"({size})" if self.ran else f"({size}, did not run)"


class ControlFlowSummary(BaseModel):
    """A layer that runs graphs of its own."""

    model_config = ConfigDict(frozen=True)

    layer: str
    type: str
    source: str | None = None
    bodies: dict[str, BodySummary]
    """By their paths within the layer: `body`, and `body.cond.true` for a branch inside a loop."""

    @property
    def text(self) -> str:
        """The bodies in one line."""
        return ", ".join(f"{name} {body.text}" for name, body in self.bodies.items())


def control_flow_of(graph: Graph, idle: Collection[str]) -> tuple[ControlFlowSummary, ...]:
    """A summary for each layer of a graph that is control flow. `idle` are the bodies that did not run."""
    found: dict[str, ControlFlowSummary] = {}
    for key in dict.fromkeys(reached(graph.modules, "")):
        module = graph.modules[key]
        if any(key.startswith(f"{outer}.") for outer in found):
            continue
        for node in module.nodes:
            if node.bodies:
                found[key] = ControlFlowSummary(
                    layer=module.path, type=module.type, source=node.source, bodies=_bodies(graph, key, idle)
                )
    return tuple(found.values())


def _bodies(graph: Graph, layer: str, idle: Collection[str]) -> dict[str, BodySummary]:
    inside = [key for key in reached(graph.modules, layer) if key != layer]
    return {
        key.removeprefix(f"{layer}."): BodySummary(
            operations=tuple(node.op for node in graph.modules[key].nodes),
            ran=not any(f"{key}.".startswith(f"{one}.") for one in idle),
        )
        for key in inside
    }
