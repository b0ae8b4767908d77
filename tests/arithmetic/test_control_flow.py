"""Control flow in other arithmetic decides as the model does."""

import pytest
import torch

from torchport.arithmetic.classes import CLASSES
from torchport.arithmetic.ported import emulated_values
from torchport.capture.recorder import record

from ..capture import control_flow_models as models

pytestmark = pytest.mark.slow


def test_a_loop_takes_as_many_steps_in_a_coarser_class_of_arithmetic() -> None:
    x = torch.rand(3, 4) + 1
    capture = record(models.Converging(), (x,))
    for arithmetic in CLASSES:
        found = emulated_values(
            capture.graph,
            capture.weights,
            capture.plan,
            lambda key: capture.golden[capture.plan.resolve(key)],
            arithmetic,
            list(capture.plan.calls),
        )
        assert found["while_loop"] == capture.golden["while_loop"]
