"""Records a model: its graph, and what eager PyTorch computed at every module call.

In: a model and example inputs. Out: a `Capture`, which saves itself to files that are all that targets need.
The model comes back as it was: mode, buffers, random state, hooks.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch

from torchport.capture import export, export_fault, hooks, symbols
from torchport.capture.assumed import EVERY_AXIS, Assumed, constants_of, fixed_axes
from torchport.capture.attempt import attempt
from torchport.capture.drawn import SEED, random_nodes
from torchport.capture.eager import (
    as_arguments,
    must_be_recordable,
    must_fit,
    must_fulfil,
    on_meta,
    run_eager,
    tensors,
    where_the_model_is,
)
from torchport.capture.exported import Exported
from torchport.capture.file_names import Kind, captured_file
from torchport.capture.graph import Graph
from torchport.capture.least import must_not_squeeze, with_least
from torchport.capture.manifest import write_manifest
from torchport.capture.module_names import must_have_graphs_apart
from torchport.capture.plan import Plan, make_plan
from torchport.capture.state import as_it_was, copied, is_training, state_kept
from torchport.capture.streamed import all_on_meta, filled
from torchport.capture.values import with_values
from torchport.capture.variants import with_variants
from torchport.capture.weights import SelectedWeights, Weights, as_weights
from torchport.errors import CaptureError, DiskError
from torchport.parity.judge import allowance
from torchport.trace.writing import write_tensors


@dataclass(frozen=True)
class Capture:
    """A recorded model. `golden` and `truth` are empty if the model is on the meta device."""

    graph: Graph
    plan: Plan
    weights: Weights
    """The model's own tensors, not copies: save before the model is changed. A plain dict of tensors will do, too."""
    golden: dict[str, torch.Tensor] = field(default_factory=dict)
    truth: dict[str, torch.Tensor] = field(default_factory=dict)
    export_error: CaptureError | None = None
    """Why torch.export failed, if hooks had to record a part of the model."""
    writes: tuple[str, ...] = ()
    """Buffers that the model writes to when it is called, which a port does not."""
    idle: tuple[str, ...] = ()
    """Bodies of control flow that did not run on the recorded inputs, so that nothing is known of their values."""
    sizes: str | None = None
    """Why the model could not be captured at other sizes, so that nobody knows what follows from which size."""
    assumed: Assumed = field(default_factory=Assumed)
    """What was assumed of the model, which its user may not have meant."""
    mapping: str | None = None
    """What is not proven, or not so, of which weight is which, if the weights are out of a file."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", as_weights(self.weights))

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def has_values(self) -> bool:
        return bool(self.golden)

    def named(self, name: str) -> Capture:
        """The same capture under another name."""
        return replace(self, graph=replace(self.graph, name=name))

    def save(self, directory: str | Path, name: str | None = None) -> dict[str, Path]:
        """Writes the capture's files, and gives their paths. The manifest comes last: if it is there, all are.

        They take the place of those of an earlier recording when all are written.
        """
        folder, name = Path(directory), name or self.name
        with _beside(folder, name) as beside:
            written = self._write({kind: captured_file(beside, name, kind) for kind in get_args(Kind)})
            _forget(captured_file(folder, name, kind) for kind in get_args(Kind))
            return _moved(written, folder)

    def _write(self, paths: Mapping[Kind, Path]) -> dict[Kind, Path]:
        """Writes what there is, the manifest last."""
        metadata = {"schema": "1", "root": self.plan.root}
        written: dict[Kind, Path] = {}
        if self.has_values:
            limits = {"limits": json.dumps(self._limits())}
            write_tensors(paths["trace"], self.golden, {**metadata, **limits}, aliases=self.plan.aliases)
            written["trace"] = paths["trace"]
        if self.truth:
            write_tensors(paths["truth"], self.truth, metadata)
            written["truth"] = paths["truth"]
        untied = [name for name in self.weights if self.graph.weights[name].tied_to is None]
        own = SelectedWeights(self.weights, [name for name in untied if not self.weights[name].is_meta])
        if own:
            write_tensors(paths["weights"], own, {"schema": "1"})
            written["weights"] = paths["weights"]
        error = self.export_error
        facts = ("message", "where", "fix")
        extra = {
            "torch": torch.__version__,
            "values": self.has_values,
            **({"export_error": {fact: getattr(error, fact) for fact in facts}} if error else {}),
            **({"writes": list(self.writes)} if self.writes else {}),
            **({"idle": list(self.idle)} if self.idle else {}),
            **({"sizes": self.sizes} if self.sizes else {}),
            **({"mapping": self.mapping} if self.mapping else {}),
            **({"assumed": self.assumed.facts} if self.assumed.facts else {}),
        }
        write_manifest(paths["manifest"], self.graph, extra=extra)
        return {**written, "manifest": paths["manifest"]}

    def _limits(self) -> dict[str, float]:
        """For each floating value how far an honest port may be from it, for those who check a single tensor."""
        return {
            key: allowance(value, self.truth.get(key))
            for key, value in self.golden.items()
            if value.is_floating_point()
        }


@contextmanager
def _beside(folder: Path, name: str) -> Iterator[Path]:
    """A folder to write files to that belong in another, on the same disk; it is gone afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=folder))
    except OSError as error:
        raise DiskError("TP0330", f"cannot write to {folder}: {error.strerror}", where=str(folder)) from error
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _moved(written: Mapping[Kind, Path], folder: Path) -> dict[str, Path]:
    """The files in their folder, in the same order."""
    for path in written.values():
        try:
            os.replace(path, folder / path.name)
        except OSError as error:
            message = f"cannot write {folder / path.name}: {error.strerror}"
            raise DiskError("TP0330", message, where=str(folder / path.name)) from error
    return {kind: folder / path.name for kind, path in written.items()}


