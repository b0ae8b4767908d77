"""What ports to candle need on a machine: cargo, the compiler, rustfmt; clippy and a built candle are good to have."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial

from torchport.files import cache_directory
from torchport.targets.base import Diagnosis

_RUSTUP = "Install Rust from https://rustup.rs and open a new terminal."


def _tool(command: str, fix: str) -> Diagnosis:
    path = shutil.which(command)
    if path is None:
        return Diagnosis(command, "missing", "not found", fix)
    text = _ask(path, "--version")
    if text is None:
        return Diagnosis(command, "missing", f"{path} does not run", fix)
    return Diagnosis(command, "ok", text)


def _clippy() -> Diagnosis:
    path = shutil.which("cargo-clippy")
    text = None if path is None else _ask(path, "--version")
    if text is None:
        return Diagnosis("clippy", "optional", "not found", "Run `rustup component add clippy`.")
    return Diagnosis("clippy", "ok", text)


def _ask(*command: str) -> str | None:
    """The first line that a program prints; None if it does not run."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else ""


def _candle() -> Diagnosis:
    built = next(cache_directory().glob("target/*/deps/libcandle_core-*.rlib"), None)
    if built is None:
        fix = "The first port builds it, which takes a few minutes once."
        return Diagnosis("candle", "optional", "not built yet", fix)
    return Diagnosis("candle", "ok", f"built in {built.parent.parent}")


REQUIREMENTS = (
    partial(_tool, "cargo", _RUSTUP),
    partial(_tool, "rustc", _RUSTUP),
    partial(_tool, "rustfmt", "Run `rustup component add rustfmt`."),
    _clippy,
    _candle,
)
