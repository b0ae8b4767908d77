"""A debugging run of a whole script: all that it compiles is seen, however it ends."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from torchport.cli import main
from torchport.debug import DebugReport, DtypeConstraint, UnsupportedOpsConstraint, debug_script
from torchport.debug.folders import REPORT
from torchport.errors import CaptureError, SpecError, UsageError

BEGIN = """
import sys
import torch
from torch import nn

net = nn.Sequential(nn.Linear(6, 6), nn.ReLU())

@torch.compile(backend="aot_eager")
def scaled(x, n):
    y = x * n
    print("between")
    return y.sin()

module = torch.compile(net, backend="eager")
"""
CALLS = """
for n in (1, 2):
    scaled(torch.randn(3, 6), n)
module(torch.randn(4, 6)).sum().backward()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)

    def write(end: str = CALLS) -> Path:
        Path("train.py").write_text(BEGIN + textwrap.dedent(end))
        return Path("train.py")

    return write


def lines_of(report: DebugReport) -> list[str]:
    assert report.guards is not None
    return [f"{Path(one.place.file).name}:{one.place.code}" for one in report.guards.breaks]


def test_every_compile_of_a_script_is_reported(script: Callable[..., Path]) -> None:
    report = debug_script(script())
    assert report.status == "pass" and report.backend == "aot_eager, eager"
    assert lines_of(report) == ['train.py:print("between")']
    assert report.guards is not None and len(report.guards.recompilations) == 1
    stages = {(graph.name, graph.stage) for graph in report.graphs}
    assert {("graph_0", "dynamo"), ("graph_3", "forward"), ("graph_3", "backward")} <= stages
    assert report.folder is not None and DebugReport.read(Path(report.folder) / REPORT).spec == "train.py"
    assert {one.path.partition("/")[0] for one in report.artifacts} >= {
        "fx_graphs",
        "aot_graphs",
        "statistics",
    }
    assert report.kernel_diff is None and any("SPEC" in note for note in report.notes)


def test_a_script_has_its_arguments_and_is_the_main_module(script: Callable[..., Path]) -> None:
    before = list(sys.argv)
    path = script(
        CALLS + "assert __name__ == '__main__' and sys.argv == ['train.py', '--lr', '1'], sys.argv\n"
    )
    report = debug_script(path, ["--lr", "1"])
    assert report.status == "pass" and report.arguments == ("--lr", "1") and sys.argv == before


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("raise ValueError('boom')", "ValueError: boom"),
        ("sys.exit(3)", "train.py ended with 3"),
        ("sys.exit('no data')", "train.py ended with no data"),
    ],
)
def test_what_a_script_compiled_before_it_ended_badly_is_kept(
    script: Callable[..., Path], end: str, message: str
) -> None:
    report = debug_script(script(CALLS + end))
    assert report.status == "fail" and report.summary.total_graphs == 4
    assert [(one.step, one.message) for one in report.failures] == [("script", message)]


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)"])
def test_a_script_may_end_python(script: Callable[..., Path], end: str) -> None:
    assert debug_script(script(CALLS + end)).status == "pass"


