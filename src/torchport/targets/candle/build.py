"""Building and running a generated project: one target directory for all, so that candle is compiled once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from pathlib import Path

from torchport.errors import BuildError, DiskError, RunError
from torchport.events import Say
from torchport.files import cache_directory, write_atomically
from torchport.targets.base import Mode, Stopped, Todo
from torchport.targets.candle.project import CARGO_TOML, RUNTIME, copy_runtime, crate_name


def build(folder: Path, name: str, say: Say) -> Path:
    """Compiles the project in `folder` and gives the program's path."""
    cargo = find_cargo()
    cache = cache_directory()
    runtime = shared_runtime()
    crate = crate_name(name)
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    package = f"{crate}-{digest}"
    place = cache / "build" / package
    manifest = CARGO_TOML.format(
        package=package, crate=crate, binary=package, source=folder.resolve() / "src", runtime=runtime
    )
    _write_if_changed(place / "Cargo.toml", manifest)
    lock = (folder / "Cargo.lock").read_text().replace(f'name = "{crate}"\n', f'name = "{package}"\n')
    if not (place / "Cargo.lock").is_file():
        write_atomically(place / "Cargo.lock", lock)
    target = cache / "target"
    _compile([cargo, "build", "--manifest-path", str(place / "Cargo.toml")], target, say)
    return target / "debug" / package


def find_cargo() -> str:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BuildError("TP0501", "cargo is not installed", fix="install Rust: https://rustup.rs")
    return cargo


def shared_runtime() -> Path:
    """The runtime crate under a path that changes only with its content."""
    with tempfile.TemporaryDirectory() as scratch:
        copy_runtime(Path(scratch))
        files = sorted(p for p in Path(scratch).rglob("*") if p.is_file())
        digest = hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:12]
    place = cache_directory() / "runtime" / digest / RUNTIME
    copy_runtime(place)
    return place


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        write_atomically(path, text)


def _compile(command: list[str], target: Path, say: Say) -> None:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    tail: deque[str] = deque(maxlen=60)
    compiled = 0
    for line in process.stderr:
        tail.append(line)
        if "Blocking waiting for file lock" in line:
            say("waiting for another build to end")
        found = re.match(r"\s+Compiling (\S+)", line)
        if found:
            compiled += 1
            say(f"building: {found.group(1)} ({compiled} crates so far; candle is built once per machine)")
    if process.wait() != 0:
        text = "".join(tail)
        if "No space left on device" in text:
            raise DiskError("TP0330", f"the disk is full while building in {target}", where=str(target))
        errors = re.search(r"^error.*", text, re.MULTILINE | re.DOTALL)
        raise BuildError(
            "TP0502", f"cargo build failed:\n{(errors.group() if errors else text).strip()[-2500:]}"
        )


def run(program: Path, folder: Path, trace: Path, mode: Mode, record: Path, name: str) -> Stopped | None:
    """Runs the port along a trace; gives why it stopped, if it did not come to its end."""
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
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
    left = _TODO.search(message)
    todo = None if left is None else Todo(op=left["op"], layer=name, reason=left["text"])
    return Stopped(message=message, todo=todo)


_TODO = re.compile(r"TODO\(torchport\): (?P<text>(?P<op>\S+).*)")


def _without_backtrace(text: str) -> str:
    """What was said before the list of frames."""
    return re.split(r"\n\s*(?:stack backtrace:|Stack backtrace:|0: )", text.strip(), maxsplit=1)[0].strip()
