"""Every layer of torch.nn has an example, and its state is found out by converting that."""

from collections.abc import Iterator

import pytest
from torch import nn

from torchport import marble
from torchport.targets.marble.layer_examples import EXAMPLES, HOLDERS
from torchport.targets.marble.layer_states import layer_states, public_layers
from torchport.targets.marble.registries import LAYERS

PROMISED = """
Linear Conv1d Conv2d BatchNorm1d BatchNorm2d Dropout Flatten Unflatten MaxPool1d MaxPool2d AvgPool1d AvgPool2d
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d Sequential Embedding EmbeddingBag RNN LSTM GRU
LayerNorm GroupNorm MultiheadAttention TransformerEncoderLayer TransformerDecoderLayer ReLU GELU Sigmoid Tanh SiLU ELU
LeakyReLU Softmax
"""


def test_every_layer_of_torch_has_an_example() -> None:
    assert set(public_layers()) == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(HOLDERS))
def test_what_is_no_layer_has_no_forward(name: str) -> None:
    assert getattr(nn, name).forward is nn.Module.forward


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_example_is_of_the_layer_whose_name_it_has() -> None:
    for name, example in EXAMPLES.items():
        if not name.startswith("Lazy"):  # These become what they are lazy of.
            assert type(example()[0]) is getattr(nn, name)


@pytest.fixture
def own_relu() -> Iterator[None]:
    marble.register_layer(nn.ReLU)(
        lambda composer, module, value: composer.function("aten.relu.default", value)
    )
    marble.unsupported_layer(nn.Tanh)
    yield
    del LAYERS[nn.ReLU], LAYERS[nn.Tanh]


@pytest.mark.usefixtures("own_relu")
def test_registered_layers_and_stubs_show() -> None:
    relu, tanh = layer_states(["ReLU", "Tanh"])
    assert relu.state == "registered"
    assert tanh.state == "not supported"
    assert "Tanh is not supported for conversion" in (tanh.reason or "")


def test_layers_of_a_users_own_are_listed_by_their_full_names() -> None:
    class Linear(nn.Module):
        """Not that of torch."""

    marble.register_layer(Linear)(lambda composer, module, value: value)
    try:
        name = f"{Linear.__module__}.{Linear.__qualname__}"
        own, of_torch = layer_states([name, "Linear"])
        assert (own.state, of_torch.state) == ("registered", "converts")
    finally:
        del LAYERS[Linear]


@pytest.mark.zoo
def test_the_layers_that_are_promised_convert() -> None:
    states = {one.name: one for one in layer_states(PROMISED.split())}
    assert {name: one.reason for name, one in states.items() if one.state != "converts"} == {}
