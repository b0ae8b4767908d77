"""One choice of formats, measured: the file is written, the port runs on it, and what it computes is compared.

A `Task` can be handed to another process or machine: it is opened there from the folder of the port.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from torchport.blocks.formats import AWQ, bytes_in, format_called, why_not
from torchport.capture.graph import Graph
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.errors import QuantError, RunError, UsageError
from torchport.parity.metrics import compare
from torchport.porting.port import Port
from torchport.quant.chosen import Candidate, Chosen, choose
from torchport.quant.results import Drift, LayerDrift, Logits, SchemeDrift, decibels
from torchport.quant.storing import Importance, Mix, RowWeights, error_of_weight, store, stored_bytes
from torchport.runs.folder import BLOCKS, RunFolder
from torchport.targets.base import Artifact, Mode, RunsInBlocks
from torchport.trace.plan import Plan
from torchport.trace.reading import Trace

FLOATS = "f32"
"""In a scheme: weights that fit no format before it stay as they are."""


@dataclass(frozen=True)
class Subject:
    """A proven port whose weights are put into blocks."""

    files: RunFolder
    graph: Graph
    artifact: RunsInBlocks
    weights: RowWeights
    chosen: Chosen

    @property
    def plan(self) -> Plan:
        return make_plan(self.graph)


def subject_of(made: Port) -> Subject:
    """What is measured, once the port is built."""
    artifact = made.artifact
    if not isinstance(artifact, RunsInBlocks) or artifact.stored is None:
        raise UsageError("TP0801", f"the target {made.target.name} does not run on weights in blocks")
    graph = read_manifest(made.files.manifest)[0]
    chosen = choose(graph)
    if not chosen.candidates:
        raise UsageError(
            "TP0801", f"{made.files.name} has no matrix that is only multiplied with or looked up in"
        )
    reversed_ = [name for name, candidate in chosen.candidates.items() if candidate.inputs_first]
    return Subject(made.files, graph, artifact, RowWeights(artifact.stored, reversed_), chosen)


def known_importance(subject: Subject) -> Importance:
    with Trace(subject.files.captured("trace")) as golden:
        return importance_of(golden, subject.chosen)


def formats_of(scheme: str) -> tuple[list[str], bool]:
    """The formats of a scheme, and whether weights that fit none of them stay floats."""
    *names, last = scheme.lower().split("+")
    forms = [format_called(name) for name in (names if last == FLOATS else [*names, last])]
    if not forms:
        raise UsageError("TP0801", f"the scheme {scheme!r} puts nothing in blocks")
    return forms, last == FLOATS


def mix_of(scheme: str, chosen: Chosen) -> dict[str, str]:
    """The format of each weight under a scheme, in which A+B is B for the weights that do not fit A; f32 fits all."""
    forms, may_be_floats = formats_of(scheme)
    mix = {}
    for name, candidate in chosen.candidates.items():
        fitting = [form for form in forms if _why_not(form, candidate) is None]
        if fitting:
            mix[name] = fitting[0]
        elif not may_be_floats:
            stand_in = "q5_0" if why_not("q5_0", candidate.shape[1]) is None else FLOATS
            raise QuantError(
                "TP0350",
                f"{name} cannot be {scheme}: {_why_not(forms[-1], candidate)}",
                where=name,
                fix=f"Name what to take for weights that do not fit, such as {scheme}+{stand_in}.",
            )
    return mix


def _why_not(form: str, candidate: Candidate) -> str | None:
    if form == AWQ and candidate.is_table:
        return "its rows are looked up, and awq is for what is multiplied with"
    if form == AWQ and not candidate.given:
        return "what it is multiplied with is no input or output of a module, so that no recording has it"
    return why_not(form, candidate.shape[1])


def measure(
    subject: Subject,
    scheme: str,
    mix: Mix,
    importance: Importance,
    *,
    by_importance: bool = False,
    keep: Path | None = None,
    by_layer: bool = True,
) -> SchemeDrift:
    """Runs the port with its weights in these formats; the file is kept at `keep`.

    The importance of columns is used for blocks if `by_importance`; awq cannot do without.
    """
    with TemporaryDirectory(prefix=".blocks-", dir=_scratch(subject)) as scratch:
        file = keep or Path(scratch) / "weights.gguf"
        used = write_blocks(file, subject, mix, importance, by_importance=by_importance)
        artifact = subject.artifact.on_weights(file)
        with Trace(subject.files.captured("trace")) as golden:
            chained = _run(artifact, subject, "chained", Path(scratch))
            with chained:
                outputs, logits = _outputs(subject, golden, chained)
                layers: tuple[LayerDrift, ...] = ()
                if by_layer:
                    with _run(artifact, subject, "lockstep", Path(scratch)) as lockstep:
                        layers = tuple(_layers(subject, mix, used, golden, lockstep, chained))
    blocks = {name: subject.chosen.candidates[name] for name in mix}
    weights = sum(candidate.numel for candidate in blocks.values())
    nbytes = sum(bytes_in(mix[name], candidate.shape) for name, candidate in blocks.items())
    return SchemeDrift(
        scheme=scheme,
        bytes=stored_bytes(subject.weights, mix),
        bits=8 * nbytes / weights if weights else 0.0,
        outputs=outputs,
        logits=logits,
        layers=layers,
        floats=tuple(name for name in subject.chosen.candidates if name not in mix),
        file=None if keep is None else str(keep),
    )


def write_blocks(
    file: Path, subject: Subject, mix: Mix, importance: Importance, *, by_importance: bool
) -> Importance:
    """Writes the weights in these formats, and gives the importance that was used for them."""
    used = {name: columns for name, columns in importance.items() if by_importance or mix.get(name) == AWQ}
    store(file, subject.graph.name, subject.weights, mix, used)
    return used


def _scratch(subject: Subject) -> Path:
    place = subject.files.path / BLOCKS
    place.mkdir(parents=True, exist_ok=True)
    return place


def _run(artifact: Artifact, subject: Subject, mode: Mode, scratch: Path) -> Trace:
    record = scratch / f"{mode}.safetensors"
    stopped = artifact.run(subject.files.captured("trace"), mode, record)
    if stopped is not None:
        raise RunError("TP0601", f"the port stopped on weights in blocks: {stopped.message}")
    return Trace(record)


def _outputs(subject: Subject, golden: Trace, chained: Trace) -> tuple[Drift, Logits | None]:
    plan = subject.plan
    keys = [key for key in plan.calls[plan.root].outputs if golden.has(key)]
    floats = [key for key in keys if golden.get(key).is_floating_point()]
    if not floats:
        raise QuantError("TP0350", "the model gives no floats, so that no drift of it can be measured")
    # One number for all outputs, so that schemes are compared by the same: which output is worst may change.
    drift = Drift.of(compare(_in_a_row(golden, floats), _in_a_row(chained, floats)))
    tables = {
        candidate.shape[0] for candidate in subject.chosen.candidates.values() if candidate.is_looked_up
    }
    names = dict(zip(keys, subject.graph.output_names, strict=False))
    spread = [key for key in floats if names.get(key) == "logits" or _is_over(golden.get(key), tables)]
    return drift, None if not spread else logits_drift(golden.get(spread[0]), chained.get(spread[0]))


def _in_a_row(trace: Trace, keys: list[str]) -> torch.Tensor:
    """The elements of several values."""
    return torch.cat([trace.get(key).float().reshape(-1) for key in keys])


def _is_over(tensor: torch.Tensor, tables: Iterable[int]) -> bool:
    """Whether the last axis of a tensor has an entry for each row of a table, as logits of a language model have."""
    return tensor.dim() >= 2 and tensor.shape[-1] in set(tables)


def logits_drift(golden: torch.Tensor, candidate: torch.Tensor) -> Logits:
    """The divergence of distributions over the last axis."""
    wanted = torch.log_softmax(golden.double(), dim=-1)
    found = torch.log_softmax(candidate.double(), dim=-1)
    kl = (wanted.exp() * (wanted - found)).sum(dim=-1).mean()
    same = (golden.argmax(dim=-1) == candidate.argmax(dim=-1)).double().mean()
    if not candidate.isfinite().all():
        return Logits(kl=float("nan"), top1=float("nan"))
    return Logits(kl=float(kl), top1=float(same))


def _drift(golden: Trace, candidate: Trace, key: str) -> Drift:
    return Drift.of(compare(golden.get(key), candidate.get(key)))


def worst(drifts: list[Drift]) -> Drift:
    """The drift with the least signal to noise; one that is not known is worse than all."""
    return min(drifts, key=lambda drift: (drift.sqnr_db == drift.sqnr_db, drift.sqnr_db))


def _layers(
    subject: Subject, mix: Mix, importance: Importance, golden: Trace, lockstep: Trace, chained: Trace
) -> Iterable[LayerDrift]:
    calls: dict[str, list[str]] = {}
    for call in subject.plan.calls.values():
        calls.setdefault(call.path, []).extend(key for key in call.outputs if golden.has(key))
    for name, form in mix.items():
        candidate = subject.chosen.candidates[name]
        keys = calls.get(candidate.layer, [])
        noise = error_of_weight(name, subject.weights, form, importance.get(name))
        signal = float(np.square(subject.weights.read(name).numpy().astype(np.float64)).mean())
        mean_square = float(np.square(noise.astype(np.float64)).mean())
        yield LayerDrift(
            weight=name,
            layer=candidate.layer,
            format=form,
            bytes=bytes_in(form, candidate.shape),
            weight_sqnr_db=decibels(signal, mean_square),
            weight_rmse=mean_square**0.5,
            own=_of(golden, lockstep, keys),
            chained=_of(golden, chained, keys),
            note=_note(subject, candidate, form),
        )


def _of(golden: Trace, candidate: Trace, keys: list[str]) -> Drift | None:
    return worst([_drift(golden, candidate, key) for key in keys]) if keys else None


def _note(subject: Subject, candidate: Candidate, form: str) -> str | None:
    if form == AWQ:
        return "in the file as the floats that awq stands for, and multiplied as such"
    if subject.artifact.multiplies_blocks(subject.graph, candidate.name):
        return None
    return "in blocks in the file alone: made floats when it is loaded"


def importance_of(golden: Trace, chosen: Chosen) -> Importance:
    """How much the columns of each weight matter: the mean square of what they are multiplied with in the recording.

    A weight is not in it if the recording does not have all that it is multiplied with.
    """
    found = {}
    for name, candidate in chosen.candidates.items():
        squares, count = np.zeros(candidate.shape[1]), 0
        for key in candidate.given:
            rows = golden.get(key).reshape(-1, candidate.shape[1]).double()
            squares += rows.square().sum(dim=0).numpy()
            count += len(rows)
        if count:
            found[name] = (squares / count).astype(np.float32)
    return found
