"""A port on the dashboard while it is made: steps, layers, prints, errors, and how it is stopped."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot
from textual.widgets import RichLog

from torchport.errors import CaptureError
from torchport.events import STEPS, Event, LayerJudged, Message, StepBegan, StepEnded, Watcher
from torchport.porting.commands import port_spec
from torchport.report.tui import banner, dialogs
from torchport.report.tui.app import Dashboard
from torchport.report.tui.job import Job
from torchport.report.tui.table import LayerTable
from torchport.runs.report import Report

from . import sample
from .conftest import drive, on_screen, until

MLP = Path(__file__).resolve().parents[3] / "examples" / "mlp.py"


@pytest.mark.builds
def test_a_real_port_is_shown_from_the_first_step_to_the_verdict(tmp_path: Path) -> None:
    messages: list[str] = []

    def work(watch: Watcher) -> Report:
        def noted(event: Event) -> None:
            watch(event)
            messages.append(job.message)

        return port_spec(
            f"{MLP}:mlp",
            target="candle",
            out=tmp_path / "mlp",
            name=None,
            dynamic=None,
            hints=None,
            options={},
            rtol=None,
            atol=None,
            watch=noted,
        )

    job = Job(work, "mlp.py:mlp to candle")
    app = Dashboard(job=job)

    def ended() -> bool:
        return app.report is not None or job.error is not None

    async def steps(pilot: Pilot) -> None:
        assert "PORTING" in on_screen(app)
        await until(pilot, ended, 600)
        report = job.result()
        await until(pilot, lambda: "agree" in on_screen(app), 60)
        text = on_screen(app)
        assert report.passed and "PASS" in text and "mlp to candle: all 5 layers agree" in text
        assert tuple(job.layers) == report.layers, "each layer was shown as it was judged"
        assert (*job.seconds(), "explain") == STEPS, "there was nothing to explain"
        for step in STEPS[:-1]:
            assert f"✓ {step}" in text
        for layer in report.layers:
            assert any(line.lstrip("› ").startswith(f"✓  {layer.name} ") for line in text.splitlines())

    drive(app, steps, (100, 40))
    assert "capturing the model" in messages
    assert Report.from_json((tmp_path / "mlp" / "report.json").read_bytes()) == job.report


class Held:
    """Work that goes on when a test lets it."""

    def __init__(self, report: Report | None = None, error: Exception | None = None) -> None:
        self.report, self.error = report, error
        self.gate = threading.Event()

    def __call__(self, watch: Watcher) -> Report:
        watch(StepBegan("compare", "comparing every layer"))
        half = len(sample.failing().report.layers) // 2
        for layer in sample.failing().report.layers[:half]:
            watch(LayerJudged(layer))
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report


def test_layers_turn_up_as_they_are_judged_and_the_culprit_is_selected_at_the_end() -> None:
    work = Held(sample.failing().report)
    job = Job(work, "encoder")
    app = Dashboard(job=job)

    async def steps(pilot: Pilot) -> None:
        table = app.query_one(LayerTable)
        await until(pilot, lambda: len(table.rows) == 10)
        text = on_screen(app)
        assert "PORTING" in text and "10 layers, 1 failing" in text
        assert "✗  encoder.layer.1.attention " in text and "✓  encoder.layer.1.attention.key" in text
        assert table.selected == job.layers[-1], "the newest is followed"
        await pilot.press("c")
        work.gate.set()
        await until(pilot, lambda: app.report is not None)
        assert "FAIL" in on_screen(app) and len(table.rows) == 20
        assert table.selected is not None and table.selected.name == sample.CULPRIT
        assert "✗! encoder.layer.1.attention" in on_screen(app)

    drive(app, steps, (120, 40))


def test_what_is_built_to_explain_is_still_the_explaining() -> None:
    def work(watch: Watcher) -> Report:
        for step in STEPS:
            watch(StepBegan(step, f"the step {step}"))
        watch(Message("building the slice"))
        return sample.failing().report

    job = Job(work, "net")
    job.start()
    job.wait(10)
    assert job.result().status == "fail"
    assert tuple(job.seconds()) == STEPS


def test_a_step_that_has_ended_has_the_seconds_and_the_sign_of_its_event() -> None:
    def work(watch: Watcher) -> Report:
        for step in (StepEnded("build", 61.5), StepEnded("explain", 2.0, failed=True)):
            watch(StepBegan(step.step, "begun"))
            watch(step)
        watch(StepBegan("compare", "comparing"))
        raise RuntimeError("stopped here")

    job = Job(work, "net")
    job.start()
    job.wait(10)
    shown = banner.taking(job, 0).plain
    assert "✓ build 61.5" in shown and "✗ explain 2.0" in shown and "✗ compare 0.0" in shown


def test_only_failing_and_a_filter_hold_for_layers_that_come_later() -> None:
    work = Held(sample.failing().report)
    app = Dashboard(job=Job(work, "encoder"))

    async def steps(pilot: Pilot) -> None:
        await until(pilot, lambda: len(app.layers) == 10)
        await pilot.press("f")
        work.gate.set()
        await until(pilot, lambda: app.report is not None)
        assert [layer.name for layer in app.query_one(LayerTable).rows] == [
            sample.CULPRIT,
            "encoder.layer.1.dense",
        ]

    drive(app, steps)


def test_an_error_is_shown_and_comes_out_of_the_job() -> None:
    error = CaptureError("TP0203", "outputs [differ]", where="head at m.py:3", fix="look there")
    work = Held(error=error)
    job = Job(work, "m.py:net to candle")
    app = Dashboard(job=job)

    async def steps(pilot: Pilot) -> None:
        work.gate.set()
        await until(pilot, lambda: "TP0203" in on_screen(app))
        text = on_screen(app)
        for part in ("ERROR", "error TP0203: outputs [differ]", "head at m.py:3", "look there", "✗ compare"):
            assert part in text
        await pilot.press("down", "n", "c", "o", "e", "f", "l")
        assert "error TP0203: outputs [differ]" in on_screen(app), "no key takes the error away"
        await pilot.press("q")
        assert app.return_code == 0

    drive(app, steps)
    with pytest.raises(CaptureError) as caught:
        job.result()
    assert caught.value is error


def test_what_the_work_prints_is_in_the_log_and_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    def work(watch: Watcher) -> Report:
        print("printed \x1b[31mred\x1b[0m")
        print("complained", file=sys.stderr)
        sys.stdout.write("10 %\r50 %\r100 %\n")
        sys.stdout.buffer.write("bytes ü\n".encode())
        return Report(status="unsupported", target="candle", model="net")

    app = Dashboard(job=Job(work, "net"))

    async def steps(pilot: Pilot) -> None:
        log = app.query_one(RichLog)
        await until(pilot, lambda: len(log.lines) == 4)
        assert [line.text.strip() for line in log.lines] == ["printed red", "complained", "100 %", "bytes ü"]
        assert "printed red" in on_screen(app)
        await pilot.press("l")
        assert "printed red" not in on_screen(app)

    drive(app, steps)
    assert capfd.readouterr() == ("", "")


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_quitting_asks_and_then_ends_the_programs_that_were_started(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "300"])
    pids = tmp_path / "pids"

    def work(watch: Watcher) -> Report:
        watch(Message("building the port"))
        subprocess.run(["sh", "-c", f"sleep 300 & echo $! $$ > {pids}; wait"])
        raise AssertionError("it was to be stopped")

    job = Job(work, "net")
    app = Dashboard(job=job)

    async def steps(pilot: Pilot) -> None:
        await until(pilot, lambda: pids.is_file() and pids.read_text().count(" ") == 1)
        await pilot.press("q")
        assert isinstance(app.screen, dialogs.AskToStop)
        await pilot.press("n")
        assert job.alive and not job.stopped and not isinstance(app.screen, dialogs.AskToStop)
        await pilot.press("ctrl+c")
        await pilot.press("y")
        await until(pilot, lambda: not job.alive, 5)

    drive(app, steps)
    try:
        with pytest.raises(KeyboardInterrupt):
            job.result()
        assert not any(running(int(pid)) for pid in pids.read_text().split())
        assert running(bystander.pid), "it was there before, and is not the job's"
    finally:
        bystander.kill()
        bystander.wait()


def test_a_job_that_is_busy_in_python_stops_too() -> None:
    def work(watch: Watcher) -> Report:
        while True:
            time.sleep(0.01)

    job = Job(work, "net")
    app = Dashboard(job=job)

    async def steps(pilot: Pilot) -> None:
        await pilot.press("q", "y")
        await until(pilot, lambda: not job.alive, 5)

    drive(app, steps)
    assert job.stopped
