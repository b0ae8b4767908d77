"""The models that benchmarks run: those that torchport brings, by name, and users' own, by SPEC.

Weights are random but always the same. A small size of each has the same operations, for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from torchport.bench.ssm import SelectiveSsm, SsmConfig
from torchport.capture.spec import Subject, load_spec
from torchport.capture.torch_internals import pytree
from torchport.errors import UsageError

Build = Callable[[bool], Subject]
"""From whether it is to be small, to the model and its inputs."""


@dataclass(frozen=True)
class BenchModel:
    name: str
    what: str
    build: Build
    packages: tuple[str, ...] = ()
    """What must be installed beside torchport's own requirements."""

    @property
    def missing(self) -> list[str]:
        return [package for package in self.packages if find_spec(package) is None]

    @property
    def advice(self) -> str | None:
        """What to do before the model can run; None if it can."""
        return f"pip install {' '.join(self.missing)}" if self.missing else None


def _bert(small: bool) -> Subject:
    from transformers import BertConfig, BertModel

    tiny: dict[str, Any] = {"vocab_size": 200, "hidden_size": 32, "intermediate_size": 64}
    tiny |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**tiny) if small else BertConfig(vocab_size=119_547)
    tokens = torch.randint(0, config.vocab_size, (1, 16 if small else 128))
    model: torch.nn.Module = BertModel(config)  # type: ignore[no-untyped-call]
    return Subject(model, (), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})


def _resnet(small: bool) -> Subject:
    from torchvision.models import resnet18

    size = 32 if small else 224
    return Subject(resnet18(weights=None), (torch.randn(1, 3, size, size),), {})


def _ssm(small: bool) -> Subject:
    config = SsmConfig(vocabulary=100, width=32, layers=2, states=4) if small else SsmConfig()
    return Subject(
        SelectiveSsm(config), (torch.randint(0, config.vocabulary, (1, 16 if small else 128)),), {}
    )


MODELS = {
    model.name: model
    for model in (
        BenchModel("bert", "BERT base, multilingual size, 128 tokens", _bert, ("transformers",)),
        BenchModel("resnet", "ResNet-18, one image of 224 × 224", _resnet, ("torchvision",)),
        BenchModel("ssm", "selective state spaces as in Mamba, 27 M parameters, 128 tokens", _ssm),
    )
}


def find_model(name: str) -> BenchModel:
    """The model of that name, or the one that a SPEC names, which is loaded only when it is built."""
    if name in MODELS:
        return MODELS[name]
    if ":" in name:
        return BenchModel(name, "SPEC", lambda small: load_spec(name))
    raise UsageError(
        "TP1056",
        f"there is no model {name!r}",
        fix=f"give one of {', '.join(MODELS)}, or a SPEC: file.py:callable",
    )


def built(model: BenchModel, *, small: bool, device: str) -> Subject:
    """The model, ready to predict, and its inputs, on a device."""
    torch.manual_seed(0)
    module, args, kwargs = model.build(small)
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, kwargs))
    return Subject(module.to(device).eval(), args, kwargs)
