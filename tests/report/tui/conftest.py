"""Driving the dashboard without a terminal."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import pytest_textual_snapshot
from textual.pilot import Pilot

from torchport.report.tui.app import Dashboard

Steps = Callable[[Pilot], Awaitable[None]]

# The plugin names the files by a field that syrupy has since renamed.
pytest_textual_snapshot.SVGImageExtension.file_extension = "svg"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    pytestconfig.option.snapshot_report = ".pytest_cache/snapshot_report.html"
    for name in ("NO_COLOR", "EDITOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


def drive(app: Dashboard, steps: Steps, size: tuple[int, int] = (80, 24), notices: bool = False) -> None:
    """Run the dashboard on a screen of this size, and let `steps` press its keys."""

    async def run() -> None:
        async with app.run_test(size=size, notifications=notices) as pilot:
            await pilot.pause()
            await steps(pilot)

    asyncio.run(run())


def on_screen(app: Dashboard) -> str:
    """The characters that the screen shows, line by line."""
    width, _ = app.size
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    segments = app.console.render(update, app.console.options.update(width=width))
    return "".join(segment.text for segment in segments if not segment.control)


async def until(pilot: Pilot, holds: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for something that comes by itself."""
    for _ in range(int(seconds / 0.05)):
        if holds():
            await pilot.pause()
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come")
