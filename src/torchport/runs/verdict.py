"""From the traces in a run's folder to its report: the one way in which a port and a PyTorch candidate are judged.

Layers that are out of bounds are looked at again: if the candidate's arithmetic is coarser than eager PyTorch's, what
that computes is their floor; and the class of arithmetic that explains them is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from torchport.arithmetic.classes import EAGER, FLOAT32, NARROWED, Arithmetic
from torchport.arithmetic.naming import name_arithmetic
from torchport.errors import TorchportError
from torchport.events import LayerJudged, Steps
from torchport.parity.compare import compare_traces
from torchport.parity.drawn import NOTHING_DRAWN, Drawn
from torchport.parity.dtypes import WIDEST, name_of
from torchport.parity.measuring import Again
from torchport.parity.result import Layer, Parity
from torchport.parity.rulebook import RuleBook
from torchport.parity.values import Remembered
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report
from torchport.trace.plan import Plan
from torchport.trace.reading import Trace

_WHOLE = "float64 from end to end"
_MOST_NAMED = 6
NAMED = 100
"""The layers, from the first that fails, whose arithmetic is looked for."""
Emulate = Callable[[Arithmetic, Collection[str]], Mapping[str, Tensor]]
"""What the reference computes in a class of arithmetic, from golden inputs, in some of its calls."""


@dataclass(frozen=True)
class Reference:
    """The reference, to be run again in other ways where a candidate is out of bounds."""

    arithmetic: Arithmetic
    """The class that the candidate declares."""
    emulate: Emulate
    """TorchportError if it cannot be run so."""
    ends: Callable[[], Mapping[str, Tensor]]
    """The outputs of the whole model in float64, by key; TorchportError, or none, if it cannot be run so."""
    emulate_all: Callable[[Arithmetic], Mapping[str, Tensor]]
    """The outputs of the whole model in a class of arithmetic, by key; as `ends` if it cannot be run so."""


@dataclass(frozen=True)
class RunTraces:
    """The traces of a run, in files or at hand."""

    golden: Path | Trace
    truth: Path | Trace | None
    lockstep: Path | Trace
    chained: Path | Trace
    own_golden: Path | Trace | None = None
    """What own errors are measured against, if that is not `golden`."""
    remembered: Mapping[str, Remembered] = field(default_factory=dict)
    """By key, the verdicts on values that were judged before; the traces may lack those that are right."""

    @classmethod
    def of(cls, files: RunFolder) -> RunTraces:
        truth = files.captured("truth")
        return cls(
            files.captured("trace"),
            truth if truth.is_file() else None,
            files.record("lockstep"),
            files.record("chained"),
        )


class Refusals:
    """A reference of which it is noted in which other ways it cannot be run; there is nothing then to measure by."""

    def __init__(self, reference: Reference) -> None:
        self.declared = reference.arithmetic.name
        self.whys: dict[str, str] = {}
        self.emulated: set[str] | None = None
        """The keys of what was computed in the class that the candidate declares; None if that was not asked for."""
        self.reference = replace(
            reference,
            emulate=lambda how, calls: self._emulated(how, reference.emulate, calls),
            ends=lambda: self._asked(_WHOLE, reference.ends),
            emulate_all=lambda how: self._asked(how.name, lambda: reference.emulate_all(how)),
        )

    def _emulated(self, how: Arithmetic, emulate: Emulate, calls: Collection[str]) -> Mapping[str, Tensor]:
        found = self._asked(how.name, lambda: emulate(how, calls))
        if how.name == self.declared:
            self.emulated = (self.emulated or set()) | set(found)
        return found

    def _asked(self, what: str, compute: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        try:
            return compute()
        except TorchportError as error:
            self.whys.setdefault(what, error.message)
            return {}

    def of(self, parity: Parity) -> tuple[str, ...]:
        """Why a candidate that failed was held to tighter bounds than those of its arithmetic, if so."""
        if parity.first_divergence is None:
            return ()
        asked = {self.declared: f"the arithmetic {self.declared}", NARROWED.name: "float32", _WHOLE: _WHOLE}
        found = [
            f"the reference cannot be computed in {words}, which might excuse a difference: {self.whys[what]}"
            for what, words in asked.items()
            if what in self.whys
        ]
        if self.emulated is not None and self.declared not in self.whys and (left := self._left(parity)):
            some = ", ".join(left[:_MOST_NAMED]) + (" and others" if len(left) > _MOST_NAMED else "")
            found.append(
                f"not computed in the arithmetic {self.declared}, so held to eager PyTorch's bounds: {some}"
            )
        return tuple(found)

    def _left(self, parity: Parity) -> list[str]:
        """The layers that failed by their distance from the truth, and were not emulated."""
        failed = [layer for layer in parity.layers if not layer.passed and _may_be_coarse(layer)]
        return [layer.name for layer in failed if layer.own and layer.own.key not in (self.emulated or ())]


def compare_run(
    files: RunFolder,
    plan: Plan,
    rules: RuleBook,
    steps: Steps,
    operations: Mapping[str, Sequence[str]] | None = None,
    reference: Reference | None = None,
    *,
    traces: RunTraces | None = None,
    pictures: bool = True,
    drawn: Drawn = NOTHING_DRAWN,
) -> Parity:
    """Compares what the candidate computed with the recording, call by call.

    The traces are those in the run's folder, unless they are given. Without `pictures`, there is one of each layer that
    fails, and of no other. `drawn` are the values that are random.
    """
    found = traces or RunTraces.of(files)

    def compared(again: Again, judged: Callable[[Layer], None] | None = None) -> Parity:
        return compare_traces(
            found.golden,
            found.lockstep,
            found.chained,
            calls=plan.calls.values(),
            events=plan.events,
            truth=found.truth,
            rules=rules,
            operations=operations,
            again=again,
            pictures=pictures,
            judged=judged,
            own_golden=found.own_golden,
            remembered=found.remembered,
            drawn=drawn,
        )

    with steps.step("compare", "comparing every layer"):
        parity = compared(Again(), lambda layer: steps.watch(LayerJudged(layer)))
        if parity.first_divergence is None or reference is None or found.truth is None:
            return parity
        suspicious = _failed(parity)
        refusals = Refusals(reference)
        parity = _compared_again(compared, parity, refusals.reference)
        parity = parity.model_copy(update={"not_emulated": refusals.of(parity)})
        return _with_arithmetics(parity, suspicious, found, refusals.reference, steps)


def _compared_again(compared: Callable[[Again], Parity], parity: Parity, reference: Reference) -> Parity:
    """The same by what the reference computes in the candidate's arithmetic, and in float64 from end to end."""
    again, arithmetic, suspicious = Again(), reference.arithmetic, _failed(parity)
    if suspicious and (coarser := _coarser(parity, reference, suspicious)):
        again = again._replace(coarser=coarser)
        parity = compared(again)
    if _failed(parity) or parity.first_divergence is None:
        return parity
    return compared(again._replace(ends=reference.ends(), coarser_ends=reference.emulate_all(arithmetic)))


