"""Scripts of minified graphs fail by themselves, in a fresh process, without torchport, as the whole graph does."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.minifying.faulty import Faulty
from benchmarks.minifying.seeded import SEEDED, Seeded
from torchport.debug.minifier import Failure, Minifier
from torchport.debug.minifier import minifier as minifier_module
from torchport.debug.minifier.case import case_of
from torchport.debug.minifier.checks import BackendCheck
from torchport.debug.minifier.failure import Mismatch
from torchport.debug.minifier.fresh_check import FreshCheck
from torchport.debug.minifier.laboratory import Laboratory
from torchport.debug.minifier.reading import read_script
from torchport.debug.minifier.runs import minify_graph_run, minify_model, write_graph_script
from torchport.debug.minifier.script import Script
from torchport.debug.minifier.stages import find_stage
from torchport.errors import CompileError, UsageError

from .failing import fails_if_told

ALWAYS = {
    "gradient of gelu",
    "crash in wide addmm",
    "alignment",
}
"""The others are run by `make zoo`."""
CASES = [
    pytest.param(one, id=one.name, marks=pytest.mark.slow if one.name in ALWAYS else pytest.mark.zoo)
    for one in SEEDED
]


@pytest.mark.parametrize("seeded", CASES)
def test_a_planted_fault_becomes_a_script_of_at_most_three_operations(seeded: Seeded, tmp_path: Path) -> None:
    found = seeded.minifier(seeded.graph()).generate_repro_script(tmp_path / "repro.py")
    assert found.kind == seeded.kind and found.fails_in_fresh_process, found.as_text()
    assert 1 <= len(found.operations) <= 3 and found.queries < 25
    text = (tmp_path / "repro.py").read_text()
    assert not any("torchport" in name for name in imported(text))
    forward = text.partition("    def forward")[2].partition("\n\n")[0]
    assert forward.count("torch.ops.aten.") == len(found.operations)


def imported(text: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(text)))
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    return names + [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]


@pytest.mark.slow
def test_a_graph_that_a_run_keeps_is_minified_from_its_script(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.sin(torch.tanh(x) + 1))

    x = torch.randn(30, 30)
    script = tmp_path / "repros" / "graph_0.py"
    backend = Faulty("aten.sin.default", "raises")
    try:
        backend(make_fx(function)(x), [x])(x)
    except NotImplementedError as error:
        write_graph_script(script, make_fx(function)(x), [x], error, backend=backend)
    assert script.with_suffix(".safetensors").is_file()
    read = read_script(script)
    assert read.kind == "exception" and read.backend == backend and torch.equal(read.inputs[0], x)
    found = minify_graph_run(tmp_path)
    assert found.operations == ("aten.sin.default",) and found.fails_in_fresh_process
    assert Path(found.script) == script.with_name("smallest_graph_0.py")


RUNS_A_GRAPH = """
import torch


class Graph(torch.nn.Module):
    def forward(self, x):
        return (torch.sin(x),)


def inputs():
    return [torch.ones(3)]
"""


def test_a_script_that_only_runs_a_graph_is_read_as_well(tmp_path: Path) -> None:
    script = tmp_path / "graph_0.py"
    script.write_text(RUNS_A_GRAPH)
    read = read_script(script)
    assert (read.kind, read.backend, read.constraint) == (None, None, None)
    assert torch.equal(read.module(*read.inputs)[0], torch.sin(torch.ones(3)))


def test_a_folder_without_a_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="TP1048"):
        minify_graph_run(tmp_path)
    (tmp_path / "mine.py").write_text("print(1)\n")
    with pytest.raises(CompileError, match="TP1048"):
        minify_graph_run(tmp_path / "mine.py")


def test_a_backend_that_nobody_can_import_is_refused_in_a_script(tmp_path: Path) -> None:
    def local(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        raise RuntimeError("only here")

    x = torch.ones(2)
    found = Minifier(make_fx(torch.sin)(x), [x], backend=local, through_dynamo=False)
    assert len(found.minify().operations) == 1
    with pytest.raises(UsageError, match="TP1045"):
        found.generate_repro_script(tmp_path / "repro.py")


@pytest.mark.slow
def test_what_fails_only_here_is_handed_over_and_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of this process makes the backend fail, and a fresh process has another."""
    monkeypatch.setattr(minifier_module, "run_fresh", without_fault(minifier_module.run_fresh, monkeypatch))
    monkeypatch.setenv("FAULT", "on")
    x = torch.ones(2)
    found = Minifier(make_fx(torch.sin)(x), [x], backend=fails_if_told, through_dynamo=False)
    result = found.generate_repro_script(tmp_path / "repro.py")
    assert not result.fails_in_fresh_process
    assert any("no script fails in a fresh process" in note for note in result.notes)


