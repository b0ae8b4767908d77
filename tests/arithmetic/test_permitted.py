"""Products may be TF32 by torch's settings, on NVIDIA's devices, in a class that rounds no operands itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchport.arithmetic.classes import FLOAT32, find_arithmetic
from torchport.arithmetic.permitted import permitted, permitting

aten = torch.ops.aten
CUDA = torch.device("cuda")
TF32 = find_arithmetic("tf32")
SETTINGS = {"conv": torch.backends.cudnn.conv, "matmul": torch.backends.cuda.matmul}  # type: ignore[attr-defined]


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    before = {name: place.fp32_precision for name, place in SETTINGS.items()}
    yield SETTINGS
    for name, value in before.items():
        SETTINGS[name].fp32_precision = value


@pytest.mark.parametrize(
    ("setting", "operation", "other"),
    [
        ("conv", aten.convolution.default, aten.mm.default),
        ("conv", aten.convolution_backward.default, aten.addmm.default),
        ("matmul", aten.mm.default, aten.convolution.default),
        ("matmul", aten.baddbmm.default, aten.convolution_backward.default),
    ],
)
def test_a_setting_speaks_for_its_operations(
    setting: str,
    operation: torch._ops.OpOverload,
    other: torch._ops.OpOverload,
    settings: dict[str, Any],
) -> None:
    for name, place in settings.items():
        place.fp32_precision = "tf32" if name == setting else "ieee"
    assert [name.split(".")[-2] for name in permitting([other, operation])] == [setting]
    assert not permitting([other, aten.sum.default])
    found = permitted(FLOAT32, operation, CUDA)
    assert found.operands is TF32.operands and found.running_sum is FLOAT32.running_sum
    assert permitted(FLOAT32, other, CUDA) is FLOAT32
    assert permitted(FLOAT32, operation, torch.device("cpu")) is FLOAT32
    assert permitted(FLOAT32, aten.sum.default, CUDA) is FLOAT32
    bfloat16 = find_arithmetic("bf16_products")
    assert permitted(bfloat16, operation, CUDA) is bfloat16


def test_nothing_is_permitted_if_nothing_is_set(settings: dict[str, Any]) -> None:
    for place in settings.values():
        place.fp32_precision = "ieee"
    assert not permitting([aten.mm.default]) and permitted(FLOAT32, aten.mm.default, CUDA) is FLOAT32