def _coarser(parity: Parity, reference: Reference, suspicious: set[str]) -> Mapping[str, Tensor]:
    """What the reference computes in the candidate's arithmetic; in float64, how it would in float32."""
    eager = reference.arithmetic == EAGER
    found = {} if eager else reference.emulate(reference.arithmetic, suspicious)
    wide = [layer for layer in parity.layers if layer.own is not None and not layer.passed]
    if not any(layer.own.golden_dtype in WIDEST for layer in wide if layer.own is not None):
        return found
    narrowed = reference.emulate(NARROWED, suspicious)
    is_wide = {key: value for key, value in narrowed.items() if name_of(value.dtype) in WIDEST}
    return {**found, **is_wide}


def _failed(parity: Parity) -> set[str]:
    return {layer.name for layer in parity.layers if not layer.passed}


def _with_arithmetics(
    parity: Parity, suspicious: set[str], traces: RunTraces, reference: Reference, steps: Steps
) -> Parity:
    """The comparison with the class of arithmetic of each layer that was out of bounds at first, if one is found."""
    names = dict.fromkeys(suspicious - _failed(parity), reference.arithmetic.name)
    asked = suspicious - set(names) if reference.arithmetic == FLOAT32 else suspicious
    try:
        names |= _arithmetics(parity, traces, reference, asked)
    except MemoryError:
        raise
    except Exception as error:  # The verdict stands, whatever goes wrong in looking for a name.
        steps.say(f"the arithmetic could not be named: {type(error).__name__}: {error}")
    return _named(parity, names)


def _arithmetics(parity: Parity, traces: RunTraces, reference: Reference, asked: set[str]) -> dict[str, str]:
    """The classes of arithmetic that explain the layers that are asked for, by the name of the layer."""
    coarse = [layer for layer in parity.layers if layer.name in asked and _may_be_coarse(layer)][:NAMED]
    if not coarse:
        return {}
    calls = {layer.name for layer in coarse}
    values: dict[Arithmetic, Mapping[str, Tensor]] = {}

    def computed(arithmetic: Arithmetic, key: str) -> Tensor | None:
        if arithmetic not in values:
            values[arithmetic] = reference.emulate(arithmetic, calls)
        value = values[arithmetic].get(key)
        return None if value is None else value.detach().cpu()

    found: dict[str, str] = {}
    if traces.truth is None:
        return {}
    with (
        _opened(traces.own_golden or traces.golden) as golden,
        _opened(traces.truth) as truth,
        _opened(traces.lockstep) as lockstep,
    ):
        for layer in coarse:
            key = layer.own.key if layer.own is not None else ""
            if truth.has(golden.resolve(key)):
                given = golden.get(key), truth.get(golden.resolve(key)), lockstep.get(key)
                name = name_arithmetic(*given, lambda one, key=key: computed(one, key))  # type: ignore[misc]
                # A layer that fails by the class that the candidate declares is not explained by it.
                found |= {} if name in (None, reference.arithmetic) else {layer.name: name.name}
    return found


def _opened(trace: Path | Trace) -> Trace:
    return Trace(trace) if isinstance(trace, Path) else trace


def _may_be_coarse(layer: Layer) -> bool:
    """Whether a layer is out of eager PyTorch's bounds by the size of its error alone."""
    own = layer.own
    return own is not None and own.noise is not None and own.incomparable is None


def _named(parity: Parity, names: Mapping[str, str]) -> Parity:
    layers = (layer.model_copy(update={"arithmetic": names.get(layer.name)}) for layer in parity.layers)
    return parity.model_copy(update={"layers": tuple(layers)})


def written(report: Report, files: RunFolder) -> Report:
    """The report with its own place in it, as it was written to the folder of the run."""
    report = report.model_copy(update={"report": str(files.report)})
    report.write(files.report)
    return report
