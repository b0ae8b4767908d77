"""BERT's attention has tensors that are not contiguous: each is found, with the line that makes it."""

from __future__ import annotations

import linecache

import pytest
import torch

from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints import LayoutConstraint, Violation


@pytest.fixture(scope="module")
def violations() -> list[Violation]:
    from transformers import BertConfig, BertModel

    torch._dynamo.reset()
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        attn_implementation="eager",
    )
    backend = aot_mock_backend(strict=False, constraints=[LayoutConstraint()])
    with torch.no_grad():
        torch.compile(BertModel(config).eval(), backend=backend)(torch.randint(0, 50, (2, 6)))
    return list(backend.session.violations)


def code_of(violation: Violation) -> str:
    file, _, line = str(violation.source).rpartition(":")
    return linecache.getline(file, int(line)).strip()


@pytest.mark.slow
def test_transposed_queries_keys_and_values_are_found_with_their_lines(violations: list[Violation]) -> None:
    attention = [
        one for one in violations if one.stage == "forward" and one.module.endswith("attention.self")
    ]
    heads = [one for one in attention if "shape (2, 2, 6, 8) has strides (96, 8, 16, 1)" in one.message]
    assert len(heads) >= 3
    assert all("transpose(1, 2)" in code_of(one) for one in heads[:3])
    assert all("modeling_bert.py" in str(one.source) for one in attention)


@pytest.mark.slow
def test_the_same_lines_are_found_in_dynamos_graph(violations: list[Violation]) -> None:
    lines = {
        (one.module, one.source) for one in violations if one.stage == "dynamo" and "transpose" in one.op
    }
    assert lines and lines <= {(one.module, one.source) for one in violations if one.stage == "forward"}
