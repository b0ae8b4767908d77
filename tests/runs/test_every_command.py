"""Every command that reads a run works on each kind of run: of any target, and of the version before."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import torchport as api
from torchport.cli import main
from torchport.report.tui.app import Dashboard
from torchport.runs.folder import RUN_FILE
from torchport.runs.run import Run

from ..report.tui.conftest import drive, on_screen
from ..targets.conformance import SABOTAGE, model_and_inputs

pytestmark = pytest.mark.slow

BEFORE = Path(__file__).parent / "before" / "run"
CULPRIT = "blocks.0"


def made_by(target: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        model, inputs = model_and_inputs()
        port = api.port(model, inputs, target=target, out=folder, name="net")
        SABOTAGE[target].gelu_as_tanh(port.artifact.folder)
        assert port.check().status == "fail"

    return make


def of_the_version_before(folder: Path) -> None:
    shutil.copytree(BEFORE, folder)


@pytest.fixture(
    scope="module",
    params=[
        "torch",
        pytest.param("candle", marks=pytest.mark.builds),
        pytest.param("before", marks=pytest.mark.builds, id="the version before"),
    ],
)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    (of_the_version_before if request.param == "before" else made_by(request.param))(folder)
    return folder


@pytest.fixture
def run(kept: Path, tmp_path: Path) -> Path:
    """A copy, so that one test does not see what another did."""
    return Path(shutil.copytree(kept, tmp_path / "run"))


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_check_finds_the_same_culprit_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = json_of(capsys, "check", str(run))
    found = report["first_divergence"]
    assert (code, report["status"], found["layer"]) == (1, "fail", CULPRIT)
    assert found["operation"]["op"] == "aten.gelu.default" and found["suggestions"][0]["kind"] == "gelu_tanh"


def test_report_names_the_files_of_a_run_where_they_are_now(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = json_of(capsys, "report", str(run))
    named = [report["report"], *report["files"].values(), report["first_divergence"]["snippet"]]
    assert all(Path(place).is_relative_to(run) and Path(place).exists() for place in named), named


@pytest.mark.parametrize("format", ["text", "json", "markdown", "junit", "sarif", "github", "html"])
def test_report_shows_it_in_every_format(
    run: Path, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    out = tmp_path / "shown"
    assert main(["report", str(run), "--format", format, "--out", str(out)]) == 1
    assert CULPRIT in out.read_text()


def test_the_page_has_the_source_of_an_artifact_that_has_one(run: Path) -> None:
    opened = Run.open(run)
    sources = opened.sources
    if opened.files.about.target == "torch":
        assert sources is None
    else:
        assert sources is not None and sources.language == "Rust"
        assert sources.unit_of[CULPRIT] == "Block"
        assert any("gelu_tanh" in line for one in sources.units["Block"] for line in one.lines)


def test_the_dashboard_opens_at_the_culprit(run: Path) -> None:
    app = Dashboard(Run.open(run))

    async def steps(_: object) -> None:
        assert CULPRIT in on_screen(app) and "FAIL" in on_screen(app)

    drive(app, steps, (120, 40))


def test_minify_reduces_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = json_of(capsys, "minify", str(run))
    assert (code, found["operations"]) == (0, ["aten.gelu.default"])


def test_diff_compares_it_with_its_capture_and_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, difference = json_of(capsys, "diff", str(run), str(run))
    assert (code, difference["passed"], difference["order"]) == (0, True, "execution")
    trace = run / "capture" / "net_trace.safetensors"
    code, difference = json_of(capsys, "diff", str(trace), str(run), "--only", "^blocks")
    assert code == 1 and difference["first_difference"]["name"].startswith(CULPRIT)


def test_a_folder_says_what_it_is_of(run: Path, kept: Path) -> None:
    opened = Run.open(run).files
    assert opened.name == "net" and opened.project.is_dir()
    assert (run / RUN_FILE).exists() == (opened.about.options != {} or opened.about.target == "torch")
