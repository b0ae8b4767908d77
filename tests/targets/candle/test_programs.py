"""Whatever a model is like, its Rust compiles and computes the same: cases that were mended, and random programs.

All of them are modules of one crate, which is compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from benchmarks.programs.crate import Crate
from benchmarks.programs.judging import Judgement, judged
from benchmarks.programs.making import made_by
from torchport.capture.eager import tensors
from torchport.errors import CaptureError
from torchport.porting.commands import port as make_port
from torchport.porting.port import Port

from .program_cases import CASES

SIZES = ((3, 9), (2, 5), (1, 3), (1, 1))
"""Batch and length: the first is what a case is ported from."""


@dataclass(frozen=True)
class Made:
    crate: Crate
    faults: dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Made:
    folder = tmp_path_factory.mktemp("cases")
    ports: dict[str, Port] = {}
    for name, case in CASES.items():
        torch.manual_seed(0)
        model = case.make().eval()
        ports[name] = make_port(
            model, case.inputs(*SIZES[0]), out=folder / name, name=name, dynamic=case.dynamic
        )
    crate = Crate(folder / "crate", ports)
    faults = crate.faults()
    sound = crate.without({name for name, (kind, _) in faults.items() if kind == "compile"})
    sound.build()
    return Made(sound, faults)


def _stands_for_the_model(port: Port, inputs: tuple[torch.Tensor, ...]) -> bool:
    """Whether the model decides at the sizes of these inputs as it did when it was captured."""
    sizes = port.graph.bindings_of([tuple(tensor.shape) for tensor in tensors(inputs)])
    return all(condition.holds(sizes) for condition in port.graph.conditions)


@pytest.mark.parametrize("name", CASES)
def test_case_compiles_and_is_proven_at_every_size(made: Made, name: str) -> None:
    assert name not in made.faults, made.faults[name][1]
    port = made.crate.ports[name]
    for size in SIZES:
        inputs = CASES[name].inputs(*size) if size != SIZES[0] else None
        if inputs is not None and not _stands_for_the_model(port, inputs):
            with pytest.raises(CaptureError, match="TP0208"):
                port.check(inputs, explain=False)
            continue
        report = port.check(inputs, explain=False)
        assert report.passed, (size, report.status, report.stopped, report.first_divergence)


@pytest.fixture(scope="module")
def judgement(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Judgement:
    programs = {f"program_{index}": program for index, program in enumerate(made_by("2026", 40))}
    return judged(programs, tmp_path_factory.mktemp("programs"), proofs=12)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_random_programs_compile_and_are_proven(judgement: Judgement) -> None:
    faults = [f"{name}: {fault.kind}: {fault.message}" for name, fault in judgement.faults.items()]
    assert not faults, "\n\n".join(faults)
    assert judgement.made == 40 and judgement.proven >= 10
    assert judgement.compiled + judgement.refused.total() >= judgement.made
