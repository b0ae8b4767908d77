"""Uses of neuron graphs that once gave wrong numbers or lost changes without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchport.errors import ConvertError, NeuronError
from torchport.marble import Core, GraphBuilder, convert_model, load, register_layer, save

X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))


def test_a_parameter_times_a_number() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(torch.randn(3))
            self.register_buffer("k", torch.tensor([1, 2, 3]))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * (self.p * 2) + x * (3 * self.k), self.k * 3

    model = Scaled().eval()
    torch.testing.assert_close(convert_model(model, X).run(X), [one.detach() for one in model(X)])


def test_synapses_from_the_second_result_of_a_selection() -> None:
    class Best(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(2, 3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            values, places = torch.topk(x, 3)
            return functional.linear(values, self.w), places

    x = torch.randn(1, 6)
    core = convert_model(Best().eval(), x)
    sums = next(group for group in core.groups() if group.work == "dense").ids
    core.set_weights([core.synapses.of(sums[0])[0].id], [0.25])
    before = core.run(x)[0]
    core.add_synapses(10, sums[0], 100.0)
    expected = before.clone()
    expected[0, 0] += 100 * torch.topk(x, 3).indices[0, 1]
    torch.testing.assert_close(core.run(x)[0], expected)
    assert core.synapses.of(sums[0])[-1].source == 10


def test_a_split_neuron_keeps_every_function_after_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Softplus(), nn.Linear(4, 2)).eval()
    x = torch.randn(1, 3) * 5
    core = convert_model(model, x)
    for neuron in core.groups()[1].ids:
        core.split_neuron(neuron)
        torch.testing.assert_close(core.run(x)[0], model(x).detach())


def remembering() -> tuple[Core, range]:
    builder = GraphBuilder()
    x = builder.input(1)
    total = builder.add_neuron_group(1, name="total", bias=[3.0])
    builder.add_synapses(x, total, 1.0)
    kept = builder.add_memory(total, name="kept")
    out = builder.add_neuron_group(1, name="out")
    builder.add_synapses(kept, out, 1.0)
    return builder.build(out), total.gives


def test_what_a_memory_keeps_is_not_removed() -> None:
    core, total = remembering()
    with pytest.raises(NeuronError, match="a memory keeps"):
        core.remove_neurons(list(total))


def test_the_input_of_a_step_is_not_remembered_by_reference() -> None:
    builder = GraphBuilder()
    x = builder.input(2)
    last = builder.add_memory(x)
    out = builder.add_neuron_group(2)
    builder.add_synapses(last, out, 1.0)
    core, given = builder.build(out), torch.tensor([1.0, 2.0])
    core.step(given)
    given.fill_(99)
    assert core.step(given)[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("dtype", "weight"), [("float64", 1 / 7), ("float32", 0.1)])
def test_weights_keep_the_digits_of_their_group(dtype: str, weight: float) -> None:
    builder = GraphBuilder()
    x, y = builder.input(1, dtype=dtype), builder.add_neuron_group(1, dtype=dtype)
    builder.add_synapses(x, y, weight)
    core = builder.build(y)
    found = core.run(torch.ones(1, dtype=getattr(torch, dtype)))[0]
    assert (
        found.dtype == getattr(torch, dtype)
        and found.item() == torch.tensor(weight, dtype=found.dtype).item()
    )


def test_digits_are_not_lost_on_the_way() -> None:
    builder = GraphBuilder()
    x, y = builder.input(1, dtype="float64"), builder.add_neuron_group(1)
    with pytest.raises(NeuronError, match="gives float64"):
        builder.add_synapses(x, y, 1.0)
    half = builder.add_neuron_group(1, dtype="float16")
    other = builder.add_neuron_group(1, dtype="float16")
    with pytest.raises(NeuronError, match="infinite as float16"):
        builder.add_synapses(half, other, 1e6)


def test_a_weight_that_is_an_embedding_too_is_not_pruned() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.h = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.h.weight = self.e.weight

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.h(self.e(x))
            return y

    core = convert_model(Tied().eval(), torch.tensor([1, 2]))
    with pytest.raises(NeuronError, match="is also that of e"):
        core.prune(fraction=0.5, layer="h")


def test_pruning_again_counts_what_is_left() -> None:
    core = convert_model(nn.Linear(10, 10, bias=False).eval(), torch.randn(1, 10))
    assert [core.prune(fraction=0.5) for _ in range(2)] == [50, 25]


def test_a_state_dict_is_never_stale() -> None:
    core = convert_model(nn.Linear(3, 2).eval(), X[:1])
    core.set_weights([(core.groups()[1].first, 0)], [9.0])
    with pytest.raises(NeuronError, match="one by one"):
        core.state_dict()
    core.undo()
    assert set(core.state_dict()) == {"weight", "bias"}


def test_names_with_colons_stay() -> None:
    model = nn.Sequential()
    model.add_module("a:b", nn.Linear(3, 3))
    core = convert_model(model.eval(), X)
    core.prune(fraction=0.1)
    assert set(core.state_dict()) == {"a:b.weight", "a:b.bias"}


def test_ids_may_be_arrays_and_are_kept_as_numbers(tmp_path: Path) -> None:
    core = convert_model(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval(), X[:1])
    first = core.groups()[1].first
    for ids in (torch.tensor([first]), np.array([first + 1])):
        core.remove_neurons(ids, cascade=True)
    assert len(list(core.neurons)) == len(core.neurons) == 3 + 4 + 4 + 2 - 4
    save(core, tmp_path / "n.marble")
    assert len(load(tmp_path / "n.marble").neurons) == len(core.neurons)
    for wrong in ([float(first + 2)], None, ["3"]):
        with pytest.raises(NeuronError):
            core.remove_neurons(wrong)  # type: ignore[arg-type]


def test_what_was_before_a_journal_cannot_be_undone(tmp_path: Path) -> None:
    core = convert_model(nn.Linear(3, 4).eval(), X[:1])
    core.prune(fraction=0.5)
    save(core, tmp_path / "n.marble", journal=True)
    with pytest.raises(NeuronError, match="no change to undo"):
        core.undo()
    assert len(load(tmp_path / "n.marble").synapses) == len(core.synapses)


def test_a_journal_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = convert_model(nn.Linear(3, 4).eval(), X[:1])
    monkeypatch.chdir(tmp_path)
    save(core, "n.marble", journal=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    core.prune(fraction=0.5)
    assert len(load(tmp_path / "n.marble").synapses) == len(core.synapses)
    save(core, tmp_path / "n.marble")
    core.prune(fraction=0.5)
    assert len(load(tmp_path / "n.marble").synapses) == len(core.synapses)
    (tmp_path / "link.marble").symlink_to(tmp_path / "n.marble")
    assert len(load(tmp_path / "link.marble").synapses) == len(core.synapses)


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    core = convert_model(nn.Linear(3, 4).eval(), X[:1])
    save(core, tmp_path / "n.marble", journal=True)
    other = load(tmp_path / "n.marble", journal=True)
    core.add_neuron_group(1, name="a")
    with pytest.raises(NeuronError, match="somebody else"):
        other.add_neuron_group(1, name="b")
    save(load(tmp_path / "n.marble"), tmp_path / "n.marble")
    with pytest.raises(NeuronError, match=r"could not be written|somebody else"):
        core.add_neuron_group(1, name="c")
    assert [group.name for group in load(tmp_path / "n.marble").groups()][-1] == "a"


def test_a_converter_that_gives_nothing_is_named() -> None:
    class Forgot(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    register_layer(Forgot)(lambda composer, module, value: None)
    with pytest.raises(ConvertError, match="the converter of Forgot gave NoneType"):
        convert_model(nn.Sequential(nn.Linear(3, 3), Forgot()).eval(), X)


def test_equal_weights_are_pruned_up_to_the_share() -> None:
    builder = GraphBuilder()
    core = builder.build(builder.linear_layer(builder.input(4), torch.ones(4, 4)))
    assert [core.prune(fraction=0.25), core.prune(below=1.0), core.prune(below=1.5)] == [4, 0, 12]


def test_what_no_run_computes_is_said() -> None:
    core, _ = remembering()
    kept = next(group for group in core.groups() if group.name == "kept")
    with pytest.raises(NeuronError, match="nothing is known"):
        core.received(kept.first, torch.ones(1))


def test_the_number_of_a_synapse_is_given_once(tmp_path: Path) -> None:
    core = convert_model(nn.Linear(2, 1).eval(), torch.randn(1, 2))
    target = core.groups()[1].first
    core.remove_synapses([(target, 1)])
    core.add_synapses(0, target, 5.0)
    assert [one.number for one in core.synapses.of(target)] == [0, 2]
    core.remove_synapses([(target, 2)])
    save(core, tmp_path / "n.marble")
    other = load(tmp_path / "n.marble")
    other.add_synapses(1, target, 5.0)
    assert [one.number for one in other.synapses.of(target)] == [0, 3]
