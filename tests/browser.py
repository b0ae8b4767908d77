"""Pages in a browser: Debian's chromium, with no network, and every request and complaint written down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with the module: playwright's event loop would be in the way of other tests that want one."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: `make chromium` installs it")
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page that is open, what it asked for, and what it complained of."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def wait_for_chart(self) -> None:
        self.page.wait_for_selector("#chart[data-drawn]")

    def selected(self) -> str:
        return self.page.locator("#detail h2 .mono").inner_text()


Opener = Callable[..., Tab]


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens HTML as a file. Whatever it asks for beside itself is refused, and what it asks for is kept."""
    contexts = []

    def opened(html: str, fragment: str = "", **options: object) -> Tab:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        size = {"width": 1280, "height": 900}
        context = chromium.new_context(**{"viewport": size, **options})  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(60_000)
        tab = Tab(context.new_page(), file.as_uri())

        def refuse(route: Route) -> None:
            tab.requests.append(route.request.url)
            route.continue_() if route.request.url.partition("#")[0] == tab.url else route.abort()

        context.route("**/*", refuse)
        tab.page.on(
            "console", lambda said: tab.complaints.append(said.text) if said.type == "error" else None
        )
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.goto(tab.url + fragment)
        return tab

    yield opened
    for context in contexts:
        context.close()
