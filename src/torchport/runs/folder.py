"""The folder of a run: the one place that knows the names of the files in it.

`run.json` says which target made it, with which options, and where the artifact is. Folders of earlier versions have no
such file; what it would say is worked out from what is there.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from torchport.capture.file_names import Kind, capture_names, captured_file
from torchport.errors import DiskError, ManifestError, ReportError
from torchport.files import write_atomically
from torchport.runs.changing import put_back_if_interrupted
from torchport.targets.base import Mode
from torchport.targets.registry import EARLIER_PROJECT, EARLIER_TARGET

SCHEMA = 1
RUN_FILE = "run.json"
REPORT_FILE = "report.json"
QUANTIZATION_FILE = "quantization.json"
BLOCKS = "quant"
"""The folder of the weights in blocks."""
_CAPTURE = "capture"
_RUN = "run"
_SNIPPETS = "snippets"
_PAGE = "report.html"
_MINIFIED = "minified"
_CHECKS = "checks"
_SIZES = "resized"
_AS_WRITTEN = "written.json"
OF_A_VERDICT = (REPORT_FILE, _PAGE, _RUN, _SNIPPETS, _MINIFIED)
"""What a check writes, and what goes when the verdict does."""
OF_A_PORT = (
    *OF_A_VERDICT,
    RUN_FILE,
    _CAPTURE,
    _CHECKS,
    _SIZES,
    _AS_WRITTEN,
    QUANTIZATION_FILE,
    BLOCKS,
)
"""What a port writes, but for its artifact, and what goes when another port takes the place."""
_AGAIN = "_again"
"""How earlier versions named recordings on other inputs, which they kept among those of the port."""


class RunFile(BaseModel):
    """What `run.json` holds. Fields may be added, never renamed."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    """What the model is called, and so the files of its capture."""
    target: str
    options: dict[str, Any] = Field(default_factory=dict)
    project: str | None = None
    """The folder of the artifact, from the folder of the run; None if the candidate left no files."""
    inputs: str | None = None
    """Whose inputs a check on others than the recorded ones took: a SPEC, or "inputs" if Python gave them."""
    sizes: str | None = None
    """The folder with config and weights of the model at other sizes, from the folder of the run."""


@dataclass(frozen=True)
class RunFolder:
    """A folder with everything that belongs to one port, or to one comparison of two models."""

    path: Path
    about: RunFile

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def project(self) -> Path:
        """The folder of the artifact."""
        return Path(os.path.normpath(self.path / (self.about.project or "project")))

    @property
    def as_written(self) -> Path:
        """What the files of the artifact were when they were generated."""
        return self.path / _AS_WRITTEN

    @property
    def captures(self) -> Path:
        return self.path / _CAPTURE

    @property
    def manifest(self) -> Path:
        return self.captured("manifest")

    def captured(self, kind: Kind) -> Path:
        """A file of the recording."""
        return captured_file(self.captures, self.name, kind)

    def record(self, mode: Mode) -> Path:
        """The trace of what the candidate computed."""
        return record_in(self.path, mode)

    @property
    def report(self) -> Path:
        return self.path / REPORT_FILE

    @property
    def page(self) -> Path:
        return self.path / _PAGE

    @property
    def snippets(self) -> Path:
        return self.path / _SNIPPETS

    def snippet(self, layer: str) -> Path:
        return snippet_in(self.path, layer)

    @property
    def minified(self) -> Path:
        return self.path / _MINIFIED

    @property
    def sizes(self) -> Path:
        """Config and weights of the model at other sizes."""
        return self.path / (self.about.sizes or _SIZES)

    def check(self, name: str, inputs: str) -> RunFolder:
        """The folder of a check of the same artifact on other inputs, which is a run of its own."""
        path = self.path / _CHECKS / name
        project = None if self.about.project is None else os.path.relpath(self.project, path)
        about = self.about.model_copy(update={"project": project, "inputs": inputs, "sizes": None})
        return RunFolder(path, about)

    def free_check(self, name: str, inputs: str) -> RunFolder:
        """The same under that name, or with a number if a check on the inputs of another has it."""
        found, number = self.check(name, inputs), 2
        while (other := _read(found.path / RUN_FILE)) is not None and other.inputs != inputs:
            found, number = self.check(f"{name}_{number}", inputs), number + 1
        return found

    def at_sizes(self) -> RunFolder:
        """The same folder, with config and weights of other sizes in it."""
        return RunFolder(self.path, self.about.model_copy(update={"sizes": _SIZES}))

    def forget_verdict(self) -> None:
        """Removes what belongs to a verdict, before there is another."""
        _remove(self.path, OF_A_VERDICT)

    def forget(self) -> None:
        """Removes what the folder has of an earlier port, which must not be taken for this one's."""
        _remove(self.path, OF_A_PORT)

    def write(self) -> None:
        write_atomically(self.path / RUN_FILE, self.about.model_dump_json(indent=1) + "\n")