def test_a_backend_takes_the_place_of_all_others(script: Callable[..., Path]) -> None:
    asked: list[torch.fx.GraphModule] = []

    def counts(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        asked.append(module)
        return module.forward

    report = debug_script(script(), backend=counts)
    assert report.backend == "counts" and len(asked) == report.summary.total_graphs == 4


def test_the_mode_that_a_script_asks_inductor_for_is_not_given_to_another_backend(
    script: Callable[..., Path],
) -> None:
    report = debug_script(
        script("torch.compile(net, mode='max-autotune')(torch.randn(2, 6))"), backend="mock"
    )
    assert report.status == "pass" and report.backend == "mock"


@pytest.mark.slow
def test_a_script_s_own_inductor_keeps_its_settings_and_its_kernels(script: Callable[..., Path]) -> None:
    report = debug_script(script("torch.compile(net, options={'max_fusion_size': 3})(torch.randn(2, 6))"))
    assert report.status == "pass" and report.backend == "inductor"
    assert any(one.path.startswith("inductor_kernels/") for one in report.artifacts)


def test_constraints_hold_for_every_backend_and_for_what_runs_outside(script: Callable[..., Path]) -> None:
    broken = """
    @torch.compile(backend="eager")
    def breaks(x):
        torch._dynamo.graph_break()
        return outside(x)

    @torch.compiler.disable
    def outside(x):
        return x.cos()

    breaks(torch.randn(3, 6))
    torch.randn(2).cos().tan()
    """
    rules = [UnsupportedOpsConstraint(denied={"aten.sin", "aten.cos", "aten.tan"})]
    report = debug_script(script(CALLS + textwrap.dedent(broken)), constraints=rules)
    found = {(one.op, one.stage) for one in report.constraints.violations}
    assert {op for op, _ in found} == {"aten.sin.default", "aten.cos.default"}
    assert ("aten.cos.default", "outside") in found, "what was never meant to be compiled does not count"


def test_a_strict_run_stops_at_the_first_violation(script: Callable[..., Path]) -> None:
    rules = [DtypeConstraint(allowed_dtypes={"bfloat16"})]
    report = debug_script(script(), constraints=rules, strict=True)
    assert [(one.step, one.code) for one in report.failures] == [("compile", "TP1001")]
    assert report.summary.total_graphs == 1


def raises(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    raise RuntimeError("no such hardware")


@pytest.mark.parametrize("catches", [False, True])
def test_a_backend_that_raises_is_a_failure_although_the_script_may_go_on(
    script: Callable[..., Path], catches: bool
) -> None:
    end = (
        "try:\n    module(torch.randn(4, 6))\nexcept Exception:\n    print('gone on')\n" if catches else CALLS
    )
    report = debug_script(script(end), backend=raises)
    assert [(one.step, one.message) for one in report.failures] == [
        ("compile", "RuntimeError: no such hardware")
    ]


def test_a_script_that_takes_too_long_is_left_behind(script: Callable[..., Path]) -> None:
    report = debug_script(script(CALLS + "import time\ntime.sleep(3600)"), timeout_s=20)
    assert report.summary.total_graphs == 4
    assert [one.code for one in report.failures] == ["TP1022"]


def test_several_threads_of_a_script_are_seen(script: Callable[..., Path]) -> None:
    threads = """
    import threading
    def work(number):
        torch.compile(lambda x: x * number + 1, backend="eager")(torch.randn(number))
    all = [threading.Thread(target=work, args=(number,)) for number in (2, 3, 4)]
    [one.start() for one in all], [one.join() for one in all]
    """
    report = debug_script(script(threads))
    assert report.status == "pass" and report.summary.total_graphs == 3
    assert report.guards is not None and len({one.thread for one in report.guards.compilations}) == 3


def test_a_script_that_compiles_nothing_proves_nothing(script: Callable[..., Path]) -> None:
    report = debug_script(script("print('done')"))
    assert report.status == "fail" and "nothing was compiled" in report.failures[0].message


def test_torch_is_left_as_it_was(script: Callable[..., Path]) -> None:
    from torch._dynamo.eval_frame import _TorchDynamoContext
    from torch._dynamo.output_graph import OutputGraph

    before = OutputGraph.call_user_compiler, _TorchDynamoContext.__call__
    debug_script(script("raise ValueError"), constraints=[DtypeConstraint(allowed_dtypes={"float32"})])
    assert (OutputGraph.call_user_compiler, _TorchDynamoContext.__call__) == before
    assert threading.active_count() >= 1 and "__main__" in sys.modules


def test_what_cannot_be_run_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def (")
    for path, error in ((tmp_path / "bad.py", CaptureError), (tmp_path / "none.py", SpecError)):
        with pytest.raises(error):
            debug_script(path, root=tmp_path / "runs")
    with pytest.raises(UsageError):
        debug_script(__file__, backend="nonsense", root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_command_runs_a_script_and_minifies_what_failed(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    script(CALLS + "assert sys.argv[1:] == ['--json', '--debug']")
    command = ["debug", "run", "train.py", "--deny", "aten.sin", "--json", "--", "--json", "--debug"]
    assert main(command) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["arguments"] == ["--json", "--debug"] and facts["summary"]["constraint_violations"] == 1
    assert main(["debug", "minify", "torchport-debug", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "constraint" and found["fails_in_fresh_process"] and len(found["operations"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["debug", "run", "train.py", "--runs", "2"],
        ["debug", "run", "train.py", "--no-gradients"],
        ["debug", "run", "train.py", "--dynamic"],
        ["debug", "run", "train.py:build", "--", "x"],
    ],
)
def test_options_that_make_no_sense_are_refused(
    script: Callable[..., Path], arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script()
    assert main(arguments) == 2
    assert "TP0801" in capsys.readouterr().err and not (tmp_path / "torchport-debug").exists()
