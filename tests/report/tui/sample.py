"""Runs to look at, of real comparisons. Their numbers are sums of powers of two, so that they are the same anywhere."""

from pathlib import Path

import torch

from torchport.parity.metrics import compare
from torchport.parity.picture import draw
from torchport.parity.result import Divergence, Layer, Measured, Operation, Suggestion
from torchport.parity.tolerance import Fixed
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.targets.base import Todo

RULE = Fixed(rtol=0.0, atol=2.0**-12)
SHAPE = (4, 16, 32)
LINEAR = "torch.nn.modules.linear.Linear"
NORM = "torch.nn.modules.normalization.LayerNorm"
ATTENTION = "models.encoder.SelfAttention"
CULPRIT = "encoder.layer.1.attention"


def golden() -> torch.Tensor:
    numbers = torch.arange(4 * 16 * 32)
    spread = sum(numbers * factor % 64 for factor in (37, 11, 29, 53))
    return ((spread - 126) / 32).reshape(SHAPE)


def errors(size: float, places: slice) -> torch.Tensor:
    """Errors of one tensor: larger to the right, and only in some rows."""
    wrong = torch.zeros(SHAPE)
    wrong.view(-1, 32)[places] = size * 2.0 ** (torch.arange(32) // 4)
    return wrong


def measured(key: str, error: torch.Tensor) -> Measured:
    metrics = compare(golden(), golden() + error, rtol=RULE.rtol, atol=RULE.atol)
    return Measured(**dict(metrics), key=key, **RULE.judge(metrics)._asdict())


def layer(name: str, type: str, size: float, places: slice = slice(None), line: int = 10) -> Layer:
    error = errors(size, places)
    own = measured(name, error)
    return Layer(
        name=name,
        type=type,
        own=own,
        chained=measured(name, 2 * error),
        passed=bool(own.passed),
        reason=None if own.passed else f"output: {own.reason}",
        source=f"models/encoder.py:{line}",
        rule=own.rule,
        parent=name.rpartition(".")[0] or None,
        picture=draw(golden(), golden() + error, own.golden_max),
    )


def handed_on(name: str) -> Layer:
    return Layer(
        name=name,
        type="torch.nn.modules.dropout.Dropout",
        own=None,
        chained=measured(name, errors(0, slice(None))),
        passed=True,
        reason="returns encoder.layer.0.dense as it is",
    )


def layers(fault: float) -> tuple[Layer, ...]:
    found = [layer("embeddings.norm", NORM, 2.0**-24)]
    for block in range(3):
        prefix = f"encoder.layer.{block}"
        size = fault if block == 1 else 2.0**-23
        found += [
            layer(f"{prefix}.attention.query", LINEAR, 2.0**-22, line=31),
            layer(f"{prefix}.attention.key", LINEAR, 2.0**-24, line=32),
            layer(f"{prefix}.attention", ATTENTION, size, slice(19, 44), line=58),
            layer(f"{prefix}.dense", LINEAR, fault / 8 if block == 1 else 2.0**-25, slice(0, 30), line=61),
            handed_on(f"{prefix}.dropout"),
            layer(f"{prefix}.norm", NORM, 0.0, line=64),
        ]
    return (*found, layer("Encoder", "models.encoder.Encoder", 0.0, line=80))


def passing() -> Run:
    return run_of(Report(status="pass", layers=layers(2.0**-23), **_common()))


def failing(folder: Path = Path("torchport-out/encoder"), snippet: str | None = "snippets/attention") -> Run:
    found = layers(2.0**-12)
    wrong = next(one for one in found if one.name == CULPRIT)
    assert wrong.own is not None and wrong.own.reason is not None
    culprit = Divergence(
        layer=wrong.name,
        type=wrong.type,
        source=wrong.source,
        call=wrong.name,
        what="output",
        kind="own",
        reason=wrong.own.reason,
        metrics=wrong.own,
        operation=Operation(
            node="scaled_dot_product_attention",
            op="aten.scaled_dot_product_attention.default",
            source="models/encoder.py:47",
            reason="512 times the limit",
            metrics=None,
        ),
        suggestions=(
            Suggestion(kind="scale", text="the scale is 1 and should be 0.125", explains=0.9994),
            Suggestion(kind="mask", text="the mask is not applied", explains=0.21),
        ),
        edits=("@@ -81,3 +81,3 @@\n-            None,\n+            Some(1.0),\n",),
        snippet=snippet,
    )
    return run_of(Report(status="fail", layers=found, first_divergence=culprit, **_common()), folder)


def unsupported() -> Run:
    todos = (
        Todo(
            op="aten.fft_rfft.default", layer="mixer.0", source="models/fnet.py:22", reason="nothing maps it"
        ),
        Todo(op="aten.svd.default", layer="head", source=None, reason="nothing maps it"),
    )
    return run_of(Report(status="unsupported", target="candle", model="fnet", todos=todos))


def long(number: int) -> Run:
    """Many layers; each hundredth fails."""
    good, bad = layer("x", LINEAR, 2.0**-24), layer("x", LINEAR, 1.0)
    found = tuple(
        (good if index % 100 else bad).model_copy(update={"name": f"block.{index // 10}.linear.{index % 10}"})
        for index in range(number)
    )
    return run_of(Report(status="fail", layers=found, **_common()))


def run_of(report: Report, folder: Path = Path("torchport-out/encoder")) -> Run:
    return Run.of(report, folder)


def _common() -> dict:
    seconds = {"capture": 5.6, "convert": 0.2, "build": 12.7, "run": 0.4, "compare": 0.1}
    return {"target": "candle", "model": "encoder", "rule": RULE.name, "seconds": seconds}


def write_snippet(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "plot.py").write_text('"""Draws the layer: heatmaps and histograms.\n\nMore of it.\n"""\n')
    (folder / "rerun.py").write_text('"""Runs the layer alone."""\n')
    (folder / "tensors.safetensors").write_bytes(b"")