def open_folder(directory: str | Path) -> RunFolder:
    """The run in a folder, also in one that an earlier version wrote."""
    path = Path(directory)
    put_back_if_interrupted(path)
    about = _read(path / RUN_FILE)
    return RunFolder(path, about if about is not None else _worked_out(path))


def parts_there(path: Path) -> list[str]:
    """Which parts of a run a folder has, for a message about what is missing."""
    about = _read(path / RUN_FILE)
    project = about.project if about is not None else EARLIER_PROJECT
    return [name for name in (_CAPTURE, project, _RUN) if name and (path / name).is_dir()]


def snippet_in(folder: Path, layer: str) -> Path:
    """The folder of a layer's snippet, in the folder of any run."""
    return folder / _SNIPPETS / file_name(layer)


def record_in(folder: Path, mode: Mode) -> Path:
    """The trace of what the candidate computed, in the folder of any run."""
    return folder / _RUN / f"{mode}.safetensors"


def folder_of_record(trace: Path) -> Path | None:
    """The folder of the run whose record a file is; None if it is no such file."""
    return trace.parent.parent if trace.parent.name == _RUN else None


def is_run(path: Path) -> bool:
    return any((path / name).exists() for name in (RUN_FILE, REPORT_FILE, _RUN, _CAPTURE))


def file_name(layer: str) -> str:
    """A name for a file or folder that belongs to a layer."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "_", layer).strip(".") or "model"


def _remove(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = folder / name
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            message = f"cannot remove {path}, which is of an earlier run: {error.strerror}"
            raise DiskError("TP0330", message, where=str(path)) from error


def _read(file: Path) -> RunFile | None:
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError("TP0345", f"{file.name} cannot be read: {error}", where=str(file)) from error
    try:
        return RunFile.model_validate_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"]) or "its beginning"
        message = f"{file.name} is cut off or wrong at {place}: {wrong['msg']}"
        raise ReportError("TP0345", message, where=str(file)) from error


def _worked_out(path: Path) -> RunFile:
    """What an earlier version would have written."""
    name = _only_capture(path)
    project = EARLIER_PROJECT if (path / EARLIER_PROJECT).is_dir() else None
    return RunFile(name=name, target=EARLIER_TARGET, project=project)


def _only_capture(path: Path) -> str:
    """The name of the one capture in the folder, beside which there may be a recording on other inputs."""
    names = capture_names(path / _CAPTURE)
    ports = sorted(name for name in names if name.removesuffix(_AGAIN) not in names - {name})
    if len(ports) != 1:
        found = f"holds {len(ports)} ports ({', '.join(ports)})" if ports else "holds no port"
        raise ManifestError(
            "TP0301",
            f"{path} {found}",
            where=str(path),
            fix="give the directory that `torchport port --out` wrote, with one port in it",
        )
    return ports[0]
