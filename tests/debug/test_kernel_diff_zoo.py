"""The count of KernelDiff's false alarms fails if there is one, or if something was not proven."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from benchmarks import kernel_diff_zoo

from . import planted, small_run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("backend", "status", "code"),
    [
        (f"{planted.__file__}:Rounding", "pass", 0),
        (f"{small_run.__file__}:wrong_relu", "fail", 1),
        ("eager", "error", 1),
    ],
    ids=["right", "wrong", "eager"],
)
def test_the_exit_code_says_whether_all_models_pass(
    backend: str,
    status: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tiny() -> Any:
        return small_run.Net().eval(), (torch.randn(8, 6),)

    monkeypatch.setitem(kernel_diff_zoo.MODELS, "tiny", tiny)
    assert kernel_diff_zoo.main(["tiny", "--backend", backend]) == code
    row, said = capsys.readouterr().out.splitlines()
    assert json.loads(row)["status"] == status and said == f"{1 - code} of 1 pass"


def test_a_model_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        kernel_diff_zoo.main(["nobody"])
    assert raised.value.code == 2 and "there is no model nobody" in capsys.readouterr().err
