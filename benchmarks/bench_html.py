"""What the HTML report of a large model costs: `make bench`.

Prints the size of the page, the seconds that rendering takes, and the seconds until a browser has drawn it; exits 1
when a promise does not hold: 5,000 layers are under 5 MB and drawn in under 3 s.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.graph import CALL, Graph, Input, Module, Node, Ref, TensorMeta, Weight
from torchport.capture.manifest import write_manifest
from torchport.capture.plan import Call, make_plan
from torchport.parity.metrics import Metrics, compare
from torchport.parity.picture import Picture, draw
from torchport.parity.result import Divergence, Layer, Measured, Suggestion
from torchport.parity.tolerance import NoiseFloor
from torchport.runs.report import Report
from torchport.runs.run import Run

LAYERS, LARGEST, SLOWEST = 5_000, 5_000_000, 3.0
META = TensorMeta((4, 16, 64), "float32")
BLOCK = {
    "attention": ("Attention", ["query", "key", "value", "out"]),
    "mlp": ("Mlp", ["fc1", "fc2"]),
}
PER_BLOCK = 9
DISTINCT = 200
"""Tensors that are compared; layers share what was found, which saves no byte of the page."""
RUST = """\
struct {name} {{
    probe: Probe,
}}

impl Module for {name} {{
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {{
        check!(self.probe, xs.clone())
    }}
}}

"""


def make_run(folder: Path, layers: int, broken: float = 0.6) -> Run:
    """A run of a transformer with about so many layers, one of which, `broken` of the way in, goes wrong."""
    graph = make_graph(max(1, round((layers - 1) / PER_BLOCK)))
    calls = make_plan(graph).calls
    names = list(calls)
    culprit = next(name for name in names[int(broken * len(names)) :] if name.endswith("fc2"))
    torch.manual_seed(0)
    tensors = [make_tensors(6e-8) for _ in range(DISTINCT)]
    made = tuple(
        make_layer(call, make_tensors(3e-4) if call.name == culprit else tensors[place % DISTINCT])
        for place, call in enumerate(calls.values())
    )
    wrong = next(layer for layer in made if layer.name == culprit)
    assert wrong.own is not None
    divergence = Divergence(
        layer=culprit,
        type=wrong.type,
        source=wrong.source,
        call=culprit,
        what="output",
        kind="own",
        reason=wrong.own.reason or "",
        metrics=wrong.own,
        suggestions=(Suggestion(kind="scale", text="the weight is multiplied by 1.0003", explains=0.998),),
    )
    status = "pass" if all(layer.passed for layer in made) else "fail"
    report = Report(
        status=status,
        target="candle",
        model="large",
        layers=made,
        first_divergence=divergence,
        rule=wrong.rule,
    )
    report.write(folder / "report.json")
    write_manifest(folder / "capture" / "large_manifest.json", graph, extra={})
    (folder / "rust" / "src").mkdir(parents=True)
    text = "".join(RUST.format(name=name) for name in ("Attention", "Mlp", "Block", "Large"))
    (folder / "rust" / "src" / "model.rs").write_text(text)
    return Run.open(folder)


@dataclass(frozen=True)
class Compared:
    metrics: Metrics
    drift: Metrics
    picture: Picture | None


def make_tensors(noise: float) -> Compared:
    golden = torch.randn(4, 16, 16)
    residual = torch.randn(4, 16, 16).double() * 3e-8
    own, chained = (golden + torch.randn(4, 16, 16) * size for size in (noise, 4 * noise))
    metrics = compare(golden, own, residual)
    return Compared(metrics, compare(golden, chained), draw(golden, own, metrics.golden_max))


def make_layer(call: Call, compared: Compared) -> Layer:
    verdict = NoiseFloor().judge(compared.metrics)
    return Layer(
        name=call.name,
        type=call.type,
        own=Measured(**dict(compared.metrics), key=call.name, **verdict._asdict()),
        chained=Measured(**dict(compared.drift), key=call.name),
        passed=verdict.passed,
        reason=verdict.reason,
        source=call.source,
        rule=verdict.rule,
        parent=call.parent,
        picture=compared.picture,
    )


def make_graph(blocks: int) -> Graph:
    weights: dict[str, Weight] = {}
    modules: dict[str, Module] = {}
    for number in range(blocks):
        add_block(f"blocks.{number}", modules, weights)
    calls = [call(f"blocks_{n}", f"blocks.{n}", f"blocks_{n - 1}" if n else "x") for n in range(blocks)]
    modules[""] = module("", "large.Large", calls)
    return Graph("large", modules, weights, (), ("output",))


def add_block(path: str, modules: dict[str, Module], weights: dict[str, Weight]) -> None:
    for part, (name, leaves) in BLOCK.items():
        nodes = []
        for leaf in leaves:
            key = f"{path}.{part}.{leaf}"
            weights[f"{key}.weight"] = Weight(TensorMeta((64, 64), "float32"), "parameter")
            linear = operation("linear", "aten.linear.default", "x", "w_weight")
            modules[key] = module(key, "torch.nn.modules.linear.Linear", [linear], f"{key}.weight")
            nodes.append(call(leaf, key, nodes[-1].name if nodes else "x"))
            nodes.append(operation(f"gelu_{leaf}", "aten.gelu.default", leaf))
        modules[f"{path}.{part}"] = module(f"{path}.{part}", f"large.{name}", nodes)
    inner = [
        call("attention", f"{path}.attention", "x"),
        operation("add", "aten.add.Tensor", "attention", "x"),
        call("mlp", f"{path}.mlp", "add"),
        operation("add_1", "aten.add.Tensor", "mlp", "add"),
    ]
    modules[path] = module(path, "large.Block", inner)


def module(key: str, kind: str, nodes: list[Node], weight: str | None = None) -> Module:
    params = {} if weight is None else {"w_weight": weight}
    source = f"{Path(__file__).resolve()}:{1 + len(key) % 40}"
    return Module(key, kind, (Input("x", META),), tuple(nodes), (Ref(nodes[-1].name),), params, source=source)


def call(name: str, target: str, given: str) -> Node:
    source = f"{Path(__file__).resolve()}:{1 + len(name) % 60}"
    return Node(name, CALL, (Ref(given),), {}, (META,), target=target, source=source)


def operation(name: str, op: str, *given: str) -> Node:
    source = f"{Path(__file__).resolve()}:{1 + len(name) % 60}"
    return Node(name, op, tuple(Ref(one) for one in given), {}, (META,), source=source)


def seconds_to_draw(page: Path) -> float:
    """From going to the page until its chart is drawn, the tree and the layer before it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        tab = browser.new_page()
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("#chart[data-drawn]")
        taken = time.perf_counter() - start
        browser.close()
    return taken


def main() -> int:
    from torchport.report.html import render

    with tempfile.TemporaryDirectory() as scratch:
        run = make_run(Path(scratch), LAYERS)
        assert run.graph is not None
        start = time.perf_counter()
        text = render(run)
        rendered = time.perf_counter() - start
        page = Path(scratch) / "report.html"
        page.write_text(text, encoding="utf-8")
        size = page.stat().st_size
        drawn = seconds_to_draw(page)
    print(f"layers                  {len(run.report.layers):6d}")
    print(f"size                    {size / 1e6:6.2f} MB (limit {LARGEST / 1e6:.0f})")
    print(f"rendered                {rendered:6.1f} s")
    print(f"drawn by the browser    {drawn:6.1f} s (limit {SLOWEST:.0f})")
    return 0 if size < LARGEST and drawn < SLOWEST else 1


if __name__ == "__main__":
    sys.exit(main())
