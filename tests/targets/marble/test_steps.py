"""A graph goes on from step to step, by groups and by messages, and nobody else writes to what its memories hold."""

from __future__ import annotations

import threading

import pytest
import torch

from torchport.errors import NeuronError
from torchport.marble import Core, GraphBuilder
from torchport.targets.marble.running import steps_of
from torchport.targets.marble.ways import WAYS, By

ONE = torch.ones(1)


@pytest.fixture
def core() -> Core:
    """A neuron that adds its input and half of what it was, so that it is 1, 1.5, 1.75 … for an input of 1."""
    builder = GraphBuilder()
    total = builder.add_neuron_group(1)
    builder.add_synapses(builder.input(1), total, 1.0)
    builder.add_synapses(builder.add_memory(total), total, 0.5)
    return builder.build(total)


@pytest.mark.parametrize("by", WAYS)
def test_steps_go_on_from_what_the_core_holds(core: Core, by: By) -> None:
    assert core.step(ONE, by=by)[0].item() == 1.0
    assert steps_of(core, [ONE], 2, by=by)[0].item() == 1.75
    assert core.step(ONE)[0].item() == 1.875


@pytest.mark.parametrize("by", WAYS)
def test_what_a_user_writes_to_an_output_is_not_remembered(core: Core, by: By) -> None:
    steps_of(core, [ONE], 1, by=by)[0].fill_(99)
    assert steps_of(core, [ONE], 1, by=by)[0].item() == 1.5


def test_a_way_that_there_is_not_is_refused(core: Core) -> None:
    with pytest.raises(NeuronError, match="not by 'magic'"):
        core.step(ONE, by="magic")  # type: ignore[arg-type]
    assert core.step(ONE)[0].item() == 1.0


@pytest.mark.parametrize("act", ["reset", "steps"])
def test_memories_change_only_while_nobody_else_changes_the_graph(core: Core, act: str) -> None:
    core.step(ONE)
    acts = {"reset": core.reset, "steps": lambda: steps_of(core, [ONE], 1)}
    with core.unchanged():
        held = dict(core.state)
        other = threading.Thread(target=acts[act])
        other.start()
        other.join(0.2)
        assert other.is_alive() and core.state == held
    other.join(10)
    assert not other.is_alive() and core.state != held