def without_fault(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def in_other_environment(*args: Any) -> Any:
        with monkeypatch.context() as other:
            other.delenv("FAULT")
            return run(*args)

    return in_other_environment


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3, 4).t(),
        torch.tensor([1e-45, float("inf"), float("nan"), -0.0]),
        torch.randn(2, 1).expand(2, 5),
        torch.tensor([True, False]),
        torch.randn(3, dtype=torch.float64),
        torch.randn(3, dtype=torch.complex64),
        torch.randn(3).to(torch.bfloat16),
        torch.zeros(0, 3),
        torch.tensor(2.5),
        torch.randn(40, 40),
        7,
        None,
    ],
)
def test_a_script_has_its_inputs_to_the_last_bit(value: Any, tmp_path: Path) -> None:
    graph = torch.fx.Graph()
    graph.output((graph.placeholder("x"),))
    case = case_of(torch.fx.GraphModule(torch.nn.Module(), graph), [value])
    script = tmp_path / "repro.py"
    Script(case, Failure("exception", "", ""), BackendCheck("eager")).write(script)
    (found,) = runpy.run_path(str(script))["inputs"]()
    if not isinstance(value, torch.Tensor):
        assert found == value
        return
    assert (found.dtype, found.shape, found.stride()) == (value.dtype, value.shape, value.stride())
    assert torch.equal(bits(found), bits(value))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def test_control_flow_and_parameters_are_in_the_script(tmp_path: Path) -> None:
    def branches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.cos() + w, lambda v: v.tanh() - w, (x,))

    x, w = torch.ones(4, 6), torch.randn(6)
    module = make_fx(branches, tracing_mode="fake")(x, w)
    module.register_buffer("factor", torch.tensor([1.5]))
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    with module.graph.inserting_before(output):
        factor = module.graph.get_attr("factor")
        output.args = (module.graph.call_function(torch.ops.aten.mul.Tensor, (output.args[0], factor)),)
    module.recompile()
    script = tmp_path / "repro.py"
    Script(case_of(module, [x, w]), Failure("exception", "", ""), BackendCheck("eager")).write(script)
    held = runpy.run_path(str(script))
    assert torch.equal(held["Repro"]()(*held["inputs"]())[0], module(x, w))
    read = read_script(script)
    assert torch.equal(read.module(*read.inputs)[0], module(x, w))


@pytest.mark.slow
def test_a_wrong_decomposition_is_named_as_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.decomposition import decompositions, fast_random_decomps

    fast_random_decomps.cache_clear()  # An earlier compilation may have kept the table.
    wrong = lambda x: x * torch.sigmoid(x * 1.1)  # noqa: E731
    monkeypatch.setitem(decompositions, torch.ops.aten.silu.default, wrong)
    x = torch.ones(2, 2)
    case = case_of(make_fx(torch.ops.aten.silu.default)(x), [x])
    mismatch = Mismatch("output 0", "relative", 0.02, 1e-7, 100.0)
    failure = Failure("wrong value", "values", "", mismatch=mismatch)
    stage = find_stage(case, failure, Laboratory(BackendCheck("inductor"), 120))
    fast_random_decomps.cache_clear()
    assert str(stage) == "decompositions: aten.silu.default"


@pytest.mark.zoo
def test_a_wrong_lowering_is_minified_and_named_as_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_lowering.py").write_text(
        "import torch, torch._inductor.lowering as L\n"
        "L.lowerings[torch.ops.aten.sin.default] = L.lowerings[torch.ops.aten.cos.default]\n"
    )
    import torch._inductor.lowering as lowering

    aten = torch.ops.aten
    monkeypatch.setitem(lowering.lowerings, aten.sin.default, lowering.lowerings[aten.cos.default])

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.sin(torch.tanh(x) + 1) * 2)

    x = torch.randn(4, 8)
    setup = [f"sys.path.insert(0, {str(tmp_path)!r})", "import broken_lowering"]
    module = make_fx(Model())(x)
    found = Minifier(module, [x], backend="inductor", setup=setup).generate_repro_script(
        tmp_path / "repro.py"
    )
    assert found.operations == ("aten.sin.default",) and found.fails_in_fresh_process, found.as_text()
    assert found.stage is not None and found.stage.startswith("Inductor, lowerings")
    with pytest.raises(CompileError, match="TP1046"):
        minify_model(torch.nn.ReLU(), (x,), backend="inductor", out=tmp_path / "none.py")


@pytest.mark.slow
def test_a_crash_can_be_tried_without_splitting_this_process() -> None:
    """As it must be once CUDA is in use."""
    x = torch.randn(3)
    case = case_of(make_fx(lambda x: x.sin().cos())(x), [x])
    check = FreshCheck(BackendCheck(Faulty("aten.cos.default", "dies"), through_dynamo=False), "crash", 120)
    found = check.failure_of(case)
    assert found is not None and (found.kind, found.signature) == ("crash", "signal SIGSEGV")


@pytest.mark.slow
def test_a_script_says_so_if_the_failure_is_gone(tmp_path: Path) -> None:
    x = torch.randn(3)
    script = tmp_path / "repro.py"
    mismatch = Mismatch("output 0", "relative", 0.02, 1e-7, 100.0)
    failure = Failure("wrong value", "values", "", mismatch=mismatch)
    check = BackendCheck(Faulty("aten.cos.default", "scaled"), through_dynamo=False)
    Script(case_of(make_fx(torch.sin)(x), [x]), failure, check).write(script)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "no failure"), done.stderr
