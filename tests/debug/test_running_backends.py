"""Backends in a debugging run: good ones, wrong ones, and those that raise, hang, or give something else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from torchport.debug.constraints import UnsupportedOpsConstraint
from torchport.debug.folders import REPORT
from torchport.errors import UsageError

from .small_run import run, wrong_relu


def test_a_wrong_kernel_is_named_with_its_line(tmp_path: Path) -> None:
    report = run(tmp_path, backend=wrong_relu)
    assert report.status == "fail" and report.summary.kernel_diff_passed is False
    assert report.kernel_diff is not None and report.kernel_diff.culprit is not None
    culprit = report.kernel_diff.culprit
    assert culprit.operation == "aten.relu.default" and "act" in culprit.layer
    assert culprit.source is not None and Path(culprit.source.rpartition(":")[0]).name == "small_run.py"


def test_a_backend_that_raises_leaves_what_was_gathered(tmp_path: Path) -> None:
    def refuses(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        raise RuntimeError("no such hardware")

    report = run(tmp_path, backend=refuses)
    assert report.status == "fail" and any("no such hardware" in one.message for one in report.failures)
    assert report.failures[0].message == "RuntimeError: no such hardware"
    assert report.failures[0].where is not None and Path(__file__).name in report.failures[0].where
    assert report.summary.total_graphs == 1 and report.folder is not None
    assert (Path(report.folder) / REPORT).exists()


def test_a_backend_that_hangs_is_left_behind(tmp_path: Path) -> None:
    def hangs(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def wait(*args: Any) -> Any:
            time.sleep(3600)

        return wait

    report = run(tmp_path, backend=hangs, timeout_s=3.0, compare=False)
    assert report.status == "fail" and "took more than 3 s" in report.failures[0].message


def test_what_hangs_while_it_compiles_does_not_hang_the_comparison(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def hangs(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        goes_on.wait(60)
        return module.forward

    began = time.monotonic()
    try:
        report = run(tmp_path, backend=hangs, timeout_s=2.0)
        assert time.monotonic() - began < 30
    finally:
        goes_on.set()
    assert report.status == "fail" and [failure.step for failure in report.failures] == ["compile"]
    assert any("still hangs" in note for note in report.notes)


def test_an_unknown_backend_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no backend 'nonsense'") as raised:
        run(tmp_path / "root", backend="nonsense")
    assert "inductor" in str(raised.value.fix) and not (tmp_path / "root").exists()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("backend", ["mock", "eager", "aot_eager", "mock_accelerator"])
def test_every_backend_has_its_backward_graph_held_to_constraints(
    tmp_path: Path, backend: str, strict: bool
) -> None:
    rules = [UnsupportedOpsConstraint(denied={"aten.threshold_backward"})]
    report = run(tmp_path, backend=backend, constraints=rules, gradients=True, strict=strict, compare=False)
    assert [(one.stage, one.op) for one in report.constraints.violations] == [
        ("backward", "aten.threshold_backward.default")
    ]
    assert [failure.step for failure in report.failures] == ["compile"] * strict


@pytest.mark.parametrize("backend", ["mock", "eager"])
def test_without_gradients_no_backward_graph_is_checked(tmp_path: Path, backend: str) -> None:
    report = run(tmp_path, backend=backend, compare=False)
    assert {graph.stage for graph in report.graphs} == {"dynamo", "forward"}


OWN_BACKENDS = """
from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities


class Tiny(AcceleratorAdapter):
    capabilities = AcceleratorCapabilities("tiny", alignment=4)

    def run_node(self, op, args, kwargs):
        return op(*args, **kwargs)


tiny = Tiny()


def plain(module, inputs):
    return module.forward


def made():
    return plain
"""


@pytest.mark.parametrize(
    ("backend", "name"),
    [("Tiny", "tiny"), ("tiny", "tiny"), ("plain", "plain"), ("made", "plain")],
)
def test_a_backend_may_be_in_a_file(tmp_path: Path, backend: str, name: str) -> None:
    (tmp_path / "own_backends.py").write_text(OWN_BACKENDS)
    report = run(tmp_path, backend=f"{tmp_path / 'own_backends.py'}:{backend}", compare=False)
    assert report.backend == name and report.summary.total_graphs == 1
    assert (report.status == "fail") == (name == "tiny"), "the adapter's own limits hold"


@pytest.mark.skipif(torch.__version__ < "2.12", reason="this torch cannot compile in two threads at once")
def test_another_thread_that_compiles_does_not_disturb_a_run(tmp_path: Path) -> None:
    done, errors = threading.Event(), []

    def compile_meanwhile() -> None:
        number = 1
        while not done.is_set():
            number += 1
            try:
                torch.compile(torch.nn.ReLU(), backend="aot_eager")(torch.randn(number % 5 + 2))
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=compile_meanwhile)
    thread.start()
    try:
        report = run(tmp_path, gradients=True)
    finally:
        done.set()
        thread.join()
    assert not errors and report.status == "pass" and report.summary.total_graphs == 1


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda found: tuple(one[..., :1] for one in found), "shape"),
        (lambda found: (), "values"),
        (lambda found: (*found, found[0]), "values"),
        (lambda found: None, "NoneType"),
    ],
)
def test_a_backend_that_gives_something_else_is_blamed_by_name(
    tmp_path: Path, gives: Callable[[Any], Any], message: str
) -> None:
    def strange(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return lambda *args: gives(module(*args))

    report = run(tmp_path, backend=strange)
    assert report.status == "fail" and report.summary.kernel_diff_passed is False
    assert report.kernel_diff is not None and report.kernel_diff.culprit is not None
    assert message in str(report.kernel_diff.culprit.reason) and report.summary.total_graphs == 1
