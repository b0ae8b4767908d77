"""A candidate that fails is explained as a port is: the operation, the cause, and a snippet that runs."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchport import assert_parity, compare_gradients, compare_models
from torchport.cli import main
from torchport.errors import ParityError

pytestmark = pytest.mark.slow

SIZE = 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = nn.LayerNorm(SIZE, eps=1e-6), nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.dense(self.norm(x)))


class TanhBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dense(self.norm(x))
        return x + F.gelu(hidden, approximate="tanh")  # the line that is wrong


class HonestBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dense(self.norm(x))
        return F.gelu(hidden) + x


class WithoutResidual(Block):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.dense(self.norm(x)))


class Ramp(Block):
    """Casts a tensor, beside which torch puts an assert when it traces."""

    over = 6

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dense(self.norm(x)) * (torch.arange(SIZE).float() / self.over).sin()


class SteeperRamp(Ramp):
    over = 5


class Net(nn.Module):
    def __init__(self, block: type[Block] = Block) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(block() for _ in range(2))
        self.head = nn.Linear(SIZE, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


X = torch.linspace(-2, 2, 4 * SIZE).reshape(4, SIZE).sin()


def test_a_rewritten_module_gets_its_operation_cause_and_snippet(tmp_path: Path) -> None:
    with pytest.raises(ParityError) as caught:
        assert_parity(Net(), Net(TanhBlock), X, out=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    found = report["first_divergence"]
    assert (found["layer"], found["operation"]["op"]) == ("blocks.0", "aten.gelu.default")
    assert found["suggestions"][0]["kind"] == "gelu_tanh"
    lines = Path(__file__).read_text().splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if "the line that is wrong" in line)
    assert found["operation"]["source"].endswith(f"test_explained.py:{wrong}")
    said = caught.value.message
    assert "operation  aten.gelu.default at" in said and "suggest    approximate is 'tanh'" in said
    assert f"snippet    {tmp_path / 'snippets' / 'blocks.0'}" in said
    rerun = tmp_path / "snippets" / "blocks.0" / "rerun.py"
    again = subprocess.run([sys.executable, str(rerun), "--json"], capture_output=True)
    assert again.returncode == 1 and json.loads(again.stdout)["status"] == "fail"


def test_a_comparison_is_reduced_to_one_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not compare_models(Net(), Net(TanhBlock), X, out=tmp_path).passed
    assert main(["minify", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layer"], found["operations"]) == ("blocks.0", ["aten.gelu.default"])


def test_what_cannot_be_done_with_a_comparison_says_what_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_models(Net(), Net(), X, out=tmp_path).passed
    assert main(["check", str(tmp_path)]) == 2
    assert "Compare the models again from Python" in capsys.readouterr().err
    assert main(["minify", str(tmp_path)]) == 2
    assert "Nothing fails in this run" in capsys.readouterr().err


def test_gradients_are_explained_by_the_operation_of_the_forward_pass() -> None:
    found = compare_gradients(Net(), Net(TanhBlock), X).first_divergence
    assert found is not None and found.layer == "blocks.1"
    assert found.operation is not None and found.operation.op == "aten.gelu.default"
    assert found.suggestions[0].kind == "gelu_tanh"


def test_another_epsilon_is_found_and_so_is_a_transposed_weight() -> None:
    other = Net()
    other.blocks[1].norm.eps = 1e-3
    found = compare_models(Net(), other, X).first_divergence
    assert found is not None and found.layer == "blocks.1.norm" and found.suggestions[0].kind == "eps"
    other = Net()
    with torch.no_grad():
        other.blocks[0].dense.weight.copy_(other.blocks[0].dense.weight.T.clone())
    found = compare_models(Net(), other, X).first_divergence
    assert found is not None and found.layer == "blocks.0.dense"
    assert found.suggestions[0].kind == "transposed_weight"


def test_a_residual_that_is_left_out_is_found() -> None:
    found = compare_models(Net(), Net(WithoutResidual), X).first_divergence
    assert found is not None and found.layer == "blocks.0" and found.operation is not None
    assert found.operation.op == "aten.add.Tensor" and found.suggestions[0].kind == "dropped_operand"


def test_a_layer_with_a_cast_is_explained() -> None:
    found = compare_models(Net(Ramp), Net(SteeperRamp), X).first_divergence
    assert found is not None and found.operation is not None and found.operation.op == "aten.div.Tensor"
    assert found.suggestions[0].text == "the result is 1.2 times what it should be"


def test_an_honest_rewrite_passes_and_nothing_is_left_behind(tmp_path: Path) -> None:
    assert assert_parity(Net(), Net(HonestBlock), X, out=tmp_path).passed
    assert not (tmp_path / "snippets").exists()


def test_an_explanation_changes_neither_the_verdict_nor_the_models() -> None:
    reference, candidate = Net(), Net(TanhBlock).train()
    before = copy.deepcopy(candidate.state_dict())
    with_cause, without = (
        compare_models(reference, candidate, X, explain=choice) for choice in (True, False)
    )
    assert without.first_divergence is not None and without.first_divergence.operation is None
    assert [layer.own for layer in with_cause.layers] == [layer.own for layer in without.layers]
    assert candidate.training and all(torch.equal(before[k], v) for k, v in candidate.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in candidate.modules())
