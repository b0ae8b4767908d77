"""Vectors that are right with either sign: the report says that a difference in the sign is no fault."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import torchport


class Eigen(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        square = x @ x.transpose(0, 1)
        if self.kind == "values":
            return torch.linalg.eigh(square).eigenvalues
        return torch.linalg.eigh(square).eigenvectors if self.kind == "vectors" else torch.linalg.svd(x)[2]


@pytest.mark.parametrize(("kind", "count"), [("values", 0), ("vectors", 1), ("svd", 1)])
def test_vectors_that_are_read_are_said_to_have_free_signs(kind: str, count: int, tmp_path: Path) -> None:
    port = torchport.port(Eigen(kind), (torch.randn(4, 4),), target="torch", out=tmp_path, dynamic="")
    notes = [note for note in port.check().notes if "right with the other sign" in note]
    assert len(notes) == count
    assert all(f"{__file__}:" in note for note in notes)
