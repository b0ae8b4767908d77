"""The pytest plugin: the fixture, the section of a failing test, and the reports that are kept."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport.runs.run import Run

pytest_plugins = ["pytester"]
PLUGIN = ["-p", "torchport.pytest_plugin"]
ROOT = Path(__file__).resolve().parents[1]

SUITE = """
    import pytest, torch
    from torch import nn

    def net(eps=1e-5):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16, eps=eps)).eval()

    X = torch.ones(4, 16).cumsum(-1).sin()

    def test_passes(assert_parity):
        assert assert_parity(net(), net(), X, gradients=True).passed

    @pytest.mark.parametrize("eps", [1e-3, 1e-2], ids=["a/b", "a b"])
    def test_fails(assert_parity, eps):
        assert_parity(net(), net(), X)
        assert_parity(net(), net(eps), X)

    def test_breaks(assert_parity):
        assert_parity(net(), lambda x: 1 / 0, X)
"""


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """A run inside this process forgets what it imported, which torch does not survive."""
    model = nn.Linear(2, 2)
    torchport.assert_parity(model, model, torch.ones(1, 2), gradients=True)


@pytest.fixture(autouse=True)
def _runs_inside_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other plugins keep things in this process, and ours is named, installed or not. In CI, pytest prints more."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *options)


def test_pytest_finds_the_plugin_where_torchport_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"torchport": "torchport.pytest_plugin"}


def test_torch_is_not_imported_before_the_fixture_is_used() -> None:
    code = "import sys, torchport.pytest_plugin; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_failing_test_says_once_what_the_culprit_is_and_where_the_report_is(suite: pytest.Pytester) -> None:
    result = run(suite, "--basetemp", str(suite.path / "base"))
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*torchport.errors.ParityError: TP0701: Sequential to torch: *",
            "*1 of 3 layers diverge*",
            "*culprit    1 (torch.nn.modules.normalization.LayerNorm)",
            "*report     *report.json",
            "*RunError: TP0603: the candidate fails on these inputs: ZeroDivisionError*",
        ]
    )
    printed = result.stdout.str()
    assert "- torchport -" not in printed and printed.count("culprit    1 (torch.nn") == 2, "once a test"
    kept = sorted((suite.path / "base" / "torchport").iterdir())
    assert len(kept) == 2 and all(not Run.open(folder).report.passed for folder in kept)
    assert "torchport = " not in result.stdout.str(), "no summary when nothing is asked to be kept"


def test_reports_of_failing_checks_are_kept_and_listed(suite: pytest.Pytester) -> None:
    result = run(suite, "--torchport-report", "kept", "--junit-xml", "junit.xml")
    result.assert_outcomes(passed=1, failed=3)
    folders = sorted((suite.path / "kept").iterdir())
    assert len(folders) == 2 and all(
        folder.name.startswith("test_suite-test_fails-a-b-") for folder in folders
    )
    for folder in folders:
        run_of_it = Run.open(folder)
        assert (
            run_of_it.report.first_divergence is not None and run_of_it.report.first_divergence.layer == "1"
        )
        assert run_of_it.golden is not None and run_of_it.lockstep is not None
        result.stdout.fnmatch_lines([f"test_suite.py::test_fails*: {folder}"])
    assert str(folders[0]) in (suite.path / "junit.xml").read_text()


@pytest.mark.slow
def test_workers_keep_their_reports_in_one_place(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess(
        *PLUGIN, "-p", "xdist", "-n", "2", "-k", "fails", "--torchport-report", "kept"
    )
    result.assert_outcomes(failed=2)
    folders = sorted((suite.path / "kept").iterdir())
    assert len(folders) == 2
    result.stdout.fnmatch_lines_random([f"test_suite.py::test_fails*: {folder}" for folder in folders])


def test_the_directory_can_be_set_in_the_configuration(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\ntorchport_report = from_ini")
    run(suite, "-k", "a/b").assert_outcomes(failed=1, deselected=3)
    assert len(list((suite.path / "from_ini").iterdir())) == 1


def test_a_second_run_replaces_the_report_of_the_first(suite: pytest.Pytester) -> None:
    for _ in range(2):
        run(suite, "--torchport-report", "kept", "-k", "a/b").assert_outcomes(failed=1, deselected=3)
    assert len(list((suite.path / "kept").iterdir())) == 1


def test_a_directory_that_cannot_be_written_is_said_before_the_tests(suite: pytest.Pytester) -> None:
    (suite.path / "file").write_text("")
    result = suite.runpytest_subprocess(*PLUGIN, "--torchport-report", "file/kept")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--torchport-report *file/kept: cannot be written to: Not a directory*"])
    assert "Traceback" not in result.stderr.str() and "test_passes" not in result.stdout.str()


def test_gradients_that_fail_are_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch
        from torch import nn

        def test_frozen(assert_parity):
            model = nn.Linear(8, 8)
            other = nn.Linear(8, 8)
            other.load_state_dict(model.state_dict())
            other.bias.requires_grad_(False)
            assert_parity(model, other, torch.ones(4, 8), gradients=True, msg="mine")
        """
    )
    result = run(pytester, "--torchport-report", "kept")
    result.stdout.fnmatch_lines(
        ["*TP0701: mine*", "*- torchport -*", "*culprit    bias (gradient of Linear.bias)"]
    )
    (folder,) = (pytester.path / "kept").iterdir()
    assert not Run.open(folder / "gradients").report.passed


def test_an_output_directory_of_the_tests_own_is_left_to_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch
        from torch import nn

        def test_own(assert_parity, tmp_path):
            model = nn.Linear(8, 8)
            assert_parity(model, model, torch.ones(4, 8), out=tmp_path / "mine")
            assert (tmp_path / "mine" / "report.json").is_file()
        """
    )
    run(pytester, "--torchport-report", "kept").assert_outcomes(passed=1)
    assert Path(pytester.path / "kept").is_dir() and not list((pytester.path / "kept").iterdir())