def _forget(paths: Iterable[Path]) -> None:
    """Removes the files of an earlier recording, which would not belong to this one: its manifest first."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError("TP0330", f"cannot replace {path}: {error.strerror}", where=str(path)) from error


class GoldenRecorder:
    """`GoldenRecorder(dir).record(model, *inputs, **kwargs)`, then `.save(name)`."""

    _made: ClassVar[list[GoldenRecorder] | None] = None

    def __init__(
        self,
        output_dir: str | Path = ".",
        *,
        dynamic: str | symbols.Wish | None = None,
        ops: bool = False,
        allow_random: bool = False,
    ):
        self.output_dir = Path(output_dir)
        self.dynamic, self.ops, self.allow_random = dynamic, ops, allow_random
        self.capture: Capture | None = None
        if GoldenRecorder._made is not None:
            GoldenRecorder._made.append(self)

    @classmethod
    @contextmanager
    def watching(cls, made: list[GoldenRecorder]) -> Iterator[None]:
        """Within, every recorder that is made is added to `made`, so that a script's recordings can be found."""
        cls._made = made
        try:
            yield
        finally:
            cls._made = None

    def record(self, model: torch.nn.Module, *inputs: Any, **kwargs: Any) -> Capture:
        self.capture = record(
            model, inputs, kwargs, dynamic=self.dynamic, ops=self.ops, allow_random=self.allow_random
        )
        return self.capture

    def save(self, name: str) -> dict[str, Path]:
        if self.capture is None:
            raise CaptureError("TP0206", "nothing has been recorded yet", fix="call record(model, …) first")
        return self.capture.named(name).save(self.output_dir)


