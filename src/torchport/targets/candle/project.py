"""The cargo project around generated code: it stands alone, with the runtime crate's source beside it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import tomllib
from functools import cache
from pathlib import Path

from torchport.errors import BuildError
from torchport.files import write_atomically
from torchport.targets.candle import rust
from torchport.targets.candle.writer import Generated

RUNTIME = "torchport-runtime"

CARGO_TOML = """\
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
torchport-runtime = {{ path = "{runtime}" }}

[workspace]

# The model itself compiles fast; the crates that it stands on are optimised.
[profile.dev]
debug = false
incremental = true

[profile.dev.package."*"]
opt-level = 3
debug-assertions = false
overflow-checks = false

# Inside this folder the runtime crate is a member of the workspace, and "*" leaves members out.
[profile.dev.package.torchport-runtime]
opt-level = 3
debug-assertions = false
overflow-checks = false
incremental = false

[profile.release]
lto = "thin"
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
    let model = {model}::new(&config, options.weights(DType::F32, &device)?)?;
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
    manifest = CARGO_TOML.format(package=crate, crate=crate, binary=crate, source="src", runtime=RUNTIME)
    write_atomically(files["cargo"], manifest)
    copy_runtime(folder / RUNTIME)
    write_atomically(files["lock"], lock_for(crate))
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
    return text


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


def runtime_source() -> Path:
    """The folder of the runtime crate, in an installed package or in a checkout."""
    here = Path(__file__).resolve()
    for base in (here.parents[2] / "_crates", here.parents[4] / "crates"):
        if (base / RUNTIME / "Cargo.toml").is_file():
            return base / RUNTIME
    raise BuildError("TP0502", "the source of the runtime crate is missing from this installation")


def _lock_source() -> Path:
    base = runtime_source()
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


def copy_runtime(folder: Path) -> None:
    """Copies the runtime crate's sources and manifest to `folder`, without its tests and what only they need."""
    source = runtime_source()
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and (relative.parts[0] == "src" or relative.name == "Cargo.toml"):
            text = path.read_text()
            if relative.name == "Cargo.toml":
                text = re.sub(r"\n\[dev-dependencies\]\n(?:[^\[].*\n|\n)*", "\n", text)
            target = folder / relative
            if not target.is_file() or target.read_text() != text:
                write_atomically(target, text)


def runtime_digest() -> str:
    """A short name for the content of the runtime crate, as `copy_runtime` copies it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy_runtime(Path(scratch))
        files = sorted(p for p in Path(scratch).rglob("*") if p.is_file())
        return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:12]


def lock_for(crate: str) -> str:
    """The lock file of a generated crate: the packages that it needs, at the versions of torchport's own lock file."""
    head, *texts = re.split(r"(?=\[\[package\]\]\n)", _lock_source().read_text())
    texts = [text.rstrip("\n") + "\n\n" for text in [*texts, _lock_entry(crate)]]
    packages = {_package(text): text for text in texts}
    for (name, _), text in packages.items():
        if name == RUNTIME:
            packages[name, _] = _without_lines(text, _dev_dependencies())
    needed = _reachable(packages, crate)
    kept = [packages[key] for key in sorted(packages) if key in needed]
    return head + "".join(kept).rstrip("\n") + "\n"


def _lock_entry(crate: str) -> str:
    names = ["candle-core", "candle-nn", "serde", RUNTIME]
    lines = "".join(f' "{name}",\n' for name in names)
    return f'[[package]]\nname = "{crate}"\nversion = "0.1.0"\ndependencies = [\n{lines}]\n'


def _package(text: str) -> tuple[str, str]:
    found = re.search(r'name = "([^"]+)"\nversion = "([^"]+)"', text)
    assert found is not None
    return found.group(1), found.group(2)


def _dev_dependencies() -> set[str]:
    manifest = tomllib.loads((runtime_source() / "Cargo.toml").read_text())
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
