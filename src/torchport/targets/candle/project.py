"""The cargo project around generated code: it stands alone, with the source of the crates that it calls beside it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from torchport.errors import BuildError
from torchport.files import write_atomically
from torchport.targets.candle import rust
from torchport.targets.candle.writer import Generated

RUNTIME = "torchport-runtime"
AUDIO = "torchport-audio"
"""The crate for sound, which a project has if its model calls it."""

_CARGO_TOML = """\
[package]
name = "{package}"
version = "0.1.0"
edition = "2021"
rust-version = "1.89"

[lib]
name = "{crate}"
path = "{source}/lib.rs"

[[bin]]
name = "{binary}"
path = "{source}/main.rs"

[dependencies]
candle = {{ package = "candle-core", version = "=0.11.1" }}
candle-nn = "=0.11.1"
serde = {{ version = "1", features = ["derive"] }}
{crates}

[workspace]

# The model itself compiles fast; the crates that it stands on are optimised.
[profile.dev]
debug = false
incremental = true

[profile.dev.package."*"]
opt-level = 3
debug-assertions = false
overflow-checks = false

# Inside this folder the crates below are members of the workspace, and "*" leaves members out.
{profiles}
[profile.release]
lto = "thin"
"""

_PROFILE = """\
[profile.dev.package.{crate}]
opt-level = 3
debug-assertions = false
overflow-checks = false
incremental = false
"""

MAIN_RS = """\
//! Runs {model} on the tensors of a file: `cargo run -- inputs.safetensors outputs.safetensors`.

use candle::{{DType, Device, Result}};
use {crate}::model::{{Config, {model}}};
use torchport_runtime::run::Options;

fn main() -> Result<()> {{
    let options = Options::parse()?;
    let device = Device::Cpu;
    let config: Config = options.read_config()?;
    let weights = options.weights(DType::F32, &device)?;
    let model = options.made(|| {model}::new(&config, weights))?;
    let inputs = {inputs};
    options.run(&inputs, &device, |inputs| {{
        {call}
    }})
}}
"""


_NO_CRATES = frozenset(
    (
        "alloc",
        "build",
        "candle",
        "core",
        "deps",
        "examples",
        "incremental",
        "model",
        "proc_macro",
        "std",
        "test",
    )
)
"""Names that Rust, cargo or generated code have given to something else."""


def crate_name(name: str) -> str:
    text = rust.snake(name)
    return f"{text}_model" if text in _NO_CRATES or text in _locked_crates() else text


def cargo_toml(package: str, crate: str, binary: str, source: str, crates: Mapping[str, str]) -> str:
    """The manifest of a project. `crates` has the path of each crate of torchport that it stands on."""
    return _CARGO_TOML.format(
        package=package,
        crate=crate,
        binary=binary,
        source=source,
        crates="\n".join(f'{name} = {{ path = "{path}" }}' for name, path in crates.items()),
        profiles="\n".join(_PROFILE.format(crate=name) for name in crates),
    )


def write_project(folder: Path, generated: Generated, name: str) -> dict[str, Path]:
    """Writes everything but the weights, and gives the files that were written."""
    crate = crate_name(name)
    source = folder / "src"
    files = {
        "model": source / "model.rs",
        "lib": source / "lib.rs",
        "main": source / "main.rs",
        "config": folder / "config.json",
        "cargo": folder / "Cargo.toml",
        "lock": folder / "Cargo.lock",
    }
    write_atomically(files["model"], format_rust(generated.source))
    lib = f"//! {generated.model} on candle.\n\npub mod model;\n"
    write_atomically(files["lib"], lib)
    write_atomically(files["main"], format_rust(_main(generated, crate)))
    write_atomically(files["config"], generated.config_json)
    crates = [RUNTIME, AUDIO] if "torchport_audio" in generated.source else [RUNTIME]
    manifest = cargo_toml(crate, crate, crate, "src", {name: name for name in crates})
    write_atomically(files["cargo"], manifest)
    for name in crates:
        copy_crate(name, folder / name)
    write_atomically(files["lock"], lock_for(crate, crates))
    write_atomically(folder / ".gitignore", "/target\n")
    return files


def _main(generated: Generated, crate: str) -> str:
    args = ", ".join(f"&inputs[{i}]" for i in range(len(generated.inputs)))
    if generated.outputs == 1:
        call = f"Ok(vec![model.forward({args})?])"
    else:
        names = [f"output_{i}" for i in range(generated.outputs)]
        call = f"let {rust.tensors(names)} = model.forward({args})?;\n        Ok(vec![{', '.join(names)}])"
    text = MAIN_RS.format(
        model=generated.model,
        crate=crate,
        inputs=_inputs(generated),
        call=call,
    )
    if generated.is_plain:
        text = text.replace(
            "use candle::{DType, Device, Result};", "use candle::{DType, Device, Module, Result};"
        )
    return text if generated.inputs else text.replace("|inputs|", "|_|")


def _inputs(generated: Generated) -> str:
    """The table of what the model takes; only the names if a dtype is among them that candle lacks."""
    if not generated.inputs:
        return '[""; 0]'
    forms = [form for form in generated.input_forms if form is not None]
    rows = [f'"{name}"' for name in generated.inputs]
    if len(forms) == len(rows):
        rows = [
            f'({name}, DType::{dtype}, "[{shape}]")' for name, (dtype, shape) in zip(rows, forms, strict=True)
        ]
    return f"[{', '.join(rows)}]"


def format_rust(source: str) -> str:
    """The source as rustfmt writes it. Source that rustfmt cannot read is a fault of the generator."""
    program = shutil.which("rustfmt")
    if program is None:
        raise BuildError("TP0503", "rustfmt is not installed", fix="run: rustup component add rustfmt")
    done = subprocess.run([program, "--edition", "2021"], input=source, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError("TP0403", f"the generated Rust is not valid: {done.stderr.strip()[:600]}")
    return done.stdout


def crate_source(name: str) -> Path:
    """The folder of a crate of torchport, in an installed package or in a checkout."""
    here = Path(__file__).resolve()
    for base in (here.parents[2] / "_crates", here.parents[4] / "crates"):
        if (base / name / "Cargo.toml").is_file():
            return base / name
    raise BuildError("TP0502", f"the source of the crate {name} is missing from this installation")


def _lock_source() -> Path:
    base = crate_source(RUNTIME)
    for place in (base.parent / "Cargo.lock", base.parents[1] / "Cargo.lock"):
        if place.is_file():
            return place
    raise BuildError("TP0502", "Cargo.lock is missing from this installation")


@cache
def _locked_crates() -> frozenset[str]:
    """What generated code may depend on: a crate of such a name would not be told from it."""
    return frozenset(
        name.replace("-", "_")
        for name in re.findall(r'^name = "(.+)"$', _lock_source().read_text(), re.MULTILINE)
    )


def copy_crate(name: str, folder: Path) -> None:
    """Copies a crate's sources and manifest to `folder`, without its tests, examples and what only they need."""
    source = crate_source(name)
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and (relative.parts[0] == "src" or relative.name == "Cargo.toml"):
            text = path.read_text()
            if relative.name == "Cargo.toml":
                text = re.sub(r"\n\[dev-dependencies\]\n(?:[^\[].*\n|\n)*", "\n", text)
            target = folder / relative
            if not target.is_file() or target.read_text() != text:
                write_atomically(target, text)


