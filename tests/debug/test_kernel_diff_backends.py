"""A backend is the same for KernelDiff as for a debugging run, by whatever name it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from torchport.debug.adapters.registry import available_adapters
from torchport.debug.backends.choosing import chosen
from torchport.debug.kernel_diff.route import route_of
from torchport.errors import UsageError

from .planted import Planted

SOURCE = """
import torch

def backend(gm, inputs):
    return gm.forward

class Chip:
    def __call__(self, gm, inputs):
        return gm.forward
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def names() -> list[str]:
    return ["eager", "aot_eager", "torchport_mock", *(one.name for one in available_adapters())]


@pytest.mark.parametrize("name", names())
def test_a_name_stands_for_one_backend(name: str) -> None:
    route, known = route_of(name), chosen(name)
    assert route.name == known.name == name
    assert type(route.backend) is type(known.plain)


@pytest.mark.parametrize("name", ["inductor", "torchport_inductor"])
def test_both_names_of_inductor_stand_for_inductor(name: str) -> None:
    route = route_of(name)
    assert route.is_inductor and route.decompositions


@pytest.mark.parametrize("name", ["backend", "Chip"])
def test_a_backend_in_a_file_is_found(name: str, file: Path) -> None:
    route = route_of(f"{file}:{name}")
    assert callable(route.backend) and route.name == name


@pytest.mark.parametrize("backend", ["no_such_backend", 3, None])
def test_what_is_no_backend_is_refused_alike(backend: Any) -> None:
    for look_up in (route_of, chosen):
        with pytest.raises(UsageError, match="TP1020"):
            look_up(backend)


def test_an_adapter_says_how_operations_are_taken_apart() -> None:
    backend: Any = Planted()
    assert not route_of(backend).decompositions
    backend.decompositions = {torch.ops.aten.gelu.default: torch.nn.functional.gelu}
    assert route_of(backend).decompositions == backend.decompositions
