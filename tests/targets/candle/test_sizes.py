"""Free sizes: what was recorded at one batch and length passes at others; a model on `meta` becomes Rust."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import zoo
from torchport.porting.commands import Port
from torchport.porting.commands import port as make_port

pytestmark = pytest.mark.builds


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_text_model_passes_at_other_batches_and_lengths(name: str, tmp_path: Path) -> None:
    model, args = zoo.ZOO[name]()
    port = make_port(model, args, out=tmp_path, name=name)
    for batch, length in ((3, 7), (1, 1), (2, 40)):
        report = port.check((zoo.ids(batch, length),))
        assert report.passed, ((batch, length), report.first_divergence)


def test_cnn_passes_at_other_batches_and_image_sizes(tmp_path: Path) -> None:
    model, args = zoo.ZOO["cnn"]()
    port = make_port(model, args, out=tmp_path, name="cnn", dynamic="x:0,x:2,x:3")
    for shape in ((1, 3, 32, 32), (5, 3, 40, 24), (2, 3, 33, 57)):
        report = port.check((torch.randn(shape),))
        assert report.passed, (shape, report.first_divergence)


class Positions(torch.nn.Module):
    """Reads nothing of its input but the length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(torch.arange(x.shape[1]))


class WithPositions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(99, 8), Positions()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) + self.positions(ids)


def test_module_that_reads_only_a_size_is_given_it(tmp_path: Path) -> None:
    port = make_port(WithPositions(), (zoo.ids(),), out=tmp_path)
    assert port.check().passed
    assert port.check((zoo.ids(3, 9),)).passed


@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_model_passes_with_every_operation_watched(name: str, tmp_path: Path) -> None:
    model, args = zoo.ZOO[name]()
    report = make_port(model, args, out=tmp_path, name=name, checks="ops").check()
    assert report.passed, report.first_divergence


LLAMA_7B = r"""
import re, sys, torch, transformers
from torchport.porting.commands import port as make_port
config = transformers.LlamaConfig(use_cache=False)
with torch.device("meta"):
    model = transformers.LlamaForCausalLM(config)
    ids = torch.zeros(1, 16, dtype=torch.int64)
port = make_port(model, (ids,), out=sys.argv[1], name="llama_7b")
assert not port.artifact.todos
# Not ru_maxrss, which a child inherits from the process that started it.
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) // 1024)
"""


def test_llama_of_7b_shape_on_meta_becomes_rust_that_compiles(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LLAMA_7B, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2000
    port = Port.open(tmp_path)
    port.artifact.prepare(lambda _: None)
