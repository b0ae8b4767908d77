"""Many ports in one crate: a module each, one `cargo check` for all, one program that is each of them by its name.

In: ports that were made as any other. Out: what the compiler says of each, and the same ports, ready to be checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchport.events import Say
from torchport.porting.port import Port
from torchport.targets.candle import cache
from torchport.targets.candle.artifact import CandleArtifact
from torchport.targets.candle.build import find_cargo, shared_crates
from torchport.targets.candle.project import AUDIO, RUNTIME, cargo_toml, crate_name, lock_for

MAIN = """\
//! Runs the model whose name this program was called by.

fn main() -> candle::Result<()> {{
    let called = std::env::args().next().unwrap_or_default();
    let name = std::path::Path::new(&called).file_name().and_then(|name| name.to_str());
    match name.unwrap_or_default() {{
{arms}
        other => candle::bail!("no model is called {{other}}"),
    }}
}}
"""


_ALLOWED = ("-A", "clippy::eq_op")
"""What a model may do: `x - x` is what its author wrote."""


@dataclass
class _Shared(CandleArtifact):
    """The project of a port whose program is that of the whole crate, under the port's name."""

    def prepare(self, say: Say) -> None:
        assert self.program is not None


class Crate:
    """A crate with the Rust of many ports, by their names, which must be identifiers."""

    def __init__(self, folder: Path, ports: Mapping[str, Port]):
        self.folder, self.ports = folder.resolve(), dict(ports)
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        self.package = f"programs-{digest}"

    def without(self, names: set[str]) -> Crate:
        return Crate(self.folder, {name: port for name, port in self.ports.items() if name not in names})

    def faults(self) -> dict[str, tuple[str, str]]:
        """The ports that the compiler refuses or that clippy finds fault with: `compile` or `lint`, and what is said.

        A compiler that stops at names looks at no types: what is found is left out, and the rest is looked at again.
        """
        found: dict[str, tuple[str, str]] = {}
        while True:
            new = self.without(set(found))._diagnosed()
            found |= new
            if not any(kind == "compile" for kind, _ in new.values()):
                return found

    def build(self) -> None:
        """Makes every port ready to be checked."""
        self._write()
        done = self._cargo(["build"])
        if done.returncode != 0:
            raise AssertionError(f"ports that compile alone do not compile together:\n{done.stderr}")
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        for name, port in self.ports.items():
            program = programs / name
            program.unlink(missing_ok=True)
            program.symlink_to(cache.target_folder() / "debug" / self.package)
            port.artifact = _Shared(port.artifact.folder, port.artifact.name, program)

    def _diagnosed(self) -> dict[str, tuple[str, str]]:
        self._write()
        done = self._cargo(["clippy", "--lib", "--message-format", "json", "--", *_ALLOWED])
        found: dict[str, dict[str, list[str]]] = {}
        for file, kind, message in _messages(done.stdout):
            place = re.search(r"src/(\w+)/", file)
            if place is None:
                raise AssertionError(f"the crate itself does not compile: {message}")
            found.setdefault(place.group(1), defaultdict(list))[kind].append(message)
        if done.returncode != 0 and not found:
            raise AssertionError(f"cargo failed:\n{done.stderr}")
        worst = {name: min(kinds) for name, kinds in found.items()}
        return {name: (kind, "\n".join(found[name][kind])) for name, kind in worst.items()}

    def _cargo(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(cache.target_folder()),
            "CARGO_TERM_COLOR": "never",
        }
        return subprocess.run(
            [find_cargo(), *command], cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def _write(self) -> None:
        source = self.folder / "src"
        for name, port in self.ports.items():
            written = port.artifact.folder / "src"
            model, main = ((written / file).read_text() for file in ("model.rs", "main.rs"))
            own = crate_name(port.artifact.name)
            main = main.replace(f"use {own}::model::", "use super::model::").replace(
                "fn main()", "pub fn main()"
            )
            _write_if_changed(source / name / "model.rs", model)
            _write_if_changed(source / name / "main.rs", main)
            _write_if_changed(source / name / "mod.rs", "pub mod main;\npub mod model;\n")
        _write_if_changed(source / "lib.rs", "".join(f"pub mod {name};\n" for name in self.ports))
        arms = "\n".join(f'        "{name}" => programs::{name}::main::main(),' for name in self.ports)
        _write_if_changed(source / "main.rs", MAIN.format(arms=arms))
        shared = shared_crates()
        crates = {name: str(shared / name) for name in (RUNTIME, AUDIO)}
        manifest = cargo_toml(self.package, "programs", self.package, "src", crates)
        _write_if_changed(self.folder / "Cargo.toml", manifest)
        if not (self.folder / "Cargo.lock").is_file():
            (self.folder / "Cargo.lock").write_text(lock_for(self.package, [*crates]))


def _messages(output: str) -> Iterator[tuple[str, str, str]]:
    """The file, the kind and the text of each message about the crate."""
    for line in output.splitlines():
        item = json.loads(line) if line.startswith("{") else {}
        message = item.get("message")
        if item.get("reason") != "compiler-message" or not message["spans"]:
            continue
        by_clippy = message["code"] is not None and message["code"]["code"].startswith("clippy::")
        kind = "lint" if by_clippy or message["level"] != "error" else "compile"
        spans = message["spans"]
        yield next((s for s in spans if s["is_primary"]), spans[0])["file_name"], kind, message["rendered"]


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
