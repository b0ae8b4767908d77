"""Building and running a generated project: one target directory for all, so that candle is compiled once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections import deque
from pathlib import Path

from torchport.errors import BuildError, DiskError
from torchport.events import Say
from torchport.files import write_atomically
from torchport.targets.candle import cache
from torchport.targets.candle.crate_count import CrateCount, count_crates
from torchport.targets.candle.project import (
    AUDIO,
    RUNTIME,
    cargo_toml,
    copy_crates,
    crate_name,
    lock_for,
    runtime_digest,
)


def build(folder: Path, name: str, say: Say) -> Path:
    """Compiles the project in `folder` and gives the program's path."""
    cargo = find_cargo()
    crate = crate_name(name)
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    package = f"{crate}-{digest}"
    with cache.in_use(say):
        place = cache.build_folder() / package
        shared = shared_crates()
        crates = {name: str(shared / name) for name in (RUNTIME, AUDIO) if _needs(folder, name)}
        manifest = cargo_toml(package, crate, package, str(folder.resolve() / "src"), crates)
        _write_if_changed(place / "Cargo.toml", manifest)
        # Not that of the project, which may have been made when the crates needed others.
        _write_if_changed(place / "Cargo.lock", lock_for(package, [*crates]))
        cache.note_use(place)
        target = cache.target_folder()
        _compile(cargo, place / "Cargo.toml", target, say)
    return target / "debug" / package


def _needs(folder: Path, name: str) -> bool:
    return f'name = "{name}"\n' in (folder / "Cargo.lock").read_text()


def find_cargo() -> str:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BuildError("TP0501", "cargo is not installed", fix="install Rust: https://rustup.rs")
    return cargo


def shared_crates() -> Path:
    """A folder with the crates of torchport, whose path changes only with their content."""
    place = cache.runtime_folder() / runtime_digest()
    copy_crates(place)
    return place


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        write_atomically(path, text)


def _compile(cargo: str, manifest: Path, target: Path, say: Say) -> None:
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
            say("waiting for another build to end")
        if (message := crates.message(line)) is not None:
            say(message)
    if process.wait() != 0:
        text = "".join(tail)
        if "No space left on device" in text:
            raise DiskError("TP0330", f"the disk is full while building in {target}", where=str(target))
        errors = re.search(r"^error.*", text, re.MULTILINE | re.DOTALL)
        raise BuildError(
            "TP0502", f"cargo build failed:\n{(errors.group() if errors else text).strip()[-2500:]}"
        )