def copy_crates(folder: Path) -> None:
    """Copies all crates of torchport to `folder`, each to a folder of its name."""
    for name in (RUNTIME, AUDIO):
        copy_crate(name, folder / name)


def runtime_digest() -> str:
    """A short name for the content of the crates, as `copy_crates` copies them."""
    with tempfile.TemporaryDirectory() as scratch:
        copy_crates(Path(scratch))
        files = sorted(p for p in Path(scratch).rglob("*") if p.is_file())
        return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:12]


def lock_for(crate: str, crates: Sequence[str] = (RUNTIME,)) -> str:
    """The lock file of a generated crate: the packages that it needs, at the versions of torchport's own lock file.

    `crates` are those of torchport that it stands on.
    """
    head, *texts = re.split(r"(?=\[\[package\]\]\n)", _lock_source().read_text())
    texts = [text.rstrip("\n") + "\n\n" for text in [*texts, _lock_entry(crate, crates)]]
    packages = {_package(text): text for text in texts}
    for (name, version), text in packages.items():
        if name in crates:
            packages[name, version] = _without_lines(text, _dev_dependencies(name))
    needed = _reachable(packages, crate)
    kept = [packages[key] for key in sorted(packages) if key in needed]
    return head + "".join(kept).rstrip("\n") + "\n"


def _lock_entry(crate: str, crates: Sequence[str]) -> str:
    names = ["candle-core", "candle-nn", "serde", *sorted(crates)]
    lines = "".join(f' "{name}",\n' for name in names)
    return f'[[package]]\nname = "{crate}"\nversion = "0.1.0"\ndependencies = [\n{lines}]\n'


def _package(text: str) -> tuple[str, str]:
    found = re.search(r'name = "([^"]+)"\nversion = "([^"]+)"', text)
    assert found is not None
    return found.group(1), found.group(2)


def _dev_dependencies(name: str) -> set[str]:
    manifest = tomllib.loads((crate_source(name) / "Cargo.toml").read_text())
    return set(manifest.get("dev-dependencies", {})) - set(manifest["dependencies"])


def _without_lines(text: str, names: set[str]) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line.strip(' ",\n') not in names)


def _reachable(packages: dict[tuple[str, str], str], crate: str) -> set[tuple[str, str]]:
    """The packages that `crate` needs, itself included.

    A dependency in a lock file is written `name`, or `name version` if the file has several versions of it.
    """
    found: set[tuple[str, str]] = set()
    waiting = [key for key in packages if key[0] == crate]
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found.add(key)
        for item in tomllib.loads(packages[key])["package"][0].get("dependencies", []):
            name, _, version = item.partition(" ")
            waiting += [k for k in packages if k[0] == name and version in ("", k[1])]
    return found
