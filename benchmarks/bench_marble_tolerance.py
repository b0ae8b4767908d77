"""How far a right graph of neurons is from its model, from which the default tolerances come.

    python -m benchmarks.bench_marble_tolerance
    python -m benchmarks.bench_marble_tolerance --device cuda --models mlp bert

Converts models of the zoo, runs each by groups and by messages, and prints the largest error of a layer, as a share of
its largest magnitude, when every layer works on what the layers before it computed. Messages sum in another order than
PyTorch's kernels, so that their errors are those of honest arithmetic. The default for a kind of device is several
times the largest of these errors, as deeper models add up more of them. Exits with 1 if an error is above it.
"""

import argparse
import sys

import torch

from benchmarks.zoo import ZOO
from torchport.errors import TorchportError
from torchport.targets.marble.model import core_of
from torchport.targets.marble.tolerances import default_tolerance
from torchport.targets.marble.validation import validate
from torchport.targets.marble.ways import WAYS

MODELS = (
    "mlp",
    "cnn",
    "encoder_layer",
    "encoder_layer_norm_first",
    "attention",
    "lstm",
    "bert",
    "gpt2",
    "llama",
    "resnet18",
)


def errors(name: str, device: str) -> dict[str, float | str]:
    """The largest chained error of a model, by the way in which its graph is run."""
    model, args, *rest = ZOO[name]()
    kwargs = rest[0] if rest else {}
    model = model.to(device)
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda one: one.to(device), (args, kwargs))
    core = core_of(model, args, kwargs)
    found: dict[str, float | str] = {}
    for way in WAYS:
        try:
            seen = validate(core, model, args, kwargs, by=way, tolerance=1.0)
        except TorchportError as error:
            found[way] = error.message
            continue
        found[way] = max([layer.chained_error or 0.0 for layer in seen.layers] + [seen.output_error or 0.0])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures what tolerances a right graph needs.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=sorted(ZOO))
    given = parser.parse_args()
    limit = default_tolerance(torch.device(given.device).type)
    worst = 0.0
    print(f"{'model':<28}{'by groups':>14}{'by messages':>14}")
    for name in given.models:
        found = errors(name, given.device)
        print(f"{name:<28}" + "".join(f"{_shown(found[way]):>14}" for way in WAYS))
        worst = max([worst] + [error for error in found.values() if isinstance(error, float)])
    times = limit / max(worst, 1e-30)
    print(f"largest {worst:.2g}; the default for {given.device} is {limit:g}, {times:.1f} times that")
    return 1 if worst > limit else 0


def _shown(error: float | str) -> str:
    return f"{error:.2g}" if isinstance(error, float) else "not run"


if __name__ == "__main__":
    sys.exit(main())
