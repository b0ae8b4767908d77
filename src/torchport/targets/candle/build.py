"""Building and running a generated project: one target directory for all, so that candle is compiled once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from torchport.errors import BuildError, DiskError, RunError
from torchport.files import write_atomically
from torchport.targets.base import Progress
from torchport.targets.candle import cache
from torchport.targets.candle.project import CARGO_TOML, RUNTIME, copy_runtime, crate_name, runtime_digest


def build(folder: Path, name: str, progress: Progress) -> Path:
    """Compiles the project in `folder` and gives the program's path."""
    cargo = find_cargo()
    crate = crate_name(name)
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    package = f"{crate}-{digest}"
    with cache.in_use(progress):
        place = cache.build_folder() / package
        manifest = CARGO_TOML.format(
            package=package,
            crate=crate,
            binary=package,
            source=folder.resolve() / "src",
            runtime=shared_runtime(),
        )
        _write_if_changed(place / "Cargo.toml", manifest)
        lock = (folder / "Cargo.lock").read_text().replace(f'name = "{crate}"\n', f'name = "{package}"\n')
        if not (place / "Cargo.lock").is_file():
            write_atomically(place / "Cargo.lock", lock)
        cache.note_use(place)
        target = cache.target_folder()
        _compile(cargo, place / "Cargo.toml", target, progress)
    return target / "debug" / package


def find_cargo() -> str:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BuildError("TP0501", "cargo is not installed", fix="install Rust: https://rustup.rs")
    return cargo


def shared_runtime() -> Path:
    """The runtime crate under a path that changes only with its content."""
    place = cache.runtime_folder() / runtime_digest() / RUNTIME
    copy_runtime(place)
    return place


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        write_atomically(path, text)


def _compile(cargo: str, manifest: Path, target: Path, progress: Progress) -> None:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"}
    command = [
        cargo,
        "build",
        "--message-format",
        "json-render-diagnostics",
        "--manifest-path",
        str(manifest),
    ]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=60)
    crates = CrateCount(lambda: count_crates(cargo, manifest))
    for line in process.stdout:
        if not line.startswith("{"):
            tail.append(line)
        if "Blocking waiting for file lock" in line:
            progress("waiting for another build to end")
        if (message := crates.message(line)) is not None:
            progress(message)
    if process.wait() != 0:
        text = "".join(tail)
        if "No space left on device" in text:
            raise DiskError("TP0330", f"the disk is full while building in {target}", where=str(target))
        errors = re.search(r"^error.*", text, re.MULTILINE | re.DOTALL)
        raise BuildError(
            "TP0502", f"cargo build failed:\n{(errors.group() if errors else text).strip()[-2500:]}"
        )


class CrateCount:
    """Counts the crates of a build as cargo names them, in lines of `cargo build --message-format json-…`."""

    def __init__(self, total: Callable[[], int | None]) -> None:
        """`total` is asked only if a crate has to be compiled."""
        self._ask_total = total
        self._total: int | None = None
        self._reached: set[tuple[str, str]] = set()

    def message(self, line: str) -> str | None:
        """What to show for a line that begins a crate, or None for any other line."""
        if (fresh := _fresh_crate(line)) is not None:
            self._reached.add(fresh)
            return None
        found = re.match(r"\s+Compiling (\S+) v(\S+)", line)
        if found is None:
            return None
        if not self._total:
            self._total = self._ask_total()
        name, version = found.groups()
        self._reached.add((name, version))
        return f"building: {name} ({self._number()} crates; candle is built once per machine)"

    def _number(self) -> str:
        reached = len(self._reached)
        return f"{reached} of {max(self._total, reached)}" if self._total else f"{reached}"


def _fresh_crate(line: str) -> tuple[str, str] | None:
    """Name and version of the crate that a line of JSON reports as compiled before."""
    if not line.startswith('{"reason":"compiler-artifact"'):
        return None
    artifact = json.loads(line)
    return _name_and_version(artifact["package_id"]) if artifact["fresh"] else None


def _name_and_version(package: str) -> tuple[str, str]:
    """A package's id is `URL#NAME@VERSION`, or `URL#VERSION` if the URL ends in the name."""
    url, _, rest = package.rpartition("#")
    name, at, version = rest.rpartition("@")
    return (name, version) if at else (url.rpartition("/")[2], rest)


def count_crates(cargo: str, manifest: Path) -> int | None:
    """The number of crates that a build on this machine needs, or None if cargo does not say."""
    command = [cargo, "tree", "--edges", "normal,build", "--prefix", "none", "--manifest-path", str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True)
    return len(crates_in_tree(done.stdout)) if done.returncode == 0 else None


def crates_in_tree(text: str) -> set[tuple[str, str]]:
    """Names and versions in the output of `cargo tree --prefix none`, where a crate may come several times."""
    return {(name, version) for name, version in re.findall(r"^(\S+) v(\S+)", text, re.MULTILINE)}


def run(program: Path, folder: Path, trace: Path, mode: str, record: Path) -> str | None:
    """Runs the port along a trace. Gives what it complained of, or None if it came to its end."""
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    stop_file(record).unlink(missing_ok=True)
    command = [str(program), "--weights", str(folder / "model.safetensors")]
    command += ["--config", str(folder / "config.json")]
    command += ["--check", str(trace), "--mode", mode, "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    message = _without_backtrace(done.stderr)[-1500:] or f"it ended with status {done.returncode}"
    if "No space left on device" in message:
        raise DiskError("TP0330", f"the disk is full while the port runs: {message}", where=str(record))
    if not record.is_file():
        raise RunError(
            "TP0601", f"the port stopped before it computed anything: {message}", where=str(folder)
        )
    return message


class ReachedTodo(BaseModel):
    """The operation that nothing maps yet, at which a port stopped."""

    model_config = ConfigDict(frozen=True)

    op: str
    message: str


class StoppedRun(BaseModel):
    """Why a port stopped, in its own words."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = Field(alias="schema")
    message: str
    todo: ReachedTodo | None


def stop_file(record: Path) -> Path:
    """The file in which a port that records to `record` writes why it stopped."""
    return record.with_name(f"{record.name}.stopped.json")


def read_stop(record: Path) -> StoppedRun | None:
    """Why the port that recorded to `record` stopped, or None if it came to its end or was killed."""
    path = stop_file(record)
    return StoppedRun.model_validate_json(path.read_bytes()) if path.is_file() else None


def _without_backtrace(text: str) -> str:
    """The text before the list of frames."""
    return re.split(r"\n\s*(?:stack backtrace:|Stack backtrace:|0: )", text.strip(), maxsplit=1)[0].strip()
