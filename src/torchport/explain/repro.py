"""Hands a smallest case over: one Python script and one test in the target's language, both run before.

In: a case that fails. Out: `repro.py` and the project beside it, each seen to fail in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from string import Template

import torch
from pydantic import BaseModel, ConfigDict, Field

from torchport.errors import ReportError
from torchport.explain.bench import Trial
from torchport.explain.case import Case, computed
from torchport.explain.literals import INLINE, tensor_text
from torchport.explain.python import function_of, weight_names
from torchport.files import write_atomically
from torchport.parity.judge import allowance
from torchport.parity.result import Divergence
from torchport.targets.base import Repro
from torchport.trace.residual import residual
from torchport.trace.writing import write_tensors


class Minified(BaseModel):
    """The least that was found to fail, and where it is."""

    model_config = ConfigDict(frozen=True)

    layer: str
    operations: tuple[str, ...]
    inputs: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]
    script: str
    test: str | None
    tries: int
    output: str
    """What the script printed in a process of its own."""
    test_label: str = Field(default="test", exclude=True)

    def as_text(self) -> str:
        tensors = {**self.inputs, **self.weights}
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in tensors.items())
        printed = self.output.replace("\n", "\n           ")
        lines = [
            f"{self.layer} fails with {counted(len(self.operations), 'operation')} ({self.tries} tries)",
            "",
            f"operation  {', '.join(self.operations)}",
            f"tensors    {shapes}",
            f"script     {self.script}",
            *([f"{self.test_label:<9}  {self.test}"] if self.test else []),
            f"it says    {printed}",
        ]
        return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def hand_over(trial: Trial, case: Case, culprit: Divergence, tries: int) -> Minified:
    """Writes the script, and what the candidate's own language has for a test, and sees both fail."""
    made = trial.write_repro(_limits(case))
    script = trial.folder / "repro.py"
    write_atomically(script, _script(case, culprit, made, script.parent))
    printed = _run(script)
    if made.test is not None:
        _run(script, "--test")
    return Minified(
        layer=culprit.layer,
        operations=tuple(node.op for node in case.nodes),
        inputs={name: tuple(tensor.shape) for name, tensor in case.inputs.items()},
        weights={name: tuple(tensor.shape) for name, tensor in case.weights.items()},
        script=str(script),
        test=None if made.test is None else str(made.test),
        test_label=made.test_label,
        tries=tries,
        output=printed,
    )


def _limits(case: Case) -> list[float]:
    """How far each output of an honest candidate may be from the golden one, at the worst element."""
    pairs = zip(computed(case), computed(case, wide=True), strict=True)
    return [allowance(golden, residual(golden, truth)) for golden, truth in pairs]


def _run(script: Path, *arguments: str) -> str:
    """Runs the script in a fresh process; it must say that the two differ."""
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    if done.returncode != 1 or not done.stdout.rstrip().endswith("they differ"):
        printed = (done.stdout + done.stderr).strip()[-1500:]
        ended = f"{script.name} {' '.join(arguments)} ended with status {done.returncode}"
        raise ReportError("TP0344", f"{ended} in a process of its own: {printed}", where=str(script))
    return done.stdout.strip()


def _script(case: Case, culprit: Divergence, made: Repro, folder: Path) -> str:
    weights = {word: case.weights[name] for word, name in weight_names(case.graph).items()}
    if case.elements <= INLINE:
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
        candidate=made.candidate,
        needs=f" and {made.needs}" if made.needs else "",
        test=f" `--test` runs the {made.test_label} instead." if made.test else "",
        inputs=given,
        weights=known,
    )


def _inline(tensors: dict[str, torch.Tensor]) -> str:
    lines = [f'    "{name}": {tensor_text(tensor)},' for name, tensor in tensors.items()]
    return "\n".join(["{", *lines, "}"]) if lines else "{}"


def _from_file(kind: str, tensors: dict[str, torch.Tensor]) -> str:
    items = ", ".join(f'"{name}": TENSORS["{kind}/{name}"]' for name in tensors)
    return "{" + items + "}"


_SCRIPT = '''\
"""The least that was found to differ from PyTorch: $operations, from $layer$source.

Run it with Python; it needs torchport$needs. It says at the end whether they differ, and ends with status 1 if so.$test
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torchport.parity.judge import judge

HERE = Path(__file__).resolve().parent
TENSORS = load_file(HERE / "tensors.safetensors") if (HERE / "tensors.safetensors").is_file() else {}


$reference


INPUTS = $inputs
WEIGHTS = $weights


$candidate

def differs(golden, truth, found):
    """Whether a value is further from the float64 truth than torchport's rule allows."""
    metrics, verdict = judge(golden, found, truth)
    print(f"  largest difference {metrics.max_abs:.3g}; {verdict.reason or 'within the limit'} ({verdict.rule})")
    return not verdict.passed


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
