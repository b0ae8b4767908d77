"""KernelDiff holds no more of a large graph at once than it has to, by counting the tensors that are alive."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.candidates import stored_tensors
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.debug.kernel_diff.needs import VALUES_BEFORE
from torchport.errors import UsageError

from .planted import Planted, Rounding

aten: Any = torch.ops.aten
LAYERS, WIDTH, ROWS = 7, 32, 256
VALUE = ROWS * WIDTH * 4
"""The bytes of one value of the model below."""


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return torch.sin(self.drop(x))


class Counting(Rounding):
    """Honest kernels that add up in another order, and count the bytes of what they gave that somebody still holds."""

    def __init__(self, wrong: Any = None) -> None:
        super().__init__(aten.addmm.default, wrong)
        self.given: list[tuple[weakref.ref[Any], int]] = []
        self.most = 0

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        run = super().compile(module, inputs)

        def counted(*args: Any) -> Any:
            found = run(*args)
            storages = {one.untyped_storage().data_ptr(): one for one in found if one is not None}
            self.given += [(weakref.ref(one), one.nbytes) for one in storages.values()]
            self.most = max(self.most, sum(size for alive, size in self.given if alive() is not None))
            return found

        return counted


def compared(
    observed_bytes: float, monkeypatch: pytest.MonkeyPatch, wrong: Any = None, **options: Any
) -> tuple[Any, Counting]:
    monkeypatch.setattr(stored_tensors, "_BYTES_IN_MEMORY", 2 * VALUE)
    torch.manual_seed(0)
    backend = Counting(wrong)
    config = ComparisonConfig(gradients=False, observed_bytes=observed_bytes)
    given = torch.randn(ROWS, WIDTH)
    harness = KernelDiffHarness(Deep(), given, test_backend=backend, config=config, **options)
    return harness.compare().report, backend


def test_a_large_graph_is_never_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, everything = compared(2**30, monkeypatch)
    in_parts, some = compared(4 * VALUE, monkeypatch)
    assert everything.most >= 2 * LAYERS * VALUE
    assert some.most <= 8 * VALUE
    assert any("observed in" in note for note in in_parts.notes)
    assert not any("observed in" in note for note in at_once.notes)
    assert not any("no float64 truth" in note for note in in_parts.notes)
    assert in_parts.status == at_once.status == "pass", in_parts.first_divergence
    assert [layer.name for layer in in_parts.layers] == [layer.name for layer in at_once.layers]


class Long(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3 * VALUES_BEFORE):
            x = torch.sin(x)
        return x


@pytest.mark.parametrize(("factor", "is_kept"), [(1.0, False), (1.001, True)])
def test_only_what_has_to_be_looked_at_again_is_kept(
    monkeypatch: pytest.MonkeyPatch, factor: float, is_kept: bool
) -> None:
    """Files are counted; a value is in one store at a time if it is right, and in four if it is not."""
    monkeypatch.setattr(stored_tensors, "_BYTES_IN_MEMORY", 0)
    most = 0
    keep = stored_tensors.Scratch.keep

    def counted(self: stored_tensors.Scratch, tensor: Tensor) -> Any:
        nonlocal most
        found = keep(self, tensor)
        most = max(most, sum(file.stat().st_size for file in self.folder.iterdir()))
        return found

    monkeypatch.setattr(stored_tensors.Scratch, "keep", counted)
    backend = Planted(aten.sin.default, lambda x: (x.double().sin() * factor).float())
    config = ComparisonConfig(gradients=False, observed_bytes=4 * VALUE)
    report = (
        KernelDiffHarness(Long(), torch.randn(ROWS, WIDTH), test_backend=backend, config=config)
        .compare()
        .report
    )
    assert report.status == ("fail" if is_kept else "pass") and len(report.layers) > 3 * VALUES_BEFORE
    assert (most > 3 * 3 * VALUES_BEFORE * VALUE) is is_kept
    assert is_kept or most < (VALUES_BEFORE + 20) * VALUE


def test_a_fault_is_found_in_a_graph_that_is_observed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10**6))

    def wrong(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return bias + a.flip(1) @ b.flip(0) * (1.001 if next(count) % LAYERS == 4 else 1.0)

    report, _ = compared(3 * VALUE, monkeypatch, wrong)
    assert report.first_divergence.layer == "layers.4/addmm_4"
    failed = [layer.name for layer in report.layers if not layer.passed]
    assert failed == ["layers.4/addmm_4", "layers.4", "Deep"]


def test_random_numbers_are_those_of_eager_in_a_graph_that_is_observed_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report, _ = compared(VALUE, monkeypatch)
    rows = {layer.name: layer for layer in report.layers}
    assert rows["forward graph"].own is not None and rows["forward graph"].uncompared is None


def test_another_backend_as_the_reference_is_asked_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = Counting()
    report, _ = compared(4 * VALUE, monkeypatch, reference_backend=reference)
    assert report.status == "pass", report.first_divergence
    assert reference.most <= 10 * VALUE


def test_what_comes_after_a_value_that_is_missing_is_said_in_a_graph_that_is_observed_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report, _ = compared(2 * VALUE, monkeypatch, lambda bias, a, b: (bias + a @ b)[:-1])
    assert report.first_divergence.layer == "layers.0/addmm"
    assert "shape [255, 32] where [256, 32] was expected" in report.first_divergence.reason


def test_no_bytes_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="observed_bytes"):
        ComparisonConfig(observed_bytes=0)


def copied_weights(harness: KernelDiffHarness) -> list[Tensor]:
    """What the graphs that were captured hold of the model's weights, as they are or turned."""
    weights = list(harness._comparison.whole.model.parameters())
    graphs = [plan.graph for plan in harness._comparison.compiled.plans]
    held = [one for graph in graphs for one in graph.inputs if isinstance(one, Tensor)]
    return [
        one
        for one in held
        for weight in (*weights, *(weight.t() for weight in weights if weight.dim() == 2))
        if one.shape == weight.shape and torch.equal(one, weight)
    ]


def test_weights_are_copied_once_whatever_is_run() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
    harness = KernelDiffHarness(model, torch.randn(32, 16), test_backend=Counting())
    for _ in range(2):
        assert harness.compare().report.status == "pass"
        copies = harness._comparison.whole.before.copies  # type: ignore[union-attr]
        held = copied_weights(harness)
        assert len(held) > len(list(model.parameters()))
        assert {one.data_ptr() for one in held} == {one.data_ptr() for one in copies.values()}
        assert not {one.data_ptr() for one in held} & {one.data_ptr() for one in model.parameters()}


def test_weights_that_a_user_has_changed_are_compared_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8))
    harness = KernelDiffHarness(model, torch.randn(32, 16), test_backend=Counting())
    for _ in range(2):
        kept = {name: one.clone() for name, one in model.state_dict().items()}
        assert harness.compare().report.status == "pass"
        assert all(torch.equal(one, kept[name]) for name, one in model.state_dict().items())
        with torch.no_grad():
            model[0].weight.mul_(1.5)
