"""The folder `.torchport` of a project: what records its model, what fills its port, and an environment of their own.

In: a SPEC. Out: files that are the user's to change. `torchport record` without arguments runs the recorder in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

from torchport.capture.file_names import captured_file
from torchport.errors import CaptureError, UsageError
from torchport.files import write_atomically

FOLDER = ".torchport"
_FACTS, _RECORDER, _WEIGHTS, _TRACES, _ENVIRONMENT = (
    "project.json",
    "recorder.py",
    "weights.py",
    "traces",
    "venv",
)
_RECORDER_TEXT = '''\
"""Records the model of this project. `torchport record` runs it.

A model on the meta device is recorded without weights: only its graph, and the buffers that have values.
"""

from torchport import GoldenRecorder
from torchport.capture.spec import load_spec

subject = load_spec({spec!r})
GoldenRecorder({traces!r}).record(subject.model, *subject.args, **subject.kwargs)
'''
_WEIGHTS_TEXT = '''\
"""Fills the port of this project with the weights of a checkpoint: python weights.py CHECKPOINT OUT."""

import sys

from torchport.cli import main

if len(sys.argv) != 3:
    sys.exit(__doc__)
sys.exit(
    main(
        ["weights", "extract", sys.argv[1], "--manifest", {manifest!r}, "--recorded-buffers", "--out", sys.argv[2]]
    )
)
'''


def init(spec: str, folder: Path, *, name: str, environment: bool) -> dict[str, Any]:
    """Makes the folder. Nothing that is there is written over."""
    place = folder / FOLDER
    if place.exists():
        raise UsageError(
            "TP0801",
            f"{place} is there already",
            where=str(place),
            fix="Change what is in it, or remove it first.",
        )
    traces = place / _TRACES
    manifest = captured_file(traces, name, "manifest")
    texts = {
        _RECORDER: _RECORDER_TEXT.format(spec=_from_anywhere(spec), traces=str(traces.resolve())),
        _WEIGHTS: _WEIGHTS_TEXT.format(manifest=str(manifest.resolve())),
        _FACTS: json.dumps({"schema": 1, "name": name}) + "\n",
    }
    for file, text in texts.items():
        write_atomically(place / file, text)
    traces.mkdir()
    write_atomically(place / ".gitignore", f"/{_ENVIRONMENT}\n/{_TRACES}\n")
    if environment:
        _make_environment(place / _ENVIRONMENT)
    return {
        "name": name,
        "recorder": str(place / _RECORDER),
        "weights": str(place / _WEIGHTS),
        "traces": str(traces),
        "environment": str(place / _ENVIRONMENT) if environment else None,
    }


def record_project(folder: Path) -> dict[str, Any]:
    """Runs the recorder of the project in a folder, with the project's own Python if it has one."""
    place = folder / FOLDER
    try:
        name = json.loads((place / _FACTS).read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "TP0801",
            f"there is no project in {folder}: {place / _FACTS} is missing or wrong",
            fix="Give a SPEC with --name and --out, or run `torchport init SPEC` first.",
        ) from error
    python = place / _ENVIRONMENT / "bin" / "python"
    command = [str(python) if python.exists() else sys.executable, "-m", "torchport", "record", "--json"]
    command += ["--script", str(place / _RECORDER), "--name", str(name), "--out", str(place / _TRACES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise CaptureError(
            "TP0206", f"the recorder ended with {done.returncode}", where=str(place / _RECORDER)
        ) from error
    if "error" in result:
        facts = result["error"]
        raise CaptureError(facts["code"], facts["message"], where=facts["where"], fix=facts["fix"])
    result.pop("schema", None)
    return result


def _from_anywhere(spec: str) -> str:
    """The same SPEC, with the path of its file in full."""
    file, colon, function = spec.rpartition(":")
    return f"{Path(file).resolve()}{colon}{function}" if file.endswith(".py") else spec


def _make_environment(place: Path) -> None:
    """An environment that has what this one has, and in which more can be installed without changing this one."""
    venv.create(place, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in here)
    write_atomically(place / "lib" / version / "site-packages" / "torchport_base.pth", lines)
