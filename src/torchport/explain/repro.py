"""Hands a smallest case over: one Python script and one test in the target's language, both run before.

In: a case that fails. Out: `repro.py` and the project beside it, each seen to fail in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from string import Template

import torch
from pydantic import BaseModel, ConfigDict

from torchport.errors import ReportError
from torchport.explain.case import Case, computed
from torchport.explain.python import function_of, weight_names
from torchport.files import write_atomically
from torchport.parity.dtypes import least_step, rounding_step
from torchport.parity.result import Divergence
from torchport.porting.port import Port
from torchport.trace.writing import write_tensors

MULTIPLE = 4.0
_INLINE = 256
"""Numbers that a script holds itself; more are in a file beside it."""


class Repro(BaseModel):
    """The least that was found to fail, and where it is."""

    model_config = ConfigDict(frozen=True)

    layer: str
    operations: tuple[str, ...]
    inputs: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]
    script: str
    test: str
    tries: int
    output: str
    """What the script printed in a process of its own."""

    def as_text(self) -> str:
        tensors = {**self.inputs, **self.weights}
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in tensors.items())
        told = self.output.replace("\n", "\n           ")
        lines = (
            f"{self.layer} fails with {counted(len(self.operations), 'operation')} ({self.tries} tries)",
            "",
            f"operation  {', '.join(self.operations)}",
            f"tensors    {shapes}",
            f"script     {self.script}",
            f"Rust test  {self.test}",
            f"it says    {told}",
        )
        return "\n".join(lines)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def hand_over(port: Port, case: Case, culprit: Divergence, tries: int) -> Repro:
    assert port.conversion is not None
    golden, truth = computed(case), computed(case, wide=True)
    limits = [_limit(*pair) for pair in zip(golden, truth, strict=True)]
    made = port.target.write_repro(port.conversion, port.captures / f"{port.name}_trace.safetensors", limits)
    script = port.folder / "repro.py"
    write_atomically(script, _script(case, culprit, made.candidate, script.parent))
    seen = _run(script)
    _run(script, "--test")
    return Repro(
        layer=culprit.layer,
        operations=tuple(node.op for node in case.nodes),
        inputs={name: tuple(tensor.shape) for name, tensor in case.inputs.items()},
        weights={name: tuple(tensor.shape) for name, tensor in case.weights.items()},
        script=str(script),
        test=str(made.test),
        tries=tries,
        output=seen,
    )


def _limit(golden: torch.Tensor, truth: torch.Tensor) -> float:
    """How far an honest port may be from the golden value: within the noise floor rule, at the worst element."""
    if not golden.is_floating_point():
        return 0.0
    finite = torch.isfinite(golden)
    largest = golden[finite].abs().max().item() if finite.any() else 0.0
    distance = (golden.double() - truth)[finite].abs().max().item() if finite.any() else 0.0
    step = max(rounding_step(golden.dtype) * largest, least_step(golden.dtype))
    return (MULTIPLE + 1) * max(distance, step)


def _run(script: Path, *arguments: str) -> str:
    """Runs the script in a fresh process; it must say that the two differ."""
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    if done.returncode != 1 or not done.stdout.rstrip().endswith("they differ"):
        told = (done.stdout + done.stderr).strip()[-1500:]
        raise ReportError(
            "TP0344",
            f"{script.name} {' '.join(arguments)} ended with status {done.returncode} in a process of its own: {told}",
            where=str(script),
        )
    return done.stdout.strip()


def _script(case: Case, culprit: Divergence, candidate: str, folder: Path) -> str:
    weights = {word: case.weights[name] for word, name in weight_names(case.graph).items()}
    if case.elements <= _INLINE:
        given, known = _inline(case.inputs), _inline(weights)
    else:
        tensors = {f"input/{n}": t for n, t in case.inputs.items()} | {
            f"weight/{n}": t for n, t in weights.items()
        }
        write_tensors(folder / "tensors.safetensors", tensors, {"format": "pt"})
        given, known = _from_file("input", case.inputs), _from_file("weight", weights)
    return Template(_SCRIPT).substitute(
        layer=culprit.layer,
        source=f" ({culprit.source})" if culprit.source else "",
        operations=", ".join(node.op for node in case.nodes),
        reference=function_of(case.graph),
        candidate=candidate,
        inputs=given,
        weights=known,
    )


def _inline(tensors: dict[str, torch.Tensor]) -> str:
    lines = []
    for name, tensor in tensors.items():
        values = tensor.flatten().tolist()
        text = f"torch.tensor({_numbers(values)}, dtype={tensor.dtype}).reshape({list(tensor.shape)})"
        lines.append(f'    "{name}": {text},')
    return "\n".join(["{", *lines, "}"]) if lines else "{}"


def _numbers(values: list[float]) -> str:
    text = ", ".join(f"{value:.9g}" if isinstance(value, float) else repr(value) for value in values)
    return f"[{text}]".replace("nan", 'float("nan")').replace("inf", 'float("inf")')


def _from_file(kind: str, tensors: dict[str, torch.Tensor]) -> str:
    items = ", ".join(f'"{name}": TENSORS["{kind}/{name}"]' for name in tensors)
    return "{" + items + "}"


_SCRIPT = '''\
"""The least that was found to differ from PyTorch: $operations, from $layer$source.

