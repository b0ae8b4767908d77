"""A graph is validated layer by layer: what is right passes, and what is wrong is named."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from torchport import marble
from torchport.errors import ConvertError, TorchportError, UsageError
from torchport.targets.marble.composer import Composer, Value
from torchport.targets.marble.registries import LAYERS
from torchport.targets.marble.tolerances import DEFAULTS, checked_tolerance, default_tolerance
from torchport.targets.marble.ways import By


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu())


class Untraceable(nn.Module):
    """Code that neither torch.export nor torch.fx can follow, around a plain chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) < -1e30:
            return x
        return self.two(self.one(x))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def inputs() -> Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def core(net: Net, inputs: Tensor) -> marble.Core:
    return marble.convert_model(net, inputs)


@pytest.mark.parametrize("by", ["groups", "messages"])
@pytest.mark.parametrize("tolerance", [None, 1e-5])
def test_a_converted_model_passes(
    core: marble.Core, net: Net, inputs: Tensor, by: By, tolerance: float | None
) -> None:
    found = marble.validate(core, net, inputs, by=by, tolerance=tolerance)
    assert found.passed and not found.differing and not found.uncompared
    assert [layer.name for layer in found.layers] == ["first", "norm", "last", "Net"]
    assert found.compared >= 4
    assert found.tolerance == tolerance


def test_the_layer_with_a_wrong_weight_is_named(core: marble.Core, net: Net, inputs: Tensor) -> None:
    target = core.neurons.of_layer("last")[0][0]
    synapses = core.synapses.of(target)
    core.set_weights([one.id for one in synapses], [one.weight * 1.01 for one in synapses])
    for tolerance in (None, 1e-5):
        found = marble.validate(core, net, inputs, tolerance=tolerance)
        assert not found.passed
        assert found.differing[0] == "last"
        assert {layer.name for layer in found.layers if not layer.passed} == {"last"}
    assert marble.validate(core, net, inputs, tolerance=0.1).passed


def test_a_nan_never_passes(core: marble.Core, net: Net, inputs: Tensor) -> None:
    weight = core.version.arrays["last.weight"].clone()
    weight[0, 0] = math.nan
    broken = marble.Core(core.graph, {**core.version.arrays, "last.weight": weight})
    for tolerance in (None, 1e9):
        found = marble.validate(broken, net, inputs, tolerance=tolerance)
        assert not found.passed and "last" in found.differing
        assert found.output_error == math.inf


def test_a_nan_that_the_model_has_too_proves_nothing_by_a_tolerance(net: Net) -> None:
    with torch.no_grad():
        model = nn.Linear(4, 4)
        model.weight[0, 0] = math.nan
    x = torch.randn(2, 4)
    assert not marble.validate(marble.convert_model(model, x), model, x, tolerance=1.0).passed


def test_other_inputs_than_those_of_the_conversion_are_refused(core: marble.Core, net: Net) -> None:
    with pytest.raises(TorchportError) as raised:
        marble.validate(core, net, torch.randn(6, 8))
    assert "[5, 8]" in raised.value.message and "[6, 8]" in raised.value.message


def test_no_inputs_are_refused(core: marble.Core, net: Net) -> None:
    with pytest.raises(ConvertError) as raised:
        marble.validate(core, net, None)
    assert raised.value.code == "TP0404"


def test_a_model_that_only_its_module_tree_gives_is_compared_layer_by_layer() -> None:
    model, x = Untraceable().eval(), torch.randn(3, 4)
    core = marble.convert_model(model, x)
    found = marble.validate(core, model, x)
    assert found.passed
    assert {layer.name for layer in found.layers} >= {"one", "two", "Untraceable"}


@pytest.fixture
def doubling() -> Iterator[type[nn.Module]]:
    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * 2 / self.inner(x)

    def convert(composer: Composer, module: nn.Module, value: Value) -> Value:
        return composer.weighted((value, 0.0), bias=2.0)

    marble.register_layer(Doubling)(convert)
    yield Doubling
    del LAYERS[Doubling]


def test_layers_without_a_border_are_listed_as_not_compared(doubling: type[nn.Module]) -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), doubling(), nn.Linear(4, 4)).eval(), torch.randn(2, 4)
    found = marble.validate(marble.convert_model(model, x), model, x)
    assert found.passed
    assert found.uncompared == ("1.inner", "1.inner#1", "1")


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, -math.inf, "1e-3", None, True])
def test_a_bad_tolerance_is_refused(bad: object) -> None:
    with pytest.raises(UsageError) as raised:
        checked_tolerance(bad)
    assert raised.value.code == "TP0801"


def test_cpu_and_gpu_have_defaults_of_their_own() -> None:
    assert default_tolerance("cpu") == DEFAULTS["cpu"] != DEFAULTS["gpu"] == default_tolerance("cuda")
    assert default_tolerance("cpu", "float64") == pytest.approx(DEFAULTS["cpu"] * 2**-29)
    assert default_tolerance("cuda", "bfloat16") == math.sqrt(2**-8)
