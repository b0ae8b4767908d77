"""The documentation is true: its commands run, its output is what comes out, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from benchmarks import zoo
from torchport import Port
from torchport.capture.manifest import read_manifest
from torchport.cli.app import app
from torchport.parity.tolerance import FEW, NoiseFloor
from torchport.targets.candle import build, cache
from torchport.targets.candle.project import RUNTIME, cargo_toml

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
USING = ROOT / "docs/using-a-port.md"
NOT_RUN = ("git clone ", "cd torchport", "make demo", "source .venv/bin/activate", "cargo run ")
"""Set-up, and what builds candle anew."""


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if not line.startswith(NOT_RUN)]


def run(command: list[str], cwd: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with the README's model in it, and what each of the README's commands printed there."""
    folder = tmp_path_factory.mktemp("readme")
    model = next(block for block in blocks(ROOT / "README.md", "python") if block.startswith("# tiny.py\n"))
    (folder / "tiny.py").write_text(model)
    printed = {command: run(shlex.split(command), folder) for command in commands(ROOT / "README.md")}
    yield folder, printed


def test_every_command_of_the_readme_runs(answers: tuple[Path, dict[str, str]]) -> None:
    _, printed = answers
    assert all(command.startswith("torchport ") for command in printed)
    assert {command.split()[1] for command in printed} >= {"port", "check", "record", "codegen"}


def test_the_output_shown_is_what_comes_out(answers: tuple[Path, dict[str, str]]) -> None:
    _, printed = answers
    shown = next(block for block in blocks(ROOT / "README.md", "text") if block.startswith("PASS"))
    real = next(text for command, text in printed.items() if command.startswith("torchport port"))
    assert _without_numbers(shown)[:3] == _without_numbers(real)[:3]
    for line in shown.splitlines():
        if line.startswith(("PASS", "Project", "Capture", "Report")):
            assert line in [text.rstrip() for text in real.splitlines()]


def _without_numbers(text: str) -> list[str]:
    """The words of each line, with the numbers left out, which differ between machines."""
    lines = [re.sub(r"[\d.,\[\]e-]+", " ", line).split() for line in text.splitlines()]
    return [" ".join(line) for line in lines if line]


def test_the_rust_shown_is_what_is_generated(answers: tuple[Path, dict[str, str]]) -> None:
    folder, _ = answers
    (shown,) = blocks(ROOT / "README.md", "rust")
    assert shown in (folder / "torchport-out/tiny/rust/src/model.rs").read_text()


