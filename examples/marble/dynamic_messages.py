"""Messages that flow through a graph while its edges come and go.

    python examples/marble/dynamic_messages.py

A signal enters a chain of three neurons that remember. In each step, every neuron passes on what it held in the step
before. Edges are added and removed between the steps, and the messages take the ways that are there at that moment.
"""

from __future__ import annotations

import torch

from torchport import marble


def chain() -> tuple[marble.Core, dict[str, marble.NeuronGroup], dict[str, marble.NeuronGroup]]:
    """An input, three neurons, and a memory of each; the last neuron is the output."""
    builder = marble.GraphBuilder("chain")
    signal = builder.input(1, name="signal")
    neurons = {name: builder.add_neuron_group(1, name=name) for name in ("a", "b", "c")}
    memories = {name: builder.add_memory(group, name=f"{name} before") for name, group in neurons.items()}
    builder.add_synapses(signal, neurons["a"], 1.0)
    builder.add_synapses(memories["a"], neurons["b"], 0.5)
    return builder.build(*neurons.values()), neurons, memories


def step(core: marble.Core, signal: float, note: str) -> list[float]:
    """One step: every message that flows is shown, and what the neurons hold then."""
    values = [float(value) for value in core.step(torch.tensor([signal]))]
    print(f"{note:<42} a = {values[0]:5.2f}   b = {values[1]:5.2f}   c = {values[2]:5.2f}")
    return values


def main() -> None:
    core, neurons, memories = chain()
    step(core, 1.0, "a hears the signal")
    held = step(core, 0.0, "b hears what a held")
    assert held == [0.0, 0.5, 0.0]

    core.add_synapses(memories["b"], neurons["c"], 2.0)
    held = step(core, 0.0, "an edge from b to c: c hears b")
    assert held == [0.0, 0.0, 1.0]

    core.add_synapses(memories["c"], neurons["a"], 0.9)
    for round_ in range(3):
        step(core, 0.0, f"an edge from c to a closes a ring ({round_ + 1})")
    held = step(core, 0.0, "the signal comes round again, weaker")

    (edge,) = core.synapses.of(neurons["b"].takes.start)
    core.remove_synapses([edge.id])
    held = [step(core, 1.0, "without the edge from a to b") for _ in range(4)][-1]
    assert held[1] == 0.0, "nothing reaches b any more"

    core.undo()
    step(core, 1.0, "the removal is undone")
    held = step(core, 1.0, "b hears a again")
    assert held[1] != 0.0
    print(f"{core.version.number} changes, {len(core.neurons)} neurons, {len(core.synapses)} synapses")


if __name__ == "__main__":
    main()
