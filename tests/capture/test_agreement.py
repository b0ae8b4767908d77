"""The captured graph computes what the model computes, or the recording is refused."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from torchport import TorchportError
from torchport.capture.recorder import record

from . import models

LAYERS = {
    "linear": lambda: nn.Linear(6, 6),
    "norm": lambda: nn.LayerNorm(6),
    "gelu": nn.GELU,
    "softplus": nn.Softplus,
    "dropout": nn.Dropout,
    "nested": lambda: nn.Sequential(nn.Linear(6, 6), nn.SiLU()),
}


def test_a_model_that_is_random_in_eval_is_refused() -> None:
    with pytest.raises(TorchportError, match="TP0204: the model draws random") as caught:
        record(models.Random(), torch.zeros(2, 4))
    assert "allow_random" in (caught.value.fix or "")


def test_values_that_are_not_finite_agree_by_place() -> None:
    class Log(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x.log(), 1 / x, x * 0], 1)

    x = torch.tensor([[-1.0, 0.0, float("inf")]])
    capture = record(Log(), x)
    assert torch.equal(capture.golden["Log"].isnan(), Log()(x).isnan())
    assert capture.truth["Log"].isfinite().all()


def test_a_graph_that_cannot_be_run_where_the_model_can_is_refused() -> None:
    class Norm(nn.BatchNorm1d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.train()  # Then torch takes no rows at all, and what the graph has for it does not.
            return super().forward(x)

    with pytest.raises(TorchportError, match="TP0203.*cannot be run on these inputs"):
        record(Norm(4), torch.zeros(0, 4))


def test_a_buffer_that_is_returned_is_recorded_as_it_was_returned() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.calls += 1
            return x * 2, self.calls

    capture = record(Counter(), torch.zeros(2, 4))
    root = capture.plan.calls[capture.plan.root]
    assert [int(capture.golden[capture.plan.resolve(key)].sum()) for key in root.outputs] == [0, 1]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=6), st.integers(1, 3))
@pytest.mark.slow
def test_any_stack_of_layers_is_recorded_as_torch_computes_it(names: list[str], batch: int) -> None:
    model = nn.Sequential(*(LAYERS[name]() for name in names)).eval()
    x = torch.randn(batch, 6)
    capture = record(model, x)
    with torch.no_grad():
        for index, layer in enumerate(model):
            x = layer(x)
            if str(index) in capture.plan.calls:
                key = capture.plan.resolve(str(index))
                torch.testing.assert_close(capture.golden[key], x, rtol=0, atol=0)
    root = capture.plan.calls[capture.plan.root]
    torch.testing.assert_close(capture.golden[capture.plan.resolve(root.outputs[0])], x, rtol=0, atol=0)


class Scattered(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask, torch.arange(12.0)) * torch.ones(4).cumsum(0)


def test_the_truth_of_a_model_that_makes_float32_tensors_is_float64() -> None:
    x, mask = torch.randn(3, 4), torch.tensor([True, False, True, True])
    capture = record(Scattered(), (x, mask.expand(3, 4)))
    assert capture.export_error is None
    assert capture.truth["Scattered"].abs().max() < 1e-6
