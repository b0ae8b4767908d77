"""A project as others run it: a Rust test against recorded values, and the program called from a Python script."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from torchport.files import write_atomically
from torchport.targets.base import Repro
from torchport.targets.candle import rust
from torchport.targets.candle.build import shared_crates
from torchport.targets.candle.project import AUDIO, RUNTIME, crate_name, format_rust
from torchport.trace.plan import input_key, output_keys
from torchport.trace.reading import Trace


@dataclass(frozen=True)
class Project:
    """A generated project, and how its model is called."""

    folder: Path
    name: str
    model: str
    inputs: tuple[str, ...]
    outputs: int


_TEST = """\
//! The least that was found to differ from PyTorch. `cargo test` fails until it agrees.

use candle::{DType, Device, Result};
use candle_nn::VarBuilder;
$module
use $crate::model::{Config, $model};
use torchport_runtime::Checker;

#[test]
fn agrees_with_pytorch() -> Result<()> {
    let device = Device::Cpu;
    let recorded = "tests/repro.safetensors";
    // Safety: the file is only mapped, and nothing else writes to it meanwhile.
    let vb = unsafe {
        VarBuilder::from_mmaped_safetensors(&["model.safetensors"], DType::F32, &device)?
    };
    let model = $model::new(&Config { $config }, vb)?;
    let recording = Checker::open(recorded, &device)?;
    $inputs
    let $outputs = model.forward($arguments)?;
    $checks
    Ok(())
}
"""

_CHECK = """\
    let found = Checker::open(recorded, &device)?
        .tolerance(0.0, $limit)
        .verify("$key", &$output)?;
    assert!(found.passed, "{found:?}");
"""

_CARGO = '''\
def cargo(here, *arguments):
    """cargo in ./rust, with what torchport has built on this machine already, where it has."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchport"
    shared = cache / "runtime" / "$digest"
    crates = [str(shared / name) for name in $crates if (shared / name).is_dir()]
    built = ["--config", f"paths={crates}"] if crates else []
    environment = {"CARGO_TARGET_DIR": str(cache / "target"), **os.environ}
    command = ["cargo", arguments[0], *built, *arguments[1:]]
    return subprocess.run(command, cwd=here / "rust", env=environment, stdout=subprocess.PIPE, text=True)


def run_test(here):
    """Whether the Rust test fails, as it does when it runs and finds a difference."""
    ended = cargo(here, "test", "--test", "repro")
    print(ended.stdout)
    if ended.returncode != 0 and "test result: FAILED" not in ended.stdout:
        sys.exit(f"the test did not run: cargo ended with status {ended.returncode}")
    return ended.returncode != 0


def candidate(inputs, here):
    """What the Rust in ./rust computes."""
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder) / "inputs.safetensors", Path(folder) / "outputs.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in zip($names, inputs)}, given)
        ended = cargo(here, "run", "--quiet", "--", str(given), str(results))
        if ended.returncode != 0:
            print(f"the port stopped with status {ended.returncode}")
            finish(True)
        found = load_file(results)
        return [found[f"output_{index}"] for index in range(len(found))]
'''


def write_repro(
    project: Project,
    config: Mapping[str, int | float | list[int | float]],
    golden: Path,
    limits: Sequence[float],
    *,
    is_plain: bool,
) -> Repro:
    """Writes the test beside the project's source, with a copy of the recorded values."""
    folder = project.folder
    shutil.copyfile(golden, _made(folder / "tests" / "repro.safetensors"))
    test = folder / "tests" / "repro.rs"
    write_atomically(test, format_rust(_test(project, config, golden, limits, is_plain)))
    crates = [name for name in (RUNTIME, AUDIO) if (folder / name).is_dir()]
    source = Template(_CARGO).substitute(
        digest=shared_crates().name, crates=crates, names=list(project.inputs)
    )
    return Repro(source, "cargo", test, "Rust test")


def _test(
    project: Project,
    config: Mapping[str, int | float | list[int | float]],
    golden: Path,
    limits: Sequence[float],
    is_plain: bool,
) -> str:
    with Trace(golden) as recorded:
        root = recorded.root or ""
    outputs = [f"output_{index}" for index in range(project.outputs)]
    checks = [
        Template(_CHECK).substitute(limit=_float(limit), key=key, output=output)
        for limit, key, output in zip(limits, output_keys(root, project.outputs), outputs, strict=True)
    ]
    return Template(_TEST).substitute(
        crate=crate_name(project.name),
        model=project.model,
        module="use candle::Module;" if is_plain else "",
        config=", ".join(f"{name}: {_number(value)}" for name, value in config.items()),
        inputs="".join(
            f'let {name} = recording.golden("{input_key(root, index)}")?;'
            for index, name in enumerate(project.inputs)
        ),
        outputs=rust.tensors(outputs),
        arguments=", ".join(f"&{name}" for name in project.inputs),
        checks="".join(checks),
    )


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _float(value: float) -> str:
    return f"{value:.6e}"


def _number(value: int | float | list[int | float]) -> str:
    if isinstance(value, list):
        return f"vec![{', '.join(map(_number, value))}]"
    return _float(value) if isinstance(value, float) else str(value)
