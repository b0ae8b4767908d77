"""HTML pages that need nothing else: no network, no other file.

In: a template, scripts, and data. Out: one HTML text with script, style and data inside. Text from outside is escaped
by the template or, in the data, so that it cannot end its script; only scripts that are written here may run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from torchport.errors import UsageError

_HERE = Path(__file__).parent
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What cannot be seen, or turns what is around it, and is no line."""
REPORT_STYLE = _HERE / "report.css"
"""What pages with a verdict have beside the look of all pages."""


def must_be_installed(page: str, packages: Iterable[str]) -> None:
    """Refuses to make a page if a package that it is made with is missing."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            message = f"{page} needs {package}, which is not installed"
            fix = "Run `pip install 'torchport[html]'`."
            raise UsageError("TP0803", message, fix=fix) from error


def filled(template: Path, **given: Any) -> str:
    """A template with what it is given, all of it escaped unless the template says that it is safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(template.name).render(**given)
    # A name may hold half a surrogate pair, which cannot be written to a file.
    return text.encode("utf-8", "replace").decode("utf-8")


def _shown(value: object) -> object:
    """Text that has control characters in it with these in words, such as \\x1b; lines stay."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), value)


def theme() -> str:
    """The script that runs before a page is drawn."""
    return _read(_HERE / "theme.js")


def in_one_scope(scripts: Iterable[Path]) -> str:
    """The scripts of a page, after those that all pages have, in a scope of their own."""
    parts = [_read(path) for path in (_HERE / "dom.js", _HERE / "frame.js", *scripts)]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def style(*own: Path) -> str:
    """The look of all pages, and what one has beside it."""
    return "".join(_read(path) for path in (_HERE / "base.css", *own))


def policy(scripts: Iterable[str]) -> str:
    """The content security policy: nothing is fetched, and only the scripts of the page run, known by their hashes."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts if script)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def as_script(data: Any) -> str:
    """JSON that can stand inside a script element, whatever text is in it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