Run it with Python; it needs torch, safetensors and cargo. It says at the end whether they differ, and
ends with status 1 if so. `--test` runs the Rust test instead.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
TENSORS = load_file(HERE / "tensors.safetensors") if (HERE / "tensors.safetensors").is_file() else {}


$reference


INPUTS = $inputs
WEIGHTS = $weights


$candidate

def rms(tensor):
    return tensor.double().square().mean().sqrt().item()


def differs(golden, truth, found):
    """Whether a value is more than 4 times as far from the float64 truth as PyTorch itself is."""
    if golden.shape != found.shape:
        print(f"  shape {list(found.shape)} where {list(golden.shape)} is expected")
        return True
    if not golden.is_floating_point():
        wrong = (golden.double() != found.double()).sum().item()
        print(f"  {wrong} of {golden.numel()} elements differ")
        return wrong > 0
    odd = ~torch.isfinite(golden) | ~torch.isfinite(found)
    if not torch.equal(golden[odd].double().nan_to_num(0.5, 2, -2), found[odd].double().nan_to_num(0.5, 2, -2)):
        print("  NaN or Inf that the other does not have at that place")
        return True
    if golden.isnan().all():
        print("  NaN everywhere, so nothing is proven")
        return True
    step, least = torch.finfo(golden.dtype).eps / 2, 1e-45
    golden, truth, found = golden[~odd].double(), truth[~odd].double(), found[~odd].double()
    if not golden.numel():
        return False
    by_rms = max(rms(golden - truth), step * rms(golden), least)
    by_max = max((golden - truth).abs().max().item(), step * golden.abs().max().item(), least)
    times = max(rms(found - truth) / by_rms, (found - truth).abs().max().item() / by_max)
    print(f"  largest difference {(found - golden).abs().max():.3g}, {times:.3g} times as far from the truth")
    close = golden.numel() < 16 and torch.allclose(found, golden, rtol=1.3e-6, atol=1e-5)
    return not times <= 4 and not close


def wide(tensors):
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]


def finish(wrong):
    print("they differ" if wrong else "they agree")
    sys.exit(1 if wrong else 0)


def main():
    if "--test" in sys.argv:
        finish(run_test(HERE))
    given, weights = list(INPUTS.values()), list(WEIGHTS.values())
    golden, truth = reference(*given, *weights), reference(*wide(given), *wide(weights))
    found = candidate(given, HERE)
    wrong = False
    for index, values in enumerate(zip(golden, truth, found)):
        print(f"output {index}: {list(values[0].shape)}")
        wrong = differs(*values) or wrong
    finish(wrong)


if __name__ == "__main__":
    with torch.no_grad():
        main()
'''
