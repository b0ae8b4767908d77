"""The lines at the top: the verdict or what is being done, and the steps with their seconds."""

from rich.text import Text

from torchport.events import STEPS
from torchport.report import phrases
from torchport.report.tui import facts
from torchport.report.tui.job import Job
from torchport.runs.report import Report

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {"pass": "bold black on green", "fail": "bold white on red"}


def verdict(report: Report) -> Text:
    style, measured = _STYLES.get(report.status, "bold black on yellow"), phrases.measure(report)
    return Text.assemble(
        (f" {phrases.word(report)} ", style),
        " ",
        (phrases.headline(report), "bold"),
        f"\n{measured}" if measured else "",
    )


def doing(job: Job, tick: int) -> Text:
    """The line on a job that is running or has failed."""
    if job.error is not None:
        return Text.assemble((" ERROR ", "bold white on red"), " ", (job.subject, "bold"))
    word = " STOPPING " if job.stopped else " PORTING "
    turning = SPINNER[tick % len(SPINNER)]
    return Text.assemble(
        (word, "bold black on cyan"), f" {turning} ", (job.subject, "bold"), f": {job.message}"
    )


def taken(report: Report) -> Text:
    """The steps of a finished run."""
    seconds = report.seconds
    parts = [_step(facts.PASS, name, value) for name, value in seconds.items()]
    total = [Text(f"{sum(seconds.values()):.1f} s", style="bold")] if seconds else []
    return Text(" ").join([*total, *parts])


def taking(job: Job, tick: int) -> Text:
    """The steps of a job: those that are done, the one being done, and those still to do."""
    seconds = job.seconds()
    ended = not job.alive
    parts = []
    for name in (*STEPS, *(step for step in seconds if step not in STEPS)):
        if name not in seconds:
            parts.append(Text(f"{facts.NOTHING} {name}", style="dim"))
            continue
        if job.has_failed(name) or (ended and name == job.step):
            sign = facts.FAIL
        else:
            sign = SPINNER[tick % len(SPINNER)] if name == job.step else facts.PASS
        parts.append(_step(sign, name, seconds[name]))
    return Text(" ").join(parts)


def _step(sign: str, name: str, seconds: float) -> Text:
    colour = {facts.PASS: "green", facts.FAIL: "red"}.get(sign, "cyan")
    return Text.assemble((sign, colour), f" {name} {seconds:.1f}")
