"""What is not compared is said at a report's top, with how many and which, unless it was asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchport import assert_parity, compare_gradients, compare_models
from torchport.errors import ParityError
from torchport.runs.report import Report
from torchport.testing import describe

from .models import Renamed, X, net
from .test_fusing import IMAGE, folded
from .test_fusing import net as convolved

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients])
NO_SUCH_PARAMETERS = "2 parameters are not compared: the candidate has no such parameter (0.weight, 2.weight)"


class Untrained(nn.Module):
    """A Linear that has its weight under another name and never trains it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.w, self.bias = nn.Parameter(linear.weight.detach().clone()), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.w.detach(), self.bias)


def with_other_names() -> tuple[nn.Sequential, nn.Sequential]:
    torch.manual_seed(0)
    first, second = nn.Linear(16, 16), nn.Linear(16, 16)
    model = nn.Sequential(first, nn.Tanh(), second)
    return model, nn.Sequential(Untrained(first), nn.Tanh(), Untrained(second))


def test_parameters_under_another_name_are_counted_and_named() -> None:
    model, candidate = with_other_names()
    rows = torch.randn(32, 16)
    report = compare_gradients(model, candidate, rows)
    assert report.passed and report.notes == (NO_SUCH_PARAMETERS,)
    assert f"but        {NO_SUCH_PARAMETERS}\n" in describe(report)
    assert assert_parity(model, candidate, rows, gradients=True).notes == (NO_SUCH_PARAMETERS,)


@BOTH
def test_modules_that_the_candidate_lacks_or_does_not_call_are_counted_and_named(compare: Compare) -> None:
    report = compare(net(), Renamed(net()), X, map={"blocks": "layers"})
    assert report.notes[:2] == (
        "1 layer is not compared: the candidate never calls it (blocks)",
        "1 layer is not compared: the candidate has no such module (head)",
    )


def test_a_message_says_what_is_not_compared_once() -> None:
    candidate = Renamed(net())
    candidate.out.bias.data += 1
    with pytest.raises(ParityError) as caught:
        assert_parity(net(), candidate, X)
    assert str(caught.value).count("the candidate has no such module") == 1


@BOTH
def test_what_was_asked_for_has_no_note(compare: Compare) -> None:
    assert compare(net(), net(), X, layers=False).notes == ()
    assert compare(net(), net(), X, map={"blocks.1.norm": None}).notes == ()


def test_parameters_of_all_layers_that_are_computed_as_one_have_one_note() -> None:
    model = convolved()
    (note,) = compare_gradients(model, folded(model), IMAGE).notes
    assert note.startswith("6 parameters are not compared: the candidate computes their layers as one")
    assert "first.conv.weight" in note and "second.bn.bias" in note
