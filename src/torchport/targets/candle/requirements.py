"""What ports to candle need on a machine: cargo, the compiler, rustfmt; clippy and a built candle are good to have."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial

from torchport.files import cache_directory
from torchport.targets.base import Finding

_RUSTUP = "Install Rust from https://rustup.rs and open a new terminal."


def _tool(command: str, fix: str) -> Finding:
    path = shutil.which(command)
    if path is None:
        return Finding(command, "missing", "not found", fix)
    text = _ask(path, "--version")
    if text is None:
        return Finding(command, "missing", f"{path} does not run", fix)
    return Finding(command, "ok", text)


def _clippy() -> Finding:
    path = shutil.which("cargo-clippy")
    text = None if path is None else _ask(path, "--version")
    if text is None:
        return Finding("clippy", "optional", "not found", "Run `rustup component add clippy`.")
    return Finding("clippy", "ok", text)


def _ask(*command: str) -> str | None:
    """The first line that a program prints; None if it does not run."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else ""


def _candle() -> Finding:
    built = next(cache_directory().glob("target/*/deps/libcandle_core-*.rlib"), None)
    if built is None:
        fix = "The first port builds it, which takes a few minutes once."
        return Finding("candle", "optional", "not built yet", fix)
    return Finding("candle", "ok", f"built in {built.parent.parent}")


REQUIREMENTS = (
    partial(_tool, "cargo", _RUSTUP),
    partial(_tool, "rustc", _RUSTUP),
    partial(_tool, "rustfmt", "Run `rustup component add rustfmt`."),
    _clippy,
    _candle,
)
