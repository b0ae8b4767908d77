"""A pytest plugin: the fixture `assert_parity`, and `--torchport-report DIR` to keep the reports of what failed.

torch is imported when the fixture is used, and not before: pytest loads this module at every start.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torchport.runs.report import Report

OPTION = "--torchport-report"
_INI = "torchport_report"
_PROPERTY = "torchport_report"
_FAILED = pytest.StashKey[list[tuple[str | None, str]]]()
"""For each parity check of a test that failed, what its error does not say, and where its report is."""
_MOST_OF_A_NAME = 80


def pytest_addoption(parser: pytest.Parser) -> None:
    purpose = "keep the report and the traces of every parity check that fails in DIR, a directory for each"
    parser.getgroup("torchport").addoption(OPTION, metavar="DIR", default=None, help=purpose)
    parser.addini(_INI, f"where to keep reports of torchport, as {OPTION} does", default="")


def pytest_configure(config: pytest.Config) -> None:
    """That reports cannot be kept is said before the tests run."""
    folder = _folder(config)
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".torchport"
        probe.mkdir(exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"{OPTION} {folder}: cannot be written to: {error.strerror}") from error
    shutil.rmtree(probe, ignore_errors=True)


def _folder(config: pytest.Config) -> Path | None:
    given = config.getoption(OPTION)
    if given:
        return Path(config.invocation_params.dir, given)
    ini = config.getini(_INI)
    return Path(config.rootpath, ini) if ini else None


@pytest.fixture
def assert_parity(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Report]:
    """`torchport.assert_parity`, which leaves the report of a check that fails where the test's report says."""
    from torchport.errors import ParityError
    from torchport.testing import assert_parity as check

    checks = 0

    def assert_parity(*args: Any, out: str | Path | None = None, **options: Any) -> Report:
        __tracebackhide__ = True
        nonlocal checks
        checks += 1
        kept = _folder(request.config) or tmp_path_factory.getbasetemp() / "torchport"
        place = kept / _safe_name(request.node.nodeid, checks) if out is None else Path(out)
        if out is None:
            shutil.rmtree(place, ignore_errors=True)
        is_worth_keeping = out is not None
        try:
            return check(*args, out=place, **options)
        except ParityError as error:
            is_worth_keeping = True
            text = _failed_verdict(place)
            # What the error says is printed with the test, and need not be printed again.
            said = None if error.message == text else text
            request.node.stash.setdefault(_FAILED, []).append((said, str(place)))
            raise
        finally:
            if not is_worth_keeping:
                shutil.rmtree(place, ignore_errors=True)

    return assert_parity


def _safe_name(test: str, nth: int) -> str:
    """A file name for a check: what can be read of the test's id, and a hash of all of it."""
    file, _, rest = test.partition("::")
    readable = re.sub(r"[^0-9A-Za-z_.-]+", "-", f"{Path(file).stem}-{rest}").strip("-.")[:_MOST_OF_A_NAME]
    name = f"{readable}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return name if nth == 1 else f"{name}-{nth}"


def _failed_verdict(place: Path) -> str:
    """The verdict of the report that failed: that of the gradients where the forward pass is right."""
    from torchport.runs.folder import REPORT_FILE
    from torchport.runs.report import Report
    from torchport.testing import describe

    for file in (place / REPORT_FILE, place / "gradients" / REPORT_FILE):
        if file.is_file():
            report = Report.from_json(file.read_text(encoding="utf-8"))
            if not report.passed:
                return describe(report)
    return f"no report was written to {place}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    for text, place in item.stash.get(_FAILED, []):
        if text is not None:
            report.sections.append(("torchport", text))
        report.user_properties.append((_PROPERTY, place))
    item.stash[_FAILED] = []
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Where the reports are, of all workers: what they found comes with the tests' reports."""
    found: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, place in getattr(report, "user_properties", ()):
                if name == _PROPERTY:
                    found.setdefault(place, report.nodeid)
    if _folder(config) is None or not found:
        return
    terminalreporter.section("torchport")
    for place, test in sorted(found.items()):
        terminalreporter.write_line(f"{test}: {place}")
