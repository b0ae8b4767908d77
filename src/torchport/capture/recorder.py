"""Records a model: its graph, and what eager PyTorch computed at every module call.

In: a model and example inputs. Out: a `Capture`, which saves itself to files that are enough for all that follows.
The model comes back as it was: mode, buffers, random state, hooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

from torchport.capture import export, hooks, symbols
from torchport.capture.graph import Graph
from torchport.capture.interpret import Interpreter
from torchport.capture.manifest import write_manifest
from torchport.capture.plan import Plan, make_plan
from torchport.capture.trace import write_tensors
from torchport.errors import CaptureError


@dataclass(frozen=True)
class Capture:
    """A recorded model. `golden` and `truth` are empty for a model on the meta device."""

    graph: Graph
    plan: Plan
    weights: dict[str, torch.Tensor]
    golden: dict[str, torch.Tensor] = field(default_factory=dict)
    truth: dict[str, torch.Tensor] = field(default_factory=dict)
    export_error: CaptureError | None = None
    """Why the graph is missing, when only hooks could record the model."""

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def has_values(self) -> bool:
        return bool(self.golden)

    def save(self, directory: str | Path, name: str | None = None) -> dict[str, Path]:
        """Writes the capture's files and says which; the manifest comes last, so that it never lies."""
        folder, name = Path(directory), name or self.name
        paths = {kind: folder / f"{name}_{kind}.safetensors" for kind in ("trace", "truth", "weights")}
        metadata = {"schema": "1", "root": self.plan.root}
        written = {}
        if self.has_values:
            write_tensors(paths["trace"], self.golden, metadata, aliases=self.plan.aliases)
            written["trace"] = paths["trace"]
        if self.truth:
            write_tensors(paths["truth"], self.truth, metadata)
            written["truth"] = paths["truth"]
        own = {n: t for n, t in self.weights.items() if self.graph.weights[n].tied_to is None}
        if own and not any(t.is_meta for t in own.values()):
            write_tensors(paths["weights"], own, {"schema": "1"})
            written["weights"] = paths["weights"]
        error = self.export_error
        extra = {
            "torch": torch.__version__,
            "values": self.has_values,
            **({"export_error": {"message": error.message, "where": error.where}} if error else {}),
        }
        manifest = folder / f"{name}_manifest.json"
        write_manifest(manifest, self.graph, extra=extra)
        return {"manifest": manifest, **written}


class GoldenRecorder:
    """`GoldenRecorder(dir).record(model, *inputs, **kwargs)`, then `.save(name)`."""

    _made: ClassVar[list[GoldenRecorder] | None] = None

    def __init__(self, output_dir: str | Path = ".", *, dynamic: str | None = None, ops: bool = False):
        self.output_dir = Path(output_dir)
        self.dynamic, self.ops = dynamic, ops
        self.capture: Capture | None = None
        if GoldenRecorder._made is not None:
            GoldenRecorder._made.append(self)

    @classmethod
    @contextmanager
    def watching(cls, made: list[GoldenRecorder]) -> Iterator[None]:
        """Notes every recorder that is made meanwhile, so that a script's recordings can be found."""
        cls._made = made
        try:
            yield
        finally:
            cls._made = None

    def record(self, model: torch.nn.Module, *inputs: Any, **kwargs: Any) -> Capture:
        self.capture = record(model, inputs, kwargs, dynamic=self.dynamic, ops=self.ops)
        return self.capture

    def save(self, name: str) -> dict[str, Path]:
        if self.capture is None:
            raise CaptureError("TP0206", "nothing has been recorded yet", fix="call record(model, …) first")
        return self.capture.save(self.output_dir, name)


def record(
    model: torch.nn.Module,
    args: tuple | list | torch.Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "model",
    dynamic: str | symbols.Wish | None = None,
    ops: bool = False,
    truth: bool = True,
    decompose: export.Decompose | None = None,
) -> Capture:
    """Runs the model once with every module watched. `ops` keeps the value of each operation, too.

    When torch.export cannot follow the model, hooks record what can be seen without a graph, and the capture's
    `export_error` says why.
    """
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    wish = symbols.parse_dynamic(dynamic) if isinstance(dynamic, str) else dynamic
    with as_it_was(model), torch.no_grad():
        eager = run_eager(model, args, kwargs)
        try:
            exported = export.export(model, args, kwargs, name=name, wish=wish, decompose=decompose)
        except CaptureError as error:
            return _by_hooks(model, args, kwargs, name, error)
        if _on_meta(model, args):
            return Capture(exported.graph, make_plan(exported.graph), exported.weights)
        return _with_values(exported, _tensors((args, kwargs)), eager, ops, truth)


