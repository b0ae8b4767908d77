"""The doctor says what is missing and how to get it, and is ill only for what is needed."""

import json
import platform
import re
import stat
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from torchport.cli import diagnosis
from torchport.debug.internals import needs as private_parts
from torchport.debug.internals.needs import Need

from .conftest import Answer

Torchport = Callable[..., Answer]
TOOLS = ("cargo", "rustc", "rustfmt", "cargo-clippy")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with stand-ins for the Rust tools, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} 1.99.0\n")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def found(torchport: Torchport) -> tuple[int, dict[str, dict[str, str]]]:
    answer = torchport("doctor", "--json")
    findings = json.loads(answer.stdout)["findings"]
    return answer.code, {finding["name"]: finding for finding in findings}


def test_a_healthy_machine(torchport: Torchport, tools: Path) -> None:
    code, findings = found(torchport)
    assert code == 0
    for name in ("python", "torch", "cargo", "rustc", "rustfmt", "clippy", "cache"):
        assert findings[name]["status"] == "ok"
    assert findings["cargo"]["found"] == "cargo 1.99.0"
    assert "Everything that is needed is there" in torchport("doctor").stdout


@pytest.mark.parametrize("tool", ["cargo", "rustc", "rustfmt"])
def test_a_missing_tool_is_named_with_the_way_to_get_it(torchport: Torchport, tools: Path, tool: str) -> None:
    (tools / tool).unlink()
    code, findings = found(torchport)
    assert code == 1
    assert findings[tool]["status"] == "missing" and "rustup" in findings[tool]["fix"]
    assert "MISSING" in torchport("doctor").stdout


def test_a_tool_that_does_not_run_is_missing(torchport: Torchport, tools: Path) -> None:
    (tools / "cargo").write_text("#!/bin/sh\nexit 3\n")
    code, findings = found(torchport)
    assert code == 1 and "does not run" in findings["cargo"]["found"]


def test_clippy_is_optional(torchport: Torchport, tools: Path) -> None:
    (tools / "cargo-clippy").unlink()
    code, findings = found(torchport)
    assert code == 0 and findings["clippy"]["status"] == "optional"


@pytest.mark.parametrize("version", ["2.10.2", "2.16.0", "3.0.0+cu130"])
def test_a_torch_out_of_range_is_ill(
    torchport: Torchport, tools: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(diagnosis, "version", lambda name: version)
    code, findings = found(torchport)
    assert code == 1
    assert findings["torch"]["found"] == f"{version}, which is not >=2.11,<2.16"


def test_packages_that_are_not_installed(
    torchport: Torchport, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(diagnosis, "version", nothing)
    code, findings = found(torchport)
    assert code == 1
    assert findings["torch"]["status"] == "missing"
    assert findings["pandas"]["status"] == "optional"


def test_candle_is_found_once_it_is_built(torchport: Torchport, tools: Path) -> None:
    assert found(torchport)[1]["candle"]["status"] == "optional"
    deps = diagnosis.cache_directory() / "target" / "debug" / "deps"
    deps.mkdir(parents=True)
    (deps / "libcandle_core-1234.rlib").touch()
    assert found(torchport)[1]["candle"]["status"] == "ok"


def test_ranges_and_extras_are_those_of_the_package(
    torchport: Torchport, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    monkeypatch.setattr(diagnosis, "version", lambda name: "1.0")
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("3", "10", "0"))
    _, findings = found(torchport)
    assert findings["python"]["found"].endswith(f"which is not {project['requires-python']}")
    for name in ("python", "torch"):
        assert findings[name]["status"] == "missing"
    assert f"torch{findings['torch']['found'].rpartition(' ')[2]}" in project["dependencies"]
    for extra in ("html", "tui", "dataframe", "zoo"):
        names = {re.match(r"[\w-]+", line).group() for line in project["optional-dependencies"][extra]}
        assert names <= findings.keys()
    assert "pytest" not in findings


def test_a_package_that_is_not_installed_has_no_ranges(
    torchport: Torchport, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_PACKAGE", "no-such-package")
    code, findings = found(torchport)
    assert code == 0 and findings["torch"]["status"] == "ok" and "textual" not in findings


def compiling(torchport: Torchport) -> tuple[int, list[dict[str, str]]]:
    answer = torchport("doctor", "--json")
    findings = json.loads(answer.stdout)["findings"]
    return answer.code, [finding for finding in findings if finding["name"] == "torch.compile"]


def test_the_private_parts_of_torch_are_where_they_should_be(torchport: Torchport, tools: Path) -> None:
    code, (finding,) = compiling(torchport)
    assert code == 0 and finding["status"] == "ok"


def test_a_private_part_that_moved_is_named_with_what_still_works(
    torchport: Torchport, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = "torch._inductor.compile_fx"
    moved = Need("compile", inside, "compile_fx_as_it_was", "kernels of Inductor")
    nested = Need("traces", "torch._inductor.config", "trace.as_they_were", "IR of Inductor")
    gone = Need("module", "torch._no_such_module", "anything", "IR of Inductor")
    there = Need("compile", inside, "compile_fx", "graphs of Inductor")
    monkeypatch.setattr(private_parts, "needs", lambda: [moved, nested, gone, there])
    code, (kernels, ir, rest) = compiling(torchport)
    assert code == 0, "ports work all the same"
    assert "kernels of Inductor" in kernels["found"] and f"{inside}.compile_fx_as_it_was" in kernels["found"]
    assert "trace.as_they_were" in ir["found"] and "torch._no_such_module" in ir["found"]
    assert kernels["fix"] and ir["fix"]
    assert rest["found"] == "still works: graphs of Inductor"
    assert "still works" in torchport("doctor").stdout