def test_the_failure_shown_is_what_comes_out(answers: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, _ = answers
    shutil.copytree(folder, tmp_path / "tiny", dirs_exist_ok=True)
    source = tmp_path / "tiny/torchport-out/tiny/rust/src/model.rs"
    source.write_text(source.read_text().replace("ops::gelu(", "ops::gelu_tanh("))
    command = [str(Path(sys.executable).parent / "torchport"), "check", "torchport-out/tiny"]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path / "tiny", env=wide, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    blocks_shown = blocks(ROOT / "README.md", "text")
    (shown,) = [block for block in blocks_shown if block.startswith("FAIL  tiny")]
    real = _without_numbers(done.stdout.replace(f"{folder}/", ""))
    for line in _without_numbers(shown):
        assert line in real


def test_the_python_of_the_readme_runs(answers: tuple[Path, dict[str, str]]) -> None:
    folder, _ = answers
    code = next(block for block in blocks(ROOT / "README.md", "python") if "torchport.port(" in block)
    (folder / "api.py").write_text(code)
    assert run([sys.executable, "api.py"], folder).count("\n") == 3


@pytest.fixture(scope="module")
def library(answers: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of `docs/using-a-port.md` in the place of the port's own, on crates that are built already."""
    folder, _ = answers
    project = tmp_path_factory.mktemp("library")
    shutil.copytree(folder / "torchport-out/tiny/rust", project, dirs_exist_ok=True)
    (program,) = blocks(USING, "rust")
    (project / "src/main.rs").write_text(program)
    name, crates = "library-of-tiny", {RUNTIME: str(build.shared_crates() / RUNTIME)}
    manifest = cargo_toml(name, "tiny", name, str(project / "src"), crates)
    (project / "Cargo.toml").write_text(manifest.replace("[workspace]", 'serde_json = "1"\n\n[workspace]'))
    target = cache.target_folder()
    command = ["cargo", "build", "--offline", "--manifest-path", str(project / "Cargo.toml")]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    with cache.in_use(lambda _: None):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target / "debug" / "library-of-tiny"


def test_a_port_is_used_as_a_library_as_described(
    answers: tuple[Path, dict[str, str]], library: Path
) -> None:
    assert run([str(library)], answers[0]).strip() == "[5, 16, 64]"


def test_the_dependencies_of_the_page_are_those_of_a_port(answers: tuple[Path, dict[str, str]]) -> None:
    project = answers[0] / "torchport-out/tiny/rust"
    (shown,) = (tomllib.loads(block) for block in blocks(USING, "toml"))
    real = tomllib.loads((project / "Cargo.toml").read_text())
    for name in ("candle", "candle-nn"):
        assert shown["dependencies"][name] == real["dependencies"][name]
    assert shown["dependencies"]["tiny"]["path"] == "torchport-out/tiny/rust"
    assert real["lib"]["name"] == "tiny"


def test_another_checkpoint_runs_as_described(answers: tuple[Path, dict[str, str]]) -> None:
    folder, _ = answers
    for block in blocks(USING, "python"):
        name = block.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(block)
        run([sys.executable, name], folder)
    port = Port.open(folder / "torchport-out/tiny")
    port.artifact.prepare(lambda _: None)
    (command,) = [block for block in blocks(USING, "sh") if "finetuned" in block]
    given = shlex.split(command.replace("\\\n", " ").partition(" -- ")[2])
    run([str(port.artifact.program), *given], folder)
    model = runpy.run_path(str(folder / "tiny.py"))["tiny"]()[0]
    model.load_state_dict(load_file(folder / "finetuned.safetensors"))
    expected = model(load_file(folder / "inputs.safetensors")["x"])
    (made,) = load_file(folder / "outputs.safetensors").values()
    torch.testing.assert_close(made, expected.detach())


@pytest.mark.slow
def test_the_test_of_the_readme_passes_and_needs_no_cargo(tmp_path: Path) -> None:
    code = next(
        block for block in blocks(ROOT / "README.md", "python") if block.startswith("# test_norm.py\n")
    )
    (tmp_path / "test_norm.py").write_text(code)
    assert "1 passed" in run([sys.executable, "-m", "pytest", "-q", "test_norm.py"], tmp_path)


def test_the_readme_lists_every_command_and_no_other() -> None:
    table = re.findall(r"^\| `torchport (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert table == commands + [group.name for group in app.registered_groups]


def test_the_readme_names_every_model_that_the_tests_prove() -> None:
    supported = (ROOT / "README.md").read_text().partition("## What is supported")[2].lower()
    classes = {"encoder_layer": "transformerencoderlayer", "attention": "multiheadattention"}
    for name in zoo.PROVEN:
        label = name.removesuffix("_norm_first")
        assert classes.get(label, label) in supported, name


def test_contributing_lists_targets_that_the_makefile_has() -> None:
    listed = set(re.findall(r"^\| `make ([\w-]+)`", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        "setup",
        "demo",
        "test",
        "test-fast",
        "lint",
        "zoo",
        "bench",
        "faults",
        "honest",
        "operations",
        "fuzz",
        "fuzz-files",
        "chromium",
        "lock",
    }
    assert listed == named <= targets


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:src|crates|tests|benchmarks|examples)/[\w/.-]+)`", text)
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_no_machine_is_named(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link
    assert not re.search(r"(?<!\w)/(?:home|root|work|tmp|usr)/", text)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("manifest")
    (folder / "examples").symlink_to(ROOT / "examples")
    (command,) = commands(ROOT / "docs/manifest.md")
    run(shlex.split(command), folder)
    (path,) = folder.rglob("*_manifest.json")
    return read_manifest(path)[1]


@pytest.mark.parametrize("example", [b for b in blocks(ROOT / "docs/manifest.md", "json") if "dims" not in b])
@pytest.mark.slow
def test_each_example_is_part_of_a_real_manifest(manifest: dict[str, Any], example: str) -> None:
    assert _is_part(json.loads(example), manifest)


def _is_part(shown: Any, real: Any) -> bool:
    """Fields may be left out, and items of a list of objects."""
    if isinstance(shown, dict):
        return all(key in real and _is_part(value, real[key]) for key, value in shown.items())
    if isinstance(shown, list) and any(isinstance(item, dict | list) for item in shown):
        return all(any(_is_part(item, other) for other in real) for item in shown)
    return bool(shown == real)


@pytest.mark.slow
def test_every_field_of_a_manifest_is_described(manifest: dict[str, Any]) -> None:
    text = (ROOT / "docs/manifest.md").read_text()
    described = set(re.findall(r"`(\w+)`|\"(\w+)\":", text))
    words = {word for pair in described for word in pair}
    fields = {*manifest, *manifest["modules"][0], *manifest["calls"][0], *manifest["symbols"][0]}
    fields |= {field for module in manifest["modules"] for node in module["nodes"] for field in node}
    assert fields <= words


def test_verdicts_are_described_with_the_numbers_that_the_rules_use() -> None:
    text = " ".join((ROOT / "docs/verdicts.md").read_text().split())
    assert f"one of n < {FEW} elements" in text
    assert f"at most {NoiseFloor().multiple:g} floors" in text
    assert NoiseFloor().name in text
