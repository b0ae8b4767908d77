"""Every hypothesis has its place in the order of belief, and none can end the process."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchport.explain import hypotheses
from torchport.explain.hypotheses import (
    ABOUT_VALUES,
    IN_ORDER_OF_BELIEF,
    Hypothesis,
    hypotheses_about,
    last_resort,
)
from torchport.explain.what_if import bind

from .suspects import suspect_of


def topics() -> Iterator[Any]:
    """All functions in the folder that give hypotheses about an operation."""
    for found in pkgutil.iter_modules(hypotheses.__path__, f"{hypotheses.__name__}."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield function


def test_every_topic_has_one_place_in_the_order_of_belief() -> None:
    ordered = [*IN_ORDER_OF_BELIEF, *ABOUT_VALUES]
    assert len(set(ordered)) == len(ordered)
    assert {*ordered, last_resort.result_scaled} == set(topics())


class ProductsInHalf(TorchDispatchMode):
    """Notes of each product in half precision whether oneDNN may compute it."""

    def __init__(self) -> None:
        super().__init__()
        self.with_onednn: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.addmm.default and args[0].dtype in (torch.float16, torch.bfloat16):
            self.with_onednn.append(torch.backends.mkldnn.enabled)
        return func(*args, **(kwargs or {}))


def half_of(model: nn.Linear, folder: Path) -> list[Hypothesis]:
    suspect = suspect_of(model, (torch.randn(64, 256),), lambda x: model(x), folder)
    (operation,) = bind(suspect).values()
    return [one for one in hypotheses_about(operation) if one.text.startswith("it is computed in")]


def test_products_in_half_precision_do_without_onednn(tmp_path: Path) -> None:
    """Its bfloat16 kernels are an illegal instruction on machines that claim to have AMX and do not."""
    with_onednn = torch.backends.mkldnn.enabled
    found = half_of(nn.Linear(256, 256), tmp_path)
    with ProductsInHalf() as products:
        for hypothesis in found:
            assert hypothesis.compute().dtype == torch.float32
    assert products.with_onednn == [False, False]
    assert torch.backends.mkldnn.enabled == with_onednn
