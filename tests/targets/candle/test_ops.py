"""Every row of the operation table is proven as a layer of one model: captured, built, run, compared."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import torchport
from torchport.capture.operations import always_draws_random_numbers
from torchport.parity.result import Layer
from torchport.runs.report import Report
from torchport.targets.candle.registry import OPS

from .op_rows import TABLES, Everything

CASES = [f"{table.name}.{row.name}" for table in TABLES for row in table.rows]

NEVER_CAPTURED: dict[str, str] = {
    "torchport.packed_rnn.default": "packed sequences have tests of their own",
    "torchport.unpacked.default": "packed sequences have tests of their own",
    "aten.clone.default": "a copy is dropped when a graph is simplified; manifests of earlier versions have some",
    "aten.conj_physical.default": "torch.export writes it as `_conj_physical`",
}
"""Operations that are mapped and that no row can show, each with the reason, but for those that draw random numbers."""


@dataclass(frozen=True)
class Proof:
    report: Report
    elsewhere: Report
    """The same port on an input of another size."""
    layers: dict[str, list[Layer]]
    """The calls of a row and of the modules inside it."""
    captured: set[str]
    """The operations of the captured graph."""


@pytest.fixture(scope="session")
def proof(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Proof:
    few, many = torch.linspace(-2, 2, 5 * 6).sin().view(5, 6), torch.linspace(-3, 3, 8 * 6).cos().view(8, 6)
    made = torchport.port(Everything(TABLES), (few,), out=tmp_path_factory.mktemp("ops"), dynamic="x:0")
    todos = [f"{todo.op} in {todo.layer}: {todo.reason}" for todo in made.artifact.todos]
    assert not todos, "\n".join(todos)
    report, elsewhere = made.check(), made.check((many,))
    layers: dict[str, list[Layer]] = {case: [] for case in CASES}
    for layer in report.layers:
        if layer.name.count(".") >= 2:
            table, _part, row = layer.name.split(".")[:3]
            layers[f"{table}.{row.partition('#')[0]}"].append(layer)
    modules = made.graph.modules.values()
    return Proof(report, elsewhere, layers, {node.op for module in modules for node in module.nodes})


@pytest.mark.parametrize("case", CASES)
def test_row_computes_what_torch_computes(proof: Proof, case: str) -> None:
    layers = proof.layers[case]
    wrong = [f"{layer.name}: {layer.reason}" for layer in layers if not layer.passed]
    assert not wrong, "\n".join(wrong)
    # A layer whose tensors are all empty has failed above, so what is compared is evidence.
    assert any(layer.own is not None for layer in layers), "nothing was compared"


def test_all_rows_together_pass(proof: Proof) -> None:
    assert proof.report.passed, proof.report.first_divergence


def test_rows_with_free_sizes_hold_for_another_size(proof: Proof) -> None:
    assert proof.elsewhere.passed, proof.elsewhere.first_divergence


def test_every_mapped_operation_is_captured_from_some_row(proof: Proof) -> None:
    random = set(filter(always_draws_random_numbers, OPS))
    assert set(OPS) - proof.captured - random == set(NEVER_CAPTURED)


def test_names_of_rows_are_unique() -> None:
    assert len(CASES) == len(set(CASES))