def record(
    model: torch.nn.Module,
    args: tuple[Any, ...] | list[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "model",
    dynamic: str | symbols.Wish | None = None,
    ops: bool = False,
    truth: bool = True,
    variants: bool = True,
    decompose: export.Decompose | None = None,
    allow_random: bool = False,
) -> Capture:
    """Captures a model's graph, and the value of every module call. `ops` keeps the value of each operation, too.

    A model that draws random numbers is refused without `allow_random`.

    With `variants`, the graph is also captured at other sizes, if the model can be made again with others.

    If torch.export cannot follow the model, hooks record what can be seen without a graph, and the capture's
    `export_error` says why.
    """
    must_have_graphs_apart(model)
    given: tuple[Any, ...] = as_arguments(args)
    named: dict[str, Any] = dict(kwargs or {})
    given, named = where_the_model_is(model, (given, named))
    wish = symbols.parse_dynamic(dynamic)
    training = is_training(model)
    with as_it_was(model), all_on_meta(model) as with_values_of, torch.no_grad():
        if allow_random:
            torch.manual_seed(SEED)
        eager = [] if on_meta(model, (given, named)) else run_eager(model, given, named)
        observed: dict[str, list[torch.Tensor]] = {}
        error = None
        try:
            exported = _export(model, given, named, name, wish, decompose)
        except CaptureError as raised:
            must_be_recordable(model, given, named)
            error = export_fault.in_plain_words(raised)
            hooked = hooks.capture(model, given, named, name=name, error=error, decompose=decompose)
            exported, observed = hooked.exported, hooked.observed
        if error is None and not allow_random:
            _must_not_draw(exported.graph)
        graph, why_fixed = exported.graph, None
        if variants and error is None:
            with_others = with_variants(
                model,
                (given, named),
                exported,
                lambda other, inputs: _export(other, *inputs, name, wish, decompose),
            )
            graph, why_fixed = with_others.graph, with_others.reason
        graph = symbols.with_examples(graph, tensors((given, named)))
        exported = replace(exported, graph=graph)
        plan, weights = make_plan(graph), with_values_of(exported.weights)
        if error is None:
            exported = replace(exported, graph=with_least(model, exported, plan, given, named))
        assumed = _assumed(model, exported, given, named, wish, training)
        if on_meta(model, (given, named)):
            facts: dict[str, Any] = {"writes": exported.writes, "sizes": why_fixed, "assumed": assumed}
            return Capture(exported.graph, plan, weights, export_error=error, **facts)
        inputs = tensors(copied((given, named)))
        values = with_values(exported, plan, inputs, eager, ops=ops, truth=truth, observed=observed)
    return Capture(
        exported.graph,
        plan,
        weights,
        values.golden,
        values.truth,
        error,
        exported.writes,
        values.idle,
        why_fixed,
        assumed,
    )


def _assumed(
    model: torch.nn.Module,
    exported: Exported,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    wish: symbols.Wish | None,
    training: bool,
) -> Assumed:
    leaves, labels, _ = export.flatten_inputs(model, args, kwargs)
    inputs = tensors((args, kwargs))
    return Assumed(
        training=training,
        constants=constants_of(leaves, labels),
        fixed=fixed_axes(exported.graph, inputs, exported.fixed_by) if wish is None else (),
    )


def record_graph(
    model: torch.nn.Module,
    graph: Graph,
    constants: Mapping[str, torch.Tensor],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Capture:
    """Golden values for a graph that was captured before, from this model's weights and these inputs."""
    with as_it_was(model), torch.no_grad():
        torch.manual_seed(SEED)
        eager = run_eager(model, args, kwargs)
        weights = export.weights_of(model, graph, constants)
        inputs = tensors(copied((args, dict(kwargs))))
        must_fit(graph, inputs)
        plan = make_plan(graph)
        values = with_values(Exported(graph, weights), plan, inputs, eager)
    return Capture(graph, plan, weights, values.golden, values.truth, idle=values.idle)


def record_streamed(
    model: torch.nn.Module, graph: Graph, weights: Weights, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Capture:
    """Golden values for a graph of a model on the meta device, with its weights out of a store.

    Of the model, and of the graph, only what runs is in memory. The capture has no weights: they stay where they are.
    """
    with as_it_was(model), filled(model, weights), torch.no_grad():
        eager = run_eager(model, args, kwargs)
    inputs = tensors(copied((args, dict(kwargs))))
    must_fit(graph, inputs)
    plan = make_plan(graph)
    values = with_values(Exported(graph, weights), plan, inputs, eager)
    return Capture(graph, plan, as_weights({}), values.golden, values.truth, idle=values.idle)


def _must_not_draw(graph: Graph) -> None:
    node = next(random_nodes(graph), None)
    if node is not None:
        raise CaptureError(
            "TP0204",
            f"the model draws random numbers: {node.op}",
            where=node.source,
            fix="pass random tensors in as inputs; or port it with [[allow_random=True]], which leaves all that "
            "depends on them out of the verdict",
        )


def _export(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    wish: symbols.Wish | None,
    decompose: export.Decompose | None,
) -> Exported:
    """The graph with the axes free that were asked for; axes that nobody asked for are fixed if export needs that."""

    def with_free(axes: symbols.Wish | None) -> Exported:
        with state_kept(model, runs=False):
            exported = attempt(model, args, kwargs, name=name, wish=axes, decompose=decompose)
        must_not_squeeze(exported.graph, (args, kwargs))
        shapes = [tuple(tensor.shape) for tensor in tensors((args, kwargs))]
        must_fulfil(exported.graph, exported.graph.bindings_of(shapes))
        return exported

    try:
        return with_free(wish)
    except CaptureError as error:
        if wish == {}:
            raise
        try:
            fixed = with_free({})
        except CaptureError:
            raise error from error.__cause__
        if wish is None:
            why = f"{error.where or 'torch.export'}: {error.message}"
            return replace(fixed, fixed_by={EVERY_AXIS: why})
        raise symbols.not_free(wish, error) from error
