"""A small model that is run in four ways, as a capture and a port would, and leaves traces.

Toy calls fc, hands act(fc) * scale to block, and doubles what drop hands on. Block adds its input
to norm(fc(input)). The golden, truth, lock-step and chained runs share one forward, which takes
the arithmetic of a torch module or, in the port, another way to compute the same and a fault.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from torchport.parity.compare import compare_traces
from torchport.parity.result import Parity
from torchport.parity.rulebook import RuleBook
from torchport.parity.tolerance import Rule


@dataclass(frozen=True)
class Call:
    name: str
    type: str
    inputs: list[str]
    outputs: list[str]
    parent: str | None
    source: str | None = None


CALLS = [
    Call("fc", "torch.nn.Linear", ["fc<0"], ["fc"], "Toy"),
    Call("block.fc", "torch.nn.Linear", ["block.fc<0"], ["block.fc"], "block"),
    Call("block.norm", "torch.nn.LayerNorm", ["block.norm<0"], ["block.norm"], "block"),
    Call("block", "toy.Block", ["block<0"], ["block", "block:1"], "Toy", "toy.py:30"),
    Call("drop", "torch.nn.Dropout", ["drop<0"], ["drop"], "Toy"),
    Call("Toy", "toy.Toy", ["Toy<0"], ["Toy"], None, "toy.py:10"),
]
EVENTS = [
    ("enter", "Toy"),
    ("enter", "fc"),
    ("exit", "fc"),
    ("enter", "block"),
    ("enter", "block.fc"),
    ("exit", "block.fc"),
    ("enter", "block.norm"),
    ("exit", "block.norm"),
    ("exit", "block"),
    ("enter", "drop"),
    ("exit", "drop"),
    ("exit", "Toy"),
]
ALIASES = {
    "fc<0": "Toy<0",
    "block.fc<0": "block<0",
    "block.norm<0": "block.fc",
    "drop<0": "block",
    "drop": "block",
}
Probe = Callable[[str, Tensor], Tensor]


@dataclass(frozen=True)
class Weights:
    first: Tensor
    second: Tensor

    def to(self, dtype: torch.dtype) -> "Weights":
        return Weights(self.first.to(dtype), self.second.to(dtype))


@dataclass(frozen=True)
class Port:
    """What a port computes with; each field can be given a fault."""

    linear: Callable[[Tensor, Tensor], Tensor] = F.linear
    second_linear: Callable[[Tensor, Tensor], Tensor] = F.linear
    act: Callable[[Tensor], Tensor] = F.gelu
    eps: float = 1e-5
    scale: float = 0.5
    residual: bool = True
    count: int = 7


def forward(xs: Tensor, weights: Weights, port: Port, probe: Probe) -> Tensor:
    xs = probe("Toy<0", xs)
    hidden = probe("fc", port.linear(xs, weights.first))
    hidden = probe("block<0", port.act(hidden) * port.scale)
    inner = probe("block.fc", port.second_linear(hidden, weights.second))
    inner = probe("block.norm", F.layer_norm(inner, inner.shape[-1:], eps=port.eps))
    hidden = probe("block", inner + hidden if port.residual else inner)
    probe("block:1", torch.tensor([2**40 + port.count]))
    hidden = probe("drop", hidden)
    return probe("Toy", hidden * 2)


def permuted_linear(xs: Tensor, weight: Tensor) -> Tensor:
    """The same sum in another order."""
    order = torch.arange(weight.shape[1] - 1, -1, -1)
    return xs[..., order] @ weight[:, order].T


HONEST = Port(linear=permuted_linear, second_linear=permuted_linear)


@dataclass
class Traces:
    """The four traces, which tests may change before they are compared."""

    golden: dict[str, Tensor] = field(default_factory=dict)
    truth: dict[str, Tensor] | None = field(default_factory=dict)
    lockstep: dict[str, Tensor] = field(default_factory=dict)
    chained: dict[str, Tensor] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=lambda: dict(ALIASES))
    calls: list[Call] = field(default_factory=lambda: list(CALLS))
    events: list[tuple[str, str]] = field(default_factory=lambda: list(EVENTS))
    begun: list[str] | None = None
    returned: dict[str, Any] | None = None
    """What the runs say of what the program gave in the end."""
    made: list[tuple[str, str]] | None = None
    """The events of the runs, if they say which calls they made."""
    made_in_lockstep: list[tuple[str, str]] | None = None

    def compare(self, directory: Path, rule: Rule | None = None, **more: Any) -> Parity:
        metadata = {"schema": "1", "root": "Toy", "aliases": json.dumps(self.aliases)}
        said = {"returned": self.returned, "begun": self.begun, "events": self.made}
        chained = {name: json.dumps(value) for name, value in said.items() if value is not None}
        own = self.made_in_lockstep
        lockstep = chained if own is None else {**chained, "events": json.dumps(own)}
        written = {"golden": metadata, "lockstep": lockstep, "chained": chained}
        paths = {}
        for name in ("golden", "truth", "lockstep", "chained"):
            tensors = getattr(self, name)
            if tensors is not None:
                paths[name] = directory / f"{name}.safetensors"
                copies = {key: tensor.clone().contiguous() for key, tensor in tensors.items()}
                save_file(copies, paths[name], written.get(name) or None)
        return compare_traces(
            paths["golden"],
            paths["lockstep"],
            paths["chained"],
            truth=paths.get("truth"),
            calls=self.calls,
            **more,
            events=self.events,
            **({} if rule is None else {"rules": RuleBook.of(rule, rule)}),
        )


def run(port: Port = HONEST, seed: int = 0) -> Traces:
    """Record the toy model, and run `port` of it in lock-step and chained."""
    torch.manual_seed(seed)
    xs, weights = torch.randn(4, 64), Weights(torch.randn(64, 64) / 8, torch.randn(64, 64) / 8)
    traces = Traces()
    golden, truth = traces.golden, traces.truth
    assert truth is not None

    def record(key: str, value: Tensor) -> Tensor:
        if key not in ALIASES:
            golden[key] = value
        return value

    def widened(key: str, value: Tensor) -> Tensor:
        known = golden[ALIASES.get(key, key)]
        if value.is_floating_point() and key not in ALIASES:
            truth[key] = (value - known.double()).float()
        return known.double()

    def in_lockstep(key: str, value: Tensor) -> Tensor:
        traces.lockstep[key] = value
        return golden[ALIASES.get(key, key)]

    def chain(key: str, value: Tensor) -> Tensor:
        traces.chained[key] = value
        return value

    forward(xs, weights, Port(), record)
    forward(xs.double(), weights.to(torch.float64), Port(), widened)
    forward(xs, weights, port, in_lockstep)
    forward(xs, weights, port, chain)
    return traces
