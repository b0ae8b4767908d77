"""One Rust program of many rows: a function for each text, and a plan that says which function gets which tensors."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from torchport.files import write_atomically
from torchport.targets.candle import ops, rust
from torchport.targets.candle.body import UNWATCHED
from torchport.targets.candle.build import build
from torchport.targets.candle.code import InputName, Part, Slot
from torchport.targets.candle.module import write_module
from torchport.targets.candle.project import AUDIO, RUNTIME, lock_for

from .capturing import Captured

assert ops  # importing it fills the operation table

NAME = "operations"
PER_FILE = 400
_STORED = {torch.bool: torch.uint8}

HEAD = """\
#![allow(clippy::all, unused_imports, unused_variables, unused_parens)]
use candle::{DType, Device, Result, Tensor};
use torchport_audio as audio;
use torchport_runtime::{ensure, nn, ops};

"""

MAIN = """\
//! Runs every row of the plan: `operations FOLDER` reads `plan.txt` and `inputs.safetensors` there.
#![allow(clippy::all)]
%s
use candle::{Device, Result, Tensor};
use std::collections::HashMap;
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};

type Function = fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// What was stored twice over and back to front, as the view that it stands for.
fn as_view(x: &Tensor) -> Result<Tensor> {
    let rank = x.rank() - 1;
    let x = x.narrow(rank, 0, 1)?.squeeze(rank)?;
    if rank > 1 { x.transpose(0, rank - 1) } else { Ok(x) }
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).expect("a folder");
    let functions: Vec<Function> = vec![%s];
    let inputs = candle::safetensors::load(format!("{folder}/inputs.safetensors"), &Device::Cpu)?;
    let plan = std::fs::read_to_string(format!("{folder}/plan.txt"))?;
    let mut answers = std::io::BufWriter::new(std::fs::File::create(format!("{folder}/answers.txt"))?);
    let mut outputs = HashMap::new();
    std::panic::set_hook(Box::new(|_| {}));
    for line in plan.lines() {
        let words: Vec<usize> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let &[row, function, count, views] = &words[..] else { panic!("{line}") };
        let run = || -> Result<Vec<Tensor>> {
            let mut xs = vec![];
            for index in 0..count {
                let x = &inputs[&format!("{row}.{index}")];
                xs.push(if views == 1 && x.rank() > 0 { as_view(x)? } else { x.clone() });
            }
            let ys = functions[function](&xs)?;
            let ys = ys.iter().map(|y| ops::contiguous(y)).collect::<Result<Vec<_>>>()?;
            for y in &ys {
                // What cannot be written ends this row, not the program.
                y.save_safetensors("y", format!("{folder}/last.safetensors"))?;
            }
            Ok(ys)
        };
        let (word, message) = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(ys)) => {
                for (index, y) in ys.into_iter().enumerate() {
                    outputs.insert(format!("{row}.{index}"), y);
                }
                ("ok", String::new())
            }
            Ok(Err(error)) => ("error", error.to_string()),
            Err(panic) => ("panic", match panic.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => panic.downcast_ref::<&str>().unwrap_or(&"").to_string(),
            }),
        };
        let message = message.replace(['\\n', '\\t'], " ");
        writeln!(answers, "{row}\\t{word}\\t{message}")?;
    }
    candle::safetensors::save(&outputs, format!("{folder}/outputs.safetensors"))
}

use torchport_runtime::ops;
"""


@dataclass(frozen=True)
class Written:
    """The text of a function, or why there is none."""

    text: str = ""
    refused: tuple[tuple[str, str], ...] = ()
    """Operations that are refused, each with the reason."""


def write(captured: Captured) -> Written:
    """The body of a Rust function for one sample, as the code generator writes it."""
    body = write_module(captured.graph, captured.module, {}, UNWATCHED)
    if body.todos:
        return Written(refused=tuple((todo.op, todo.reason) for todo in body.todos))

    def word(part: Part) -> str:
        if isinstance(part, Slot):
            number = body.numbers[part.index]
            return rust.literal(number.value, number.kind)
        assert isinstance(part, InputName), part
        return f"x{part.index}"

    assert not body.fields, body.fields
    lines = [f"    let x{index} = &xs[{index}];" for index in range(len(body.inputs))]
    lines += [f"    {statement.filled(word)}" for statement in body.statements]
    result = body.result.filled(word)
    names = [f"y{index}" for index in range(body.outputs)]
    outputs = names[0] if body.outputs == 1 else f"({', '.join(names)})"
    kind = "Tensor" if body.outputs == 1 else f"({', '.join(['Tensor'] * body.outputs)})"
    lines.append(f"    let result: Result<{kind}> = {{ {result} }};")
    lines.append(f"    let {outputs} = result?;")
    lines.append(f"    Ok(vec![{', '.join(names)}])")
    return Written("\n".join(lines))


@dataclass
class Program:
    """The functions and the plan so far."""

    functions: dict[str, int] = field(default_factory=dict)
    plan: list[str] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, text: str, inputs: Sequence[torch.Tensor], *, as_views: bool) -> int:
        """Adds a row and gives its number."""
        row = len(self.plan)
        function = self.functions.setdefault(text, len(self.functions))
        self.plan.append(f"{row} {function} {len(inputs)} {int(as_views)}")
        for index, tensor in enumerate(inputs):
            self.tensors[f"{row}.{index}"] = _stored(tensor, as_views)
        return row

    def run(self, folder: Path) -> dict[int, list[torch.Tensor] | str]:
        """Builds and runs the program. For each row, what it computed, or the error that it ended with."""
        source = folder / "src"
        source.mkdir(parents=True, exist_ok=True)
        texts = list(self.functions)
        files = range(0, len(texts), PER_FILE)
        for start in files:
            functions = "".join(
                f"pub fn f{start + index}(xs: &[Tensor]) -> Result<Vec<Tensor>> {{\n{text}\n}}\n"
                for index, text in enumerate(texts[start : start + PER_FILE])
            )
            write_atomically(source / f"rows_{start}.rs", HEAD + functions)
        modules = "".join(f"mod rows_{start};\n" for start in files)
        names = ", ".join(f"rows_{i // PER_FILE * PER_FILE}::f{i}" for i in range(len(texts)))
        write_atomically(source / "main.rs", MAIN % (modules, names))
        write_atomically(source / "lib.rs", "//! Nothing: all is in the program.\n")
        write_atomically(folder / "Cargo.lock", lock_for(NAME, [RUNTIME, AUDIO]))
        save_file(self.tensors, folder / "inputs.safetensors")
        write_atomically(folder / "plan.txt", "\n".join(self.plan) + "\n")
        binary = build(folder, NAME, lambda _: None)
        subprocess.run([binary, folder], check=True)
        return dict(_answers(folder))


def _stored(tensor: torch.Tensor, as_views: bool) -> torch.Tensor:
    tensor = tensor.detach().to(_STORED.get(tensor.dtype, tensor.dtype))
    if as_views and tensor.ndim > 0:
        tensor = tensor.transpose(0, -1).unsqueeze(-1).repeat_interleave(2, -1)
    return tensor.contiguous().clone()


def _answers(folder: Path) -> Iterator[tuple[int, list[torch.Tensor] | str]]:
    outputs = load_file(folder / "outputs.safetensors")
    for line in (folder / "answers.txt").read_text().splitlines():
        row, word, message = line.split("\t")
        if word == "ok":
            names = itertools.takewhile(outputs.__contains__, (f"{row}.{i}" for i in itertools.count()))
            yield int(row), [outputs[name] for name in names]
        else:
            yield int(row), f"{word}: {message}"
