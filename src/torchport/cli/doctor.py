"""`torchport doctor`: what is installed, what is missing, and how to get it."""

from typing import TYPE_CHECKING

from torchport.cli import options
from torchport.cli.output import console, print_json

if TYPE_CHECKING:
    from torchport.targets.base import Diagnosis

_MARKS = {"ok": ("ok", "green"), "missing": ("MISSING", "bold red"), "optional": ("-", "yellow")}


def doctor(as_json: options.Json = False) -> int:
    """Say what is installed, what is missing, and how to get it.

    Exits with 1 when something that is needed is missing.
    """
    from torchport.cli.diagnosis import diagnose

    findings = diagnose()
    healthy = all(finding.status != "missing" for finding in findings)
    if as_json:
        status = "pass" if healthy else "fail"
        print_json({"status": status, "findings": [finding._asdict() for finding in findings]})
    else:
        _print(findings, healthy)
    return 0 if healthy else 1


def _print(findings: "list[Diagnosis]", healthy: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        word, style = _MARKS[finding.status]
        table.add_row(Text(word, style=style), Text(finding.name), Text(finding.found))
        if finding.fix is not None:
            table.add_row("", "", Text(finding.fix))
    stdout = console()
    stdout.print(table)
    stdout.print("Everything that is needed is there." if healthy else "Something is missing.")
