"""Reports to test with, of real comparisons of small tensors."""

import math
from pathlib import Path

import torch

from torchport.parity.metrics import compare
from torchport.parity.result import Divergence, Layer, Measured, Parity
from torchport.parity.tolerance import Fixed
from torchport.runs.report import Report
from torchport.targets.base import Todo

TODO = Todo(op="aten.foo.default", layer="head", source="net.py:9", reason="nothing maps it")
SECONDS = {"capture": 1.5, "convert": 0.25, "build": 4.0, "run": 0.5, "compare": 0.25}


def measured(key: str, error: float) -> Measured:
    golden = torch.ones(2, 3)
    candidate = golden.clone()
    candidate[1, 2] += error
    metrics = compare(golden, candidate)
    return Measured(**dict(metrics), key=key, **Fixed().judge(metrics)._asdict())


def layer(name: str, own: float, chained: float | None = None) -> Layer:
    judged = measured(name, own)
    return Layer(
        name=name,
        type="torch.nn.Linear",
        own=judged,
        chained=measured(name, own if chained is None else chained),
        passed=bool(judged.passed),
        reason=judged.reason,
        source=f"net.py:{len(name)}",
        rule=judged.rule,
    )


def passing() -> Report:
    layers = (layer("encoder", 1e-6), layer("head", 5e-6), container(), layer("Net", 0.0, 2e-6))
    parity = Parity(
        passed=True,
        rule="noise floor x 4",
        layers=layers,
        first_divergence=None,
        outputs=measured("Net", 2e-6),
        compared=3,
    )
    return report_of(parity)


def container() -> Layer:
    return Layer(
        name="blocks",
        type="torch.nn.Sequential",
        own=None,
        chained=measured("blocks", 0.0),
        passed=True,
        reason="returns head as it is",
    )


def failing(error: float = math.nan) -> Report:
    wrong = layer("head", error)
    assert wrong.own is not None and wrong.own.reason is not None
    culprit = Divergence(
        layer="head",
        type="torch.nn.Linear",
        source="net.py:4",
        call="head",
        what="output",
        kind="own",
        reason=wrong.own.reason,
        metrics=wrong.own,
    )
    parity = Parity(
        passed=False,
        rule="noise floor x 4",
        layers=(layer("encoder", 1e-6), wrong, layer("tail", 0.5), layer("Net", 0.0, error)),
        first_divergence=culprit,
        outputs=measured("Net", error),
        compared=4,
    )
    return report_of(parity)


def report_of(parity: Parity, todos: tuple[Todo, ...] = ()) -> Report:
    return Report.of_parity(
        parity,
        target="candle",
        model="Net",
        todos=todos,
        seconds=SECONDS,
        report=Path("out/report.json"),
        files={"project": Path("out/net")},
    )


def unsupported() -> Report:
    return Report(status="unsupported", target="candle", model="Net", todos=(TODO,) * 12)
