"""Each hypothesis is computed: it is suggested with the share that it explains, and noise is explained by none."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchport.explain.weights import Others, WeightFault, how_it_differs

from .suspects import Wrong, suggestions, suspect_of

pytestmark = pytest.mark.slow


class Row(NamedTuple):
    model: Callable[[], nn.Module]
    args: Callable[[], tuple]
    wrong: Callable[[nn.Module], Wrong]
    kind: str
    text: str


def image(*shape: int) -> Callable[[], tuple]:
    return lambda: (torch.randn(*shape),)


class Op(nn.Module):
    """A module with one function of torch in its forward."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


class Pair(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


class Attention(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        given = {} if self.options.get("is_causal") else {"attn_mask": mask}
        return F.scaled_dot_product_attention(q, k, v, **given, **self.options)  # type: ignore[arg-type]


class Heads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, 4, width // 4).transpose(1, 2) * 2


def qkv() -> tuple:
    return (*(torch.randn(1, 2, 6, 8) for _ in range(3)), torch.rand(6, 6) > 0.3)


def batch_norm() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    for tensor in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
        assert tensor is not None
        tensor.copy_(torch.rand(4) + 0.5)
    return norm


def gates_moved(layer: nn.Module, gates: int) -> Wrong:
    import copy

    other = copy.deepcopy(layer)
    for weight in other.parameters():
        parts = weight.data.chunk(gates)
        weight.data = torch.cat([parts[1], parts[0], *parts[2:]])
    return lambda x: other(x)[0]


def interpolated(**options: object) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x, scale_factor=2, **options)  # type: ignore[arg-type]


ROWS = {
    "eps": Row(
        lambda: nn.LayerNorm(32, eps=1e-12), image(4, 32),
        lambda m: lambda x: F.layer_norm(x, (32,), m.weight, m.bias, 1e-3),
        "eps", "eps is 0.001 where the model has 1e-12",
    ),
    "unusual eps": Row(
        lambda: nn.GroupNorm(2, 8, eps=1e-5), image(2, 8, 4, 4),
        lambda m: lambda x: F.group_norm(x, 2, m.weight, m.bias, 0.0173),
        "eps", "eps is 0.0173 where the model has 1e-05",
    ),
    "weight transposed": Row(
        lambda: nn.Linear(12, 12), image(3, 12), lambda m: lambda x: F.linear(x, m.weight.t(), m.bias),
        "transposed_weight", "weight is transposed (axes 0 and 1)",
    ),
    "kernel transposed": Row(
        lambda: nn.Conv2d(3, 5, 3), image(2, 3, 8, 8),
        lambda m: lambda x: F.conv2d(x, m.weight.transpose(2, 3), m.bias),
        "transposed_weight", "weight is transposed (axes 2 and 3)",
    ),
    "bias dropped": Row(
        lambda: nn.Linear(6, 9), image(4, 6), lambda m: lambda x: F.linear(x, m.weight),
        "bias", "bias is not applied",
    ),
    "gamma dropped": Row(
        batch_norm, image(2, 4, 5, 5),
        lambda m: lambda x: F.batch_norm(x, m.running_mean, m.running_var, None, m.bias),
        "scale", "weight is not applied",
    ),
    "statistics swapped": Row(
        batch_norm, image(2, 4, 5, 5),
        lambda m: lambda x: F.batch_norm(x, m.running_var, m.running_mean, m.weight, m.bias),
        "statistics_swapped", "running_mean and running_var are swapped",
    ),
    "gelu": Row(
        nn.GELU, image(5, 40), lambda m: lambda x: F.gelu(x, approximate="tanh"),
        "gelu_tanh", "approximate is 'tanh' where the model has 'none'",
    ),
    "another activation": Row(
        nn.SiLU, image(5, 40), lambda m: F.mish, "activation", "mish where the model has silu",
    ),
    "softmax axis": Row(
        lambda: nn.Softmax(-1), image(2, 6, 6), lambda m: lambda x: x.softmax(1),
        "axis", "dim is 1 where the model has -1",
    ),
    "permuted otherwise": Row(
        lambda: Op(lambda x: x.permute(0, 2, 1, 3) + 1), image(2, 3, 3, 3),
        lambda m: lambda x: x.permute(0, 3, 1, 2) + 1, "axis", "dims is [0, 3, 1, 2] where the model has [0, 2, 1, 3]",
    ),
    "dilation": Row(
        lambda: nn.Conv2d(3, 4, 3, padding=2, dilation=2), image(1, 3, 9, 9),
        lambda m: lambda x: F.conv2d(x, m.weight, m.bias, padding=2), "dilation", "dilation is [1, 1]",
    ),
    "dilation with the size kept": Row(
        lambda: nn.Conv2d(3, 4, 3, padding=2, dilation=2), image(1, 3, 9, 9),
        lambda m: lambda x: F.conv2d(x, m.weight, m.bias, padding=1),
        "dilation", "dilation is 1 and padding [1, 1], where the model has [2, 2] and [2, 2]",
    ),
    "padding mode of a convolution": Row(
        lambda: nn.Conv2d(3, 4, 3, padding=1), image(1, 3, 9, 9),
        lambda m: lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), m.weight, m.bias),
        "pad_mode", "it is padded by 'replicate' where the model pads with zeros",
    ),
    "padding to one side": Row(
        lambda: nn.Conv1d(3, 4, 3, padding=1), image(1, 3, 9),
        lambda m: lambda x: F.conv1d(F.pad(x, (2, 0)), m.weight, m.bias), "pad", "all of the padding is in front",
    ),
    "stride": Row(
        lambda: nn.Conv1d(3, 4, 3, stride=2), image(1, 3, 21),
        lambda m: lambda x: F.conv1d(x, m.weight, m.bias), "stride", "stride is [1]",
    ),
    "pad": Row(
        lambda: Op(lambda x: F.pad(x, (1, 2))), image(2, 9), lambda m: lambda x: F.pad(x, (2, 1)),
        "pad", "pad is [2, 1] where the model has [1, 2]",
    ),
    "scale of attention": Row(
        Attention, qkv, lambda m: lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0),
        "scale", "scale is 1 where",
    ),
    "operands of a difference": Row(
        lambda: Pair(torch.sub), lambda: (torch.randn(4, 8), torch.randn(4, 8)), lambda m: lambda x, y: y - x,
        "swapped_operands", "are swapped",
    ),
    "q and k": Row(
        Attention, qkv, lambda m: lambda q, k, v, mask: F.scaled_dot_product_attention(k, q, v, mask),
        "swapped_operands", "query (q) and key (k) are swapped",
    ),
    "mask inverted": Row(
        Attention, qkv, lambda m: lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, ~mask),
        "mask", "attn_mask is inverted",
    ),
    "mask dropped": Row(
        Attention, qkv, lambda m: lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v),
        "mask", "attn_mask is not applied",
    ),
    "causal off by one": Row(
        lambda: Attention(is_causal=True), qkv,
        lambda m: lambda q, k, v, mask=None: F.scaled_dot_product_attention(
            q, k, v, torch.ones(6, 6, dtype=torch.bool).tril(1)
        ),
        "causal", "off by one",
    ),
    "gates of an LSTM": Row(
        lambda: nn.LSTM(5, 7, batch_first=True), image(2, 6, 5), lambda m: gates_moved(m, 4),
        "gate_order", "the gates are in the order fig",
    ),
    "gates of a GRU": Row(
        lambda: nn.GRU(5, 7, batch_first=True), image(2, 6, 5), lambda m: gates_moved(m, 3),
        "gate_order", "the gates are in the order zrn",
    ),
    "heads": Row(
        Heads, image(2, 6, 16), lambda m: lambda x: x.view(2, 4, 6, 4) * 2,
        "heads", "it is reshaped where the model transposes",
    ),
    "nearest for bilinear": Row(
        lambda: Op(interpolated(mode="bilinear")), image(1, 2, 5, 5), lambda m: interpolated(mode="nearest"),
        "interpolation", "the interpolation is nearest",
    ),
    "align_corners": Row(
        lambda: Op(interpolated(mode="bilinear")), image(1, 2, 5, 5),
        lambda m: interpolated(mode="bilinear", align_corners=True), "align_corners", "align_corners",
    ),
    "half": Row(
        lambda: nn.Linear(8, 8), image(4, 8),
        lambda m: lambda x: F.linear(x.bfloat16(), m.weight.bfloat16(), m.bias.bfloat16()).float(),
        "half", "it is computed in bfloat16",
    ),
    "rounding of a division": Row(
        lambda: Pair(lambda x, y: torch.div(x, y, rounding_mode="floor")),
        lambda: (torch.randn(30) * 9, torch.full((30,), 2.0)),
        lambda m: lambda x, y: torch.div(x, y, rounding_mode="trunc"), "rounding_mode", "'trunc' where",
    ),
    "broadcast": Row(
        lambda: Pair(lambda x, y: x * y), lambda: (torch.randn(6, 6), torch.randn(6)),
        lambda m: lambda x, y: x * y[:, None], "broadcast", "other is lined up with axis 0 of self",
    ),
    "residual dropped": Row(
        lambda: Pair(lambda x, y: x.tanh() + y), lambda: (torch.randn(4, 9), torch.randn(4, 9)),
        lambda m: lambda x, y: x.tanh(), "dropped_operand", "other (y) left out",
    ),
    "order of a concatenation": Row(
        lambda: Op(lambda x: torch.cat((-x[..., 4:], x[..., :4]), -1)), image(3, 8),
        lambda m: lambda x: torch.cat((x[..., :4], -x[..., 4:]), -1),
        "swapped_operands", "the tensors are in reverse order",
    ),
    "dropout": Row(
        lambda: Op(torch.sin), image(40, 50), lambda m: lambda x: F.dropout(x.sin(), 0.25, True),
        "dropout", "dropout is on, with p near 0.2",
    ),
    "pad mode": Row(
        lambda: nn.ReflectionPad2d(2), image(1, 2, 6, 6), lambda m: lambda x: F.pad(x, (2,) * 4, mode="replicate"),
        "pad_mode", "mode is 'replicate' where",
    ),
    "channels last": Row(
        lambda: nn.Conv2d(4, 4, 1), image(1, 4, 4, 4),
        lambda m: lambda x: m(x.reshape(1, 4, 4, 4).permute(0, 3, 1, 2)), "channels_last", "channels last",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_cause_is_found_by_arithmetic(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    model, args = row.model().eval(), row.args()
    found = suggestions(suspect_of(model, args, row.wrong(model), tmp_path), tmp_path)
    assert found, "nothing was suggested"
    assert (found[0].kind, row.text in found[0].text) == (row.kind, True), found
    assert 0.99 <= found[0].explains <= 1.0


def test_noise_is_explained_by_nothing(tmp_path: Path) -> None:
    model = nn.LayerNorm(32)
    suspect = suspect_of(
        model, (torch.randn(8, 32),), lambda x: model(x) + 1e-3 * torch.randn(8, 32), tmp_path
    )
    assert suggestions(suspect, tmp_path) == ()


def test_no_number_is_fitted_to_a_few_elements(tmp_path: Path) -> None:
    """To one element some epsilon fits whatever went wrong."""
    model = nn.LayerNorm(4, eps=1e-5)
    suspect = suspect_of(model, (torch.tensor([[0.1, -0.2, 0.3, 0.1]]),), lambda x: model(x) * 0.97, tmp_path)
    assert suggestions(suspect, tmp_path) == ()


def test_half_an_explanation_is_not_suggested(tmp_path: Path) -> None:
    """A wrong epsilon and noise of the same size: the epsilon explains half, which is not enough."""
    model = nn.LayerNorm(32, eps=1e-5)
    wrong = nn.LayerNorm(32, eps=1e-2)

    def both(x: torch.Tensor) -> torch.Tensor:
        error = wrong(x) - model(x)
        return wrong(x) + error.square().mean().sqrt() * torch.randn(x.shape)

    suspect = suspect_of(model, (torch.randn(8, 32),), both, tmp_path)
    assert suggestions(suspect, tmp_path) == ()


def test_nan_is_never_explained_by_a_value_without(tmp_path: Path) -> None:
    model = nn.LayerNorm(32, eps=1e-5)

    def spoilt(x: torch.Tensor) -> torch.Tensor:
        value = F.layer_norm(x, (32,), eps=1e-2)
        value[0, 0] = float("nan")
        return value

    suspect = suspect_of(model, (torch.randn(8, 32),), spoilt, tmp_path)
    assert suggestions(suspect, tmp_path) == ()


def test_gates_that_are_stored_in_another_order_are_recognised() -> None:
    recorded = torch.randn(12, 5)
    parts = recorded.chunk(4)
    stored = torch.cat([parts[0], parts[2], parts[1], parts[3]])
    found = how_it_differs("rnn.weight_ih_l0", stored, recorded, Others(Path("none")))
    text = "the 4 parts of rnn.weight_ih_l0 are in the order [0, 2, 1, 3]"
    assert found == WeightFault("gate_order", text)
    assert how_it_differs("w", torch.randn(12, 5), recorded, Others(Path("none"))).kind == "stale_weight"