def record_graph(
    model: torch.nn.Module,
    graph: Graph,
    constants: Mapping[str, torch.Tensor],
    args: tuple,
    kwargs: Mapping[str, Any],
) -> Capture:
    """Golden values for a graph that was captured before, from this model's weights and these inputs."""
    with as_it_was(model), torch.no_grad():
        eager = run_eager(model, args, kwargs)
        weights = export.weights_of(model, graph, constants)
        return _with_values(export.Exported(graph, weights), _tensors((args, kwargs)), eager, False, True)


def _with_values(
    exported: export.Exported, inputs: list[torch.Tensor], eager: list[torch.Tensor], ops: bool, truth: bool
) -> Capture:
    graph, plan = exported.graph, make_plan(exported.graph)
    golden: dict[str, torch.Tensor] = {}

    def keep(key: str, value: torch.Tensor) -> torch.Tensor:
        if key not in plan.aliases:
            golden[key] = value
        return value

    outputs = Interpreter(graph, exported.weights, plan, keep, nodes=ops).run(inputs)
    _must_agree(graph, outputs, eager)
    residual = _truth(exported, plan, golden, inputs, ops) if truth else {}
    return Capture(graph, plan, exported.weights, golden, residual)


def _truth(
    exported: export.Exported,
    plan: Plan,
    golden: Mapping[str, torch.Tensor],
    inputs: list[torch.Tensor],
    ops: bool,
) -> dict[str, torch.Tensor]:
    """How far each golden value is from the same step computed in float64 from golden inputs."""
    residual: dict[str, torch.Tensor] = {}

    def put_back(key: str, value: torch.Tensor) -> torch.Tensor:
        known = golden[plan.resolve(key)]
        if key not in plan.aliases and known.is_floating_point():
            wide = known.double()
            distance = torch.where(torch.isfinite(wide) & torch.isfinite(value), value - wide, 0.0)
            residual[key] = distance.float()
        return known

    Interpreter(exported.graph, exported.weights, plan, put_back, truth=True, nodes=ops).run(inputs)
    return residual


def _must_agree(graph: Graph, captured: list[torch.Tensor], eager: list[torch.Tensor]) -> None:
    """The captured graph must compute what the model computed; the same kernels give the same bits."""
    for index, (ours, theirs) in enumerate(zip(captured, eager, strict=True)):
        try:
            torch.testing.assert_close(ours, theirs, equal_nan=True)
        except AssertionError as error:
            raise CaptureError(
                "TP0203",
                f"the captured graph does not reproduce output {graph.output_names[index]}: "
                f"{str(error).splitlines()[0]}",
                fix="the model may branch on values or be random in eval mode; make it deterministic",
            ) from error


def run_eager(model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    try:
        return _tensors(model(*args, **kwargs))
    except Exception as error:
        raise CaptureError(
            "TP0201",
            f"the model fails its own forward pass: {type(error).__name__}: {error}",
            where=export.user_line(error),
            fix="run model(*args, **kwargs) in Python until it works, then record it",
        ) from error


@contextmanager
def as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode and the plain attention path inside; afterwards all is as before."""
    modes = {module: module.training for module in model.modules()}
    buffers = [(b, b.detach().clone()) for b in model.buffers() if not b.is_meta]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    devices = {p.device for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=[d.index for d in devices]):
        try:
            model.eval()
            torch.backends.mha.set_fastpath_enabled(False)
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
            for module, training in modes.items():
                module.training = training
            with torch.no_grad():
                for buffer, value in buffers:
                    if not torch.equal(buffer, value):
                        buffer.copy_(value)


def _by_hooks(
    model: torch.nn.Module, args: tuple, kwargs: dict[str, Any], name: str, error: CaptureError
) -> Capture:
    seen = hooks.watch(model, args, kwargs, name)
    return Capture(seen.graph, seen.plan, seen.weights, seen.golden, export_error=error)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _on_meta(model: torch.nn.Module, args: tuple) -> bool:
    return any(t.is_meta for t in [*model.parameters(), *model.buffers(), *_tensors(args)])
