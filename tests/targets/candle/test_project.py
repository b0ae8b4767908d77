"""The cargo project around generated code: the flags with which its crates are compiled."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tomllib
from pathlib import Path

import pytest
import torch

from torchport.capture.recorder import record
from torchport.files import cache_directory
from torchport.targets.candle.build import build, find_cargo
from torchport.targets.candle.project import RUNTIME, write_project
from torchport.targets.candle.writer import generate

pytestmark = pytest.mark.builds

COMPILER = """\
#!/bin/sh
# Notes how the runtime crate is compiled, and stops there, so that nothing is.
case " $* " in
*" --crate-name torchport_runtime "*) printf '%s\\n' "$@" > "$NOTED"; exit 1 ;;
esac
exec "$@"
"""
RELEASE_COMPILER = """\
#!/bin/sh
# Notes how the first crate is compiled that is optimised, and stops there.
case " $* " in
*" opt-level=3 "*) printf '%s\\n' "$@" > "$NOTED"; exit 1 ;;
esac
exec "$@"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "rust"
    write_project(folder, generate(record(torch.nn.Linear(4, 3), torch.randn(2, 4)).graph), "linear")
    return folder


def compiler_flags(folder: Path, scratch: Path) -> list[str]:
    """The arguments that cargo gives to rustc for the runtime crate when it builds the project in `folder`."""
    build_at = {"CARGO_TARGET_DIR": str(cache_directory() / "target")}
    return noted_flags(folder, scratch, COMPILER, "RUSTC_WORKSPACE_WRAPPER", ["--package", RUNTIME], build_at)


def release_flags(folder: Path, scratch: Path) -> list[str]:
    """The arguments that cargo gives to rustc for the first crate of a release."""
    build_at = {"CARGO_TARGET_DIR": str(scratch / "target")}
    return noted_flags(folder, scratch, RELEASE_COMPILER, "RUSTC_WRAPPER", ["--release"], build_at)


def noted_flags(
    folder: Path, scratch: Path, script: str, wrapper: str, options: list[str], variables: dict[str, str]
) -> list[str]:
    """The arguments that a script, which cargo takes for rustc, has noted."""
    compiler = scratch / "compiler.sh"
    compiler.write_text(script)
    compiler.chmod(0o755)
    noted = scratch / "flags.txt"
    environment = {**os.environ, **variables, wrapper: str(compiler), "NOTED": str(noted)}
    command = [find_cargo(), "build", "--offline", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert noted.is_file(), f"the crate was never compiled:\n{done.stderr}"
    return noted.read_text().splitlines()


def is_optimised(flags: list[str]) -> bool:
    """Asked to optimise, rustc leaves out assertions and checks for overflow, unless it is told otherwise."""
    asked = {"opt-level=3", "debug-assertions=on", "overflow-checks=on"}
    return asked & set(flags) == {"opt-level=3"}


def test_a_project_of_its_own_compiles_the_runtime_crate_with_optimisation(
    project: Path, tmp_path: Path
) -> None:
    build(project, "linear", lambda _: None)  # so that what the runtime crate needs is compiled
    assert is_optimised(compiler_flags(project, tmp_path))


def test_without_its_own_profile_the_runtime_crate_would_not_be_optimised(
    project: Path, tmp_path: Path
) -> None:
    build(project, "linear", lambda _: None)
    manifest = project / "Cargo.toml"
    profile = f"[profile.dev.package.{RUNTIME}]"
    assert profile in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(profile, "[profile.dev.package.serde]"))
    assert not is_optimised(compiler_flags(project, tmp_path))


def test_the_crates_of_a_release_are_optimised_across_their_borders(project: Path, tmp_path: Path) -> None:
    manifest = project / "Cargo.toml"
    assert tomllib.loads(manifest.read_text())["profile"]["release"]["lto"] == "thin"
    assert "linker-plugin-lto" in release_flags(project, tmp_path)
    manifest.write_text(manifest.read_text().replace('lto = "thin"', ""))
    assert "linker-plugin-lto" not in release_flags(project, tmp_path)


@pytest.mark.parametrize("name", ["half", "candle_nn", "build", "match", "3d", "été"])
def test_a_model_may_be_called_like_a_crate_or_a_folder_of_cargo(name: str, tmp_path: Path) -> None:
    graph = record(torch.nn.Linear(4, 3), torch.randn(2, 4)).graph
    write_project(tmp_path / "rust", generate(graph), name)
    # Crates of other platforms are not downloaded.
    command = [find_cargo(), "metadata", "--format-version", "1", "--locked", "--offline"]
    command += ["--filter-platform", f"{platform.machine()}-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=tmp_path / "rust", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [package["name"] for package in json.loads(done.stdout)["packages"]]
    own = project_name(tmp_path / "rust")
    assert names.count(own) == 1 and f'name = "{own}"' in (tmp_path / "rust" / "Cargo.lock").read_text()


def project_name(folder: Path) -> str:
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    name: str = manifest["package"]["name"]
    return name
