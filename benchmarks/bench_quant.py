"""What blocks of few bits cost, and whether a plan of formats is better than one format for all.

    python -m benchmarks.bench_quant                   # some minutes, once the ports are built
    python -m benchmarks.bench_quant --only minilm

MiniLM-L6 has its trained weights, a Llama of 100 M parameters random ones. Each is ported and proven, and runs on its
weights in blocks. For MiniLM, a mix of formats is planned that is at most 1.1 times as large as all of it in q4_0.
Exits with 1 if its output MSE is not at most half of that of q4_0, with or without importance, whichever is less.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from examples.minilm import minilm
from torchport.events import ignore
from torchport.files import cache_directory
from torchport.porting.port import Port, port
from torchport.quant.results import QuantReport
from torchport.quant.running import Asked, quantize_port
from torchport.report.quantisation import render

LARGER, BETTER = 1.1, 2.0
WIDE = ("q8_0", "q6_k+q8_0", "q5_0", "q4_k+q5_0", "q4_0")
WIDE_BY_IMPORTANCE = ("q4_k+q5_0", "q4_0", "awq+q8_0")
LLAMA = ("q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "q3_k", "q2_k")


def llama() -> tuple[torch.nn.Module, tuple[()], dict[str, torch.Tensor]]:
    """A Llama of 110 M parameters, a table and a head of 32000 words among them, which are tied."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=12,
        vocab_size=32000,
        tie_word_embeddings=True,
        use_cache=False,
    )
    ids = torch.randint(config.vocab_size, (1, 32), generator=torch.Generator().manual_seed(0))
    return LlamaForCausalLM(config).eval(), (), {"input_ids": ids}


def measured(made: Port, asked: Asked, title: str) -> QuantReport:
    report = quantize_port(made, asked, watch=ignore)
    if report.status == "unproven":
        raise SystemExit(f"{title}: {report.notes}")
    print(f"\n## {title}\n", flush=True)
    schemes = tuple(scheme.model_copy(update={"layers": ()}) for scheme in report.schemes)
    render(report.model_copy(update={"report": None, "schemes": schemes}), Console(width=110, no_color=True))
    return report


def output_mse(report: QuantReport, scheme: str) -> float:
    return next(one.outputs.mse for one in report.schemes if one.scheme == scheme)


def plan_is_better(folder: Path, jobs: int | None) -> bool:
    model, args, kwargs = minilm()
    made = port(model, args, kwargs, out=folder / "minilm", name="minilm")
    plain = measured(made, Asked(schemes=WIDE, jobs=jobs), "MiniLM-L6, trained weights")
    size = next(one.bytes for one in plain.schemes if one.scheme == "q4_0")
    asked = Asked(schemes=WIDE_BY_IMPORTANCE, budget=LARGER * size, by_importance=True, jobs=jobs)
    planned = measured(made, asked, "MiniLM-L6 by importance, and a plan")
    assert planned.plan is not None and planned.plan.drift is not None
    found = planned.plan.drift
    uniform = min(output_mse(plain, "q4_0"), output_mse(planned, "q4_0"))
    ratio = uniform / found.outputs.mse
    print(
        f"plan against q4_0: {found.bytes / 1e6:.2f} MB against {size / 1e6:.2f} MB ({found.bytes / size:.2f} times, "
        f"at most {LARGER}); output MSE {found.outputs.mse:.3g} against {uniform:.3g}: {ratio:.1f} times better "
        f"(at least {BETTER:g})",
        flush=True,
    )
    return found.bytes <= LARGER * size and ratio >= BETTER


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("minilm", "llama"))
    parser.add_argument("--jobs", type=int, help="measurements at a time")
    parser.add_argument(
        "--dir", type=Path, help="where the ports are written; kept, so that a stopped run goes on"
    )
    given = parser.parse_args()
    place = cache_directory()
    place.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bench-quant-", dir=place) as scratch:
        folder = given.dir or Path(scratch)
        better = True
        if given.only != "llama":
            better = plan_is_better(folder, given.jobs)
        if given.only != "minilm":
            model, args, kwargs = llama()
            made = port(model, args, kwargs, out=folder / "llama", name="llama")
            measured(made, Asked(schemes=LLAMA, jobs=given.jobs), "Llama of 110 M parameters, random weights")
    return 0 if better else 1


if __name__ == "__main__":
    sys.exit(main())
