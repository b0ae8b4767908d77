"""Adapters of other packages are found by their entry points; a broken one is named and hides no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchport.debug.adapters.integrated import IntegratedMockAdapter
from torchport.debug.adapters.registry import available_adapters, find_adapter
from torchport.errors import CompileError

PACKAGE = """
from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities


class Chip(AcceleratorAdapter):
    capabilities = AcceleratorCapabilities("chip")

    def run_node(self, op, args, kwargs):
        return op(*args, **kwargs)


class Bare(Chip):
    capabilities = property(lambda self: 1 / 0)


CHIP = Chip()
"""


def install(folder: Path, name: str, points: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torchport.accelerators]\n{points}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "chip_package.py").write_text(PACKAGE)
    points = (
        "chip = chip_package:Chip\nbroken = no_such_module:Chip\nother = chip_package:CHIP\n"
        "number = math:pi\nbare = chip_package:Bare\nmock_accelerator = chip_package:Chip\n"
    )
    install(tmp_path, "chip-package", points)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_reference_adapters_are_always_there() -> None:
    assert [one.name for one in available_adapters()] == ["integrated_mock", "mock_accelerator"]
    assert isinstance(find_adapter("integrated_mock"), IntegratedMockAdapter)


def test_an_adapter_of_another_package_is_found_beside_broken_ones(site: Path) -> None:
    assert find_adapter("chip").name == "chip"
    listed = [(one.name, one.package, one.problem) for one in available_adapters()]
    assert ("chip", "chip-package", None) in listed and ("integrated_mock", "torchport", None) in listed
    problems = {name: problem for name, _, problem in listed if problem}
    assert problems.keys() == {"broken", "other", "number", "bare", "mock_accelerator"}
    assert "no_such_module" in problems["broken"] and "calls itself chip" in problems["other"]
    assert "float is no AcceleratorAdapter" in problems["number"] and "ZeroDivisionError" in problems["bare"]


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("broken", "TP1055", "no_such_module"),
        ("mock_accelerator", "TP1052", "chip_package:Chip (chip-package)"),
        ("brick", "TP1055", "there is no adapter 'brick'"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(
    site: Path, name: str, code: str, message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        find_adapter(name)
    assert caught.value.code == code and message in caught.value.message


def test_two_packages_cannot_give_one_name(site: Path) -> None:
    install(site, "second-package", "chip = chip_package:CHIP\n")
    with pytest.raises(
        CompileError, match="given to several adapters: .*chip-package.* and .*second-package"
    ):
        find_adapter("chip")
    both = [one.package for one in available_adapters() if one.name == "chip" and one.problem]
    assert sorted(both) == ["chip-package", "second-package"]
