"""The demo: port MiniLM with its trained weights, prove it, use it, break it, and see the fault named.

Every claim that it prints is checked; the exit code is 1 when one does not hold. Run it by `make demo`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import minilm
import torch
from safetensors.torch import load_file, save_file

import torchport
from torchport.cli import failure, main
from torchport.cli.output import console
from torchport.cli.progress import Progress
from torchport.report.terminal import render
from torchport.targets.candle.artifact import CandleArtifact

OUT = Path("torchport-out/demo")
PORT, BROKEN = OUT / "minilm", OUT / "broken"
QUESTION = "How do I get my money back?"
OTHERS = (
    "What is your refund policy?",
    "I would like to return these shoes, as they are too small.",
    "Where is the nearest train station?",
    "It will rain tomorrow.",
)
RIGHT_EPS = "cfg.layer_norm_eps"
WRONG_EPS = 'if vb.prefix() == "encoder.layer.3.output" { 1e-5 } else { cfg.layer_norm_eps }'
CULPRIT = "encoder.layer.3.output.LayerNorm"
SAME_ANSWER = 1e-5
USUAL_TOLERANCE = 1e-4

untrue: list[str] = []


def step(number: int, text: str) -> None:
    print(f"\n== {number}. {text}\n", flush=True)


def claim(holds: bool, text: str) -> None:
    print(f"{'ok' if holds else 'NOT TRUE'}: {text}", flush=True)
    if not holds:
        untrue.append(text)


def prove(model: torch.nn.Module) -> Path:
    """Captures the model, writes Rust, builds it, compares every layer, and gives the program."""
    inputs = minilm.tokenize(minilm.SENTENCES)
    with Progress() as progress:
        made = torchport.port(model, (), inputs, name="minilm", out=PORT, watch=progress)
        report = made.check()
    render(report, console())
    claim(report.passed, f"each of the {len(report.layers)} layers computes what PyTorch computes")
    assert isinstance(made.artifact, CandleArtifact) and made.artifact.program is not None
    return made.artifact.program


def compare_answers(model: torch.nn.Module, program: Path) -> None:
    """The same question to both: which sentence means nearly the same?"""
    inputs = minilm.tokenize([QUESTION, *OTHERS])
    recorded, asked = minilm.tokenize(minilm.SENTENCES)["input_ids"].shape, inputs["input_ids"].shape
    with torch.no_grad():
        in_pytorch = similarities(model(**inputs).last_hidden_state, inputs["attention_mask"])
    in_rust = similarities(run_rust(program, inputs), inputs["attention_mask"])
    print(f"{QUESTION:<60}  PyTorch     Rust  difference")
    for sentence, theirs, ours in zip(OTHERS, in_pytorch, in_rust, strict=True):
        print(f"  {sentence:<58} {theirs:8.5f} {ours:8.5f}  {abs(ours - theirs):10.1e}")
    worst = max(abs(ours - theirs) for ours, theirs in zip(in_rust, in_pytorch, strict=True))
    print()
    claim(worst < SAME_ANSWER, f"no similarity differs by more than {SAME_ANSWER:g}")
    claim(recorded != asked, f"sizes are free: recorded with ids {list(recorded)}, asked with {list(asked)}")


def run_rust(program: Path, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Runs the generated program; its first output is the last hidden state."""
    given, answer = OUT / "inputs.safetensors", OUT / "outputs.safetensors"
    save_file(inputs, given)
    files = ["--weights", PORT / "rust/model.safetensors", "--config", PORT / "rust/config.json"]
    subprocess.run([program, *files, given, answer], check=True, stdout=subprocess.DEVNULL)
    return load_file(answer)["output_0"]


def similarities(hidden: torch.Tensor, mask: torch.Tensor) -> list[float]:
    """Mean over the real tokens, then the cosine of the first sentence with each of the others."""
    weights = mask.unsqueeze(-1).float()
    means = (hidden * weights).sum(1) / weights.sum(1)
    return torch.cosine_similarity(means[:1], means[1:]).tolist()


def break_it() -> None:
    """A copy of the port, in which one LayerNorm has the epsilon that is the default elsewhere."""
    shutil.rmtree(BROKEN, ignore_errors=True)
    shutil.copytree(PORT, BROKEN, ignore=shutil.ignore_patterns("run", "report.json"))
    source = BROKEN / "rust/src/model.rs"
    head, struct, rest = source.read_text().partition("impl BertOutput {")
    source.write_text(head + struct + rest.replace(RIGHT_EPS, WRONG_EPS, 1))
    print(f"{source}, struct BertOutput:\n- {RIGHT_EPS}\n+ {WRONG_EPS}")


def find_the_fault() -> None:
    print(f"$ torchport check {BROKEN}", flush=True)
    code = main(["check", str(BROKEN)])
    report = torchport.Report.from_json((BROKEN / "report.json").read_text())
    claim(code == 1, "the broken port does not pass: exit code 1")
    culprit = None if report.first_divergence is None else report.first_divergence.layer
    claim(culprit == CULPRIT, f"the culprit is named: {culprit}")
    error = float("nan") if report.outputs is None else report.outputs.max_abs
    claim(
        error < USUAL_TOLERANCE,
        f"the outputs alone would not have told: {error:.1g} off, where {USUAL_TOLERANCE:g} is usual",
    )


def demo() -> int:
    os.chdir(Path(__file__).resolve().parents[1])
    step(1, "Load MiniLM-L6 with its trained weights from the installed package.")
    model = minilm.load()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    step(2, "Port it to Rust, build it, compare every layer with PyTorch (candle is built once: minutes).")
    program = prove(model)
    step(3, "Ask the Rust program and PyTorch which sentences are similar.")
    compare_answers(model, program)
    step(4, "Break a copy of the port: one LayerNorm of thirteen gets epsilon 1e-5 instead of 1e-12.")
    break_it()
    step(5, "Check the broken copy: which layer is it?")
    find_the_fault()
    if untrue:
        print(f"\nThe demo failed: {len(untrue)} of its claims are not true.")
        return 1
    print(f"\nAll claims hold. Read the Rust: {PORT / 'rust/src/model.rs'}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(demo())
    except torchport.TorchportError as error:
        sys.exit(failure.show(error, as_json=False, debug=False))
