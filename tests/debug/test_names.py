"""What programs name: the public names of `torchport.debug`, and the folders of its artifacts."""

from __future__ import annotations

from importlib import import_module

import pytest

from torchport import debug
from torchport.debug.tree import FOLDERS

NAMES = [
    "mock_backend",
    "aot_mock_backend",
    "ShapeConstraint",
    "DtypeConstraint",
    "MemoryConstraint",
    "LayoutConstraint",
    "UnsupportedOpsConstraint",
    "KernelDiffHarness",
    "DiffReport",
    "compare_tensors",
    "ComparisonConfig",
    "GuardInspector",
    "Minifier",
    "ReportGenerator",
    "AcceleratorAdapter",
    "AcceleratorCapabilities",
    "MockAcceleratorAdapter",
    "IntegratedMockAdapter",
]


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    assert set(NAMES) <= set(debug.__all__) == set(debug._HOMES)
    for name in debug.__all__:
        home = import_module(f"torchport.debug.{debug._HOMES[name]}")
        assert getattr(debug, name) is getattr(home, name)
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        debug.NoSuchName  # noqa: B018


def test_the_folders_of_artifacts_are_those_that_programs_look_in() -> None:
    promised = "fx_graphs aot_graphs inductor_ir inductor_kernels statistics visualizations repros reports"
    assert list(FOLDERS) == promised.split()
