"""A graph that was spelled out comes back as one that computes the same, or is refused by name."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from torchport.errors import GraphFileError
from torchport.marble import convert_model, load, save
from torchport.targets.marble.exchange import as_json
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses
from torchport.targets.marble.files.exported import plain_of
from torchport.targets.marble.files.imported import core_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::torchport.targets.marble.exchange.limits.OutputsDifferWarning"
)
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


class Skipping(nn.Module):
    """A value is read twice, and the output is in another order than the neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.first(x))
        return (self.second(hidden) - 0.5 * hidden + x).flip(-1).T


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 3), nn.Softplus(2.0)),
    "gelu": lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.GELU(approximate="tanh")),
    "skipping": Skipping,
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(-1, (1, 2, 2)),
        nn.Conv2d(1, 3, 2, padding=1),
        nn.Hardtanh(),
        nn.Flatten(),
        nn.Linear(27, 2),
    ),
    "double": lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double(),
}


@pytest.mark.parametrize("file", ["graph.json", "graph.marble"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_and_computes_the_same(name: str, file: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    x = X.double() if name == "double" else X
    core = convert_model(model, x)
    save(core, tmp_path / file, legacy=file == "graph.marble")
    loaded = load(tmp_path / file)
    expected = model(x).detach()
    eps = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(loaded.run(x)[0], expected, rtol=16 * eps, atol=16 * eps)
    ours, theirs = plain_of(core), plain_of(loaded)
    assert all(
        np.array_equal(*pair) for pair in zip(synapses_of(ours), synapses_of(theirs, like=ours), strict=True)
    )
    assert np.array_equal(ours.neurons.bias, theirs.neurons.bias[: len(ours.neurons)])


def synapses_of(plain: Plain, like: Plain | None = None) -> list[np.ndarray[Any, Any]]:
    """The columns, sorted by target and source, without neurons that were only added to gather outputs."""
    chosen = plain.synapses.target < len((like or plain).neurons)
    source, target = plain.synapses.source[chosen], plain.synapses.target[chosen]
    order = np.lexsort((source, target))
    return [source[order], target[order], plain.synapses.weight[chosen][order]]


def test_a_plain_mlp_is_the_same_graph_again() -> None:
    torch.manual_seed(0)
    plain = plain_of(convert_model(MODELS["mlp"]().eval(), X))
    assert plain_of(core_of(plain)).equals(plain)


def tiny(**changed: Any) -> Plain:
    columns: dict[str, Any] = {
        "value": np.zeros(4),
        "neuron_type": ["input", "input", "standard", "standard"],
        "activation": ["", "", "relu", ""],
        "bias": [0.0, 0.0, 0.5, 0.0],
    }
    synapses = Synapses.of(
        [0, 1, 2], [2, 2, 3], [1.0, -2.0, 3.0], synapse_type=changed.pop("synapse_type", "standard")
    )
    synapses = changed.pop("synapses", synapses)
    metadata = changed.pop("metadata", {})
    return Plain(Neurons.of(**{**columns, **changed}), synapses, metadata)


def test_without_metadata_inputs_and_outputs_are_found_by_the_synapses() -> None:
    for types in (["input", "input", "standard", "standard"], "standard"):
        core = core_of(tiny(neuron_type=types))
        assert core.run(torch.tensor([4.0, 1.0]))[0].tolist() == [3 * 2.5]
        assert core.run(torch.tensor([1.0, 4.0]))[0].tolist() == [0.0]


def test_a_type_of_marble_is_an_activation() -> None:
    core = core_of(tiny(neuron_type=["input", "input", "linear", "tanh"]))
    torch.testing.assert_close(core.run(torch.tensor([1.0, 0.5]))[0], torch.tensor([1.5]).tanh())


def test_a_constant_gives_its_value() -> None:
    core = core_of(
        tiny(value=[0.0, 7.0, 0.0, 0.0], neuron_type=["input", "constant", "standard", "standard"])
    )
    assert core.run(torch.tensor([20.0]))[0].tolist() == [3 * (20 - 14 + 0.5)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"neuron_type": ["input", "input", "product", "standard"]}, "neuron 2 of the type 'product'"),
        ({"neuron_type": ["input", "input", "selection", "standard"]}, "neuron 2 of the type 'selection'"),
        ({"neuron_type": ["input", "input", "standard", "memory"]}, "neuron 3 of the type 'memory'"),
        ({"neuron_type": ["input", "input", "input", "standard"]}, "neuron 2 of the type 'input'"),
        ({"neuron_type": ["input", "input", "function", "standard"]}, "neuron 2 .* number of synapses"),
        ({"neuron_type": ["input", "input", "standard", "function"]}, "neuron 3 .* does not say which"),
        (
            {"activation": ["", "", "wobble", ""]},
            "neuron 2 of the type 'standard' has the activation 'wobble'",
        ),
        ({"activation": ["", "", "threshold", ""]}, "neuron 2 has the activation 'threshold'"),
        ({"bias": [0.0, 0.0, np.nan, 0.0]}, "neuron 2 .* no finite number"),
        (
            {"synapses": Synapses.of([0, 3, 2], [2, 2, 3], 1.0)},
            r"neuron [23] of the type 'standard' .* cycle",
        ),
        ({"synapses": Synapses.of([0, 3], [3, 3], 1.0)}, "neuron 3 of the type 'standard' .* cycle"),
        ({"synapses": Synapses.of([0, 1, 2], [2, 2, 3], np.inf)}, "no finite number"),
        ({"synapse_type": ["standard", "mirror", "standard"]}, "type 'mirror'"),
        ({"metadata": {"padding": {"synapses": 3, "is_zero": False}}}, "padding with another value"),
        ({"metadata": {"dtypes": ["bool", "float32"]}}, "one dtype"),
    ],
)
def test_what_is_no_weighted_sum_is_refused_by_name(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(GraphFileError, match=reason) as caught:
        core_of(tiny(**changed))
    assert caught.value.code == "TP0368"


RELU = {"work": "aten.relu.default", "options": {}}
ROWS = {"shape": [2], "rows": [[0, 2]], "name": "x"}


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"inputs": 3}, "TP0362"),
        ({"inputs": [{**ROWS, "rows": [[0, 1]]}]}, "TP0362"),
        ({"inputs": [{**ROWS, "rows": [[2, 2]]}]}, "TP0362"),
        ({"inputs": [{**ROWS, "name": None}]}, "TP0362"),
        ({"inputs": [{**ROWS, "name": "a!b"}]}, "TP0368"),
        ({"inputs": [{**ROWS, "shape": [-1, -2]}]}, "TP0362"),
        ({"outputs": [{**ROWS, "rows": [[3, 2]]}]}, "TP0362"),
        ({"outputs": [{**ROWS, "rows": [[-1, 2]]}]}, "TP0362"),
        ({"outputs": [{"shape": [40_000_000], "rows": [[0, 4]] * 10_000_000}]}, "TP0366"),
        ({"outputs": []}, "TP0368"),
        ({"activations": {"relu": {**RELU, "work": "aten.add.Tensor"}}}, "TP0362"),
        ({"activations": {"relu": {**RELU, "work": "os.system"}}}, "TP0362"),
        ({"activations": {"relu": {**RELU, "options": {"no": 1}}}}, "TP0368"),
        ({"activations": {"relu": {"work": "activation:relu", "options": {"inplace": True}}}}, "TP0368"),
        ({"activations": {"relu": {**RELU, "argument": "other"}}}, "TP0368"),
    ],
)
def test_metadata_that_cannot_be_right_is_refused(metadata: dict[str, Any], code: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        core_of(tiny(metadata=metadata))
    assert caught.value.code == code


def test_models_with_more_than_sums_are_refused(tmp_path: Path) -> None:
    save(convert_model(nn.Softmax(-1), X), tmp_path / "graph.json")
    with pytest.raises(GraphFileError, match="type 'reduction'"):
        load(tmp_path / "graph.json")


def test_the_content_says_what_a_file_is(tmp_path: Path) -> None:
    torch.manual_seed(0)
    core = convert_model(MODELS["mlp"]().eval(), X)
    for number, (name, legacy) in enumerate([("a.json", False), ("b.marble", True), ("c.marble", False)]):
        save(core, tmp_path / name, legacy=legacy)
        other = (tmp_path / name).rename(
            tmp_path / f"{number}.json" if name != "a.json" else tmp_path / "0.marble"
        )
        torch.testing.assert_close(load(other).run(X)[0], core.run(X)[0])


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x04", b"\x80\x04cos\nsystem\n.", b"{", b"\xff" * 64]
)
@pytest.mark.parametrize("name", ["graph.marble", "graph.json"])
def test_what_is_no_graph_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphFileError) as caught:
        load(tmp_path / name)
    assert caught.value.code in ("TP0361", "TP0365")


def test_only_native_files_have_a_journal(tmp_path: Path) -> None:
    as_json.write(tmp_path / "graph.json", tiny())
    with pytest.raises(GraphFileError, match="journal") as caught:
        load(tmp_path / "graph.json", journal=True)
    assert caught.value.code == "TP0369"


def test_a_hundred_thousand_synapses_are_imported_in_seconds() -> None:
    rng = np.random.default_rng(0)
    sources, targets = np.tile(np.arange(400), 250), np.repeat(np.arange(400, 650), 400)
    synapses = Synapses.of(sources, targets, rng.standard_normal(100_000))
    began = time.perf_counter()
    core = core_of(Plain(Neurons.of(np.zeros(650)), synapses))
    assert time.perf_counter() - began < 5
    x = torch.ones(400)
    weights = torch.from_numpy(synapses.weight).reshape(250, 400)
    torch.testing.assert_close(core.run(x)[0], weights.sum(1).float())
