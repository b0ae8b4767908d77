"""All rows: samples are computed by torch, captured, written as Rust, run, and compared."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.events import Say
from torchport.targets.candle.registry import OPS

from .capturing import NOTHING, Captured, capture
from .checking import difference
from .database import DTYPES, Entry
from .own import variants
from .program import Program, write
from .row import Row, Verdict
from .sample import Sample


@dataclass(frozen=True)
class Amount:
    """How many samples of each operation and dtype are taken, and of how many of them variants are made."""

    samples: int
    varied: int
    varied_dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16, torch.int64)


_REFUSAL = "error: "
"""The beginning of what a row ended with that refused its values; one that panics has not refused them."""
EVERYTHING = Amount(samples=12, varied=4)


def _some(entry: Entry, dtype: torch.dtype, count: int) -> list[Sample]:
    """Samples from all over, for the odd ones come last."""
    found = list(itertools.islice(entry.samples(dtype), 200))
    return found[:: max(1, len(found) // count)][:count]


def _first(entry: Entry) -> list[Sample]:
    """Samples that tell whether the table has an operation: few, in the first dtype that it takes."""
    dtype = next((dtype for dtype in DTYPES if dtype in entry.info.dtypes), None)
    return [] if dtype is None else _some(entry, dtype, 2)


def varied(taken: Iterable[Sample], amount: Amount) -> Iterator[Sample]:
    """Variants of the first samples of each operation and dtype."""
    seen: Counter[tuple[str, torch.dtype]] = Counter()
    for sample in taken:
        seen[sample.name, sample.dtype] += 1
        if sample.dtype in amount.varied_dtypes and seen[sample.name, sample.dtype] <= amount.varied:
            yield from variants(sample)


@dataclass(frozen=True)
class Known:
    """A sample with what torch computes."""

    sample: Sample
    golden: list[torch.Tensor] | None
    """None if torch refuses it."""
    truth: list[torch.Tensor] | None


def computed(given: Iterable[Sample]) -> Iterator[Known]:
    for sample in given:
        if any(tensor.is_complex() or tensor.layout != torch.strided for tensor in sample.tensors):
            continue
        try:
            golden, again = sample.computed(), sample.computed()
        except Exception as error:  # whatever an operation raises
            if sample.raises is not None and isinstance(error, sample.raises):
                yield Known(sample, None, None)
            continue
        if sample.raises is not None:
            continue  # torch's database says that it is refused where it is not.
        if not golden or any(tensor.is_complex() or tensor.layout != torch.strided for tensor in golden):
            continue
        if not all(_same(*pair) for pair in zip(golden, again, strict=True)):
            continue  # It draws random numbers.
        yield Known(sample, golden, sample.truth())


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


def run(
    own: Iterable[Sample],
    amount: Amount,
    folder: Path,
    known: Sequence[Entry] = (),
    say: Say = lambda _: None,
) -> list[Row]:
    """The verdict on samples of our own, and on those of entries of torch's database whose operations are mapped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = _Rows()
        say("samples of our own")
        mapped = rows.add(own)
        say(f"the first samples of {len(known)} entries")
        first = rows.add(sample for entry in known for sample in _first(entry))
        titles = {sample.title for sample in first}
        names = {sample.name for sample in first}
        say(f"the other samples of the {len(names)} entries whose operations are mapped")
        others = (
            sample
            for entry in known
            if entry.name in names
            for dtype in DTYPES
            for sample in _some(entry, dtype, amount.samples)
            if sample.title not in titles
        )
        mapped += first + rows.add(others)
        say(f"what torch refuses of these {len(names)} entries")
        rows.add(sample for entry in known if entry.name in names for sample in entry.raising())
        say(f"variants of {len(mapped)} samples")
        rows.add(varied(mapped, amount))
    say(f"{len(rows.waiting)} rows in {len(rows.program.functions)} functions are built and run")
    return rows.judged(folder)


def _row(sample: Sample, verdict: Verdict, reason: str, operations: Iterable[str]) -> Row:
    dtype = str(sample.dtype).removeprefix("torch.")
    return Row(sample.name, dtype, sample.label, verdict, reason, tuple(sorted(set(operations))))


class _Rows:
    """The rows so far: those that are settled, and those that the program must compute."""

    def __init__(self) -> None:
        self.settled: list[Row] = []
        self.program = Program()
        self.waiting: dict[int, tuple[Known, Captured]] = {}

    def add(self, given: Iterable[Sample]) -> list[Sample]:
        """Adds samples, and gives those whose operations are mapped."""
        known = list(computed(given))
        graphs = capture([item.sample for item in known])
        return [
            item.sample for item, graph in zip(known, graphs, strict=True) if self._is_mapped(item, graph)
        ]

    def _is_mapped(self, item: Known, captured: Captured | str) -> bool:
        if captured == NOTHING:
            return False
        if isinstance(captured, str) and item.sample.raises is not None:
            return False  # torch refuses it when it is captured, so that nothing is ported.
        if isinstance(captured, str):
            self.settled.append(_row(item.sample, "not captured", captured, []))
            return False
        operations = captured.operations
        if missing := sorted(set(operations) - OPS.keys()):
            self.settled.append(_row(item.sample, "not mapped", " ".join(missing), operations))
            return False
        try:
            written = write(captured)
        except Exception as error:  # A conversion that ends in an error is a fault like a wrong answer.
            reason = f"the conversion ends: {type(error).__name__}: {error}"
            self.settled.append(_row(item.sample, "wrong", reason, operations))
            return False
        if written.refused:
            reason = "; ".join(f"{operation}: {why}" for operation, why in written.refused)
            self.settled.append(_row(item.sample, "refused", reason, operations))
        else:
            number = self.program.add(written.text, captured.inputs, as_views=item.sample.as_views)
            self.waiting[number] = item, captured
        return True

    def judged(self, folder: Path) -> list[Row]:
        return self.settled + list(judged_rows(self.waiting, self.program.run(folder)))


def judged_rows(
    waiting: dict[int, tuple[Known, Captured]], answers: dict[int, list[torch.Tensor] | str]
) -> Iterator[Row]:
    for number, (item, captured) in waiting.items():
        answer = answers.get(number, "the program ended before this row")
        try:
            reason = answer if isinstance(answer, str) else _wrong(item, captured, answer)
        except (RuntimeError, ValueError, IndexError) as error:
            reason = f"it cannot be compared: {error}"
        if item.golden is None and isinstance(answer, str) and answer.startswith(_REFUSAL):
            reason = None
        verdict: Verdict = "wrong" if reason else "passed"
        yield _row(item.sample, verdict, reason or "", captured.operations)


def _wrong(item: Known, captured: Captured, answer: Sequence[torch.Tensor]) -> str | None:
    if item.golden is None:
        return "torch refuses it, and the port answers"
    places = [(index, place) for index, place in enumerate(captured.outputs) if place is not None]
    golden = [item.golden[index] for index, _ in places]
    truth = item.truth
    truths = [truth[i] for i, _ in places] if truth and len(truth) == len(item.golden) else None
    given = [answer[place] for _, place in places]
    return difference(item.sample, captured.operations, golden, given, truths)
