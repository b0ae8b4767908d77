"""The difference of two sets of tensors, name by name: what `torchport diff` computes.

In: two sets of tensors that `sources` can open, A the reference and B the candidate. Out: a Difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchport.diff import mapping
from torchport.diff.names import Both, Choice, Names, match
from torchport.diff.result import ComparedSet, Difference, Entry, is_identical
from torchport.diff.sources import Given, Source
from torchport.diff.stream import Work, measure
from torchport.errors import ReportError, WeightsError
from torchport.parity import dtypes
from torchport.parity.metrics import ComparedPair, Metrics
from torchport.parity.rulebook import fixed_rule
from torchport.parity.tolerance import Fixed

SAY_EVERY = 2.0
"""Seconds between two reports of progress."""


def diff(
    a: Given,
    b: Given,
    *,
    rename: Iterable[str] = (),
    ignore: Iterable[str] = (),
    only: Iterable[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Difference:
    """Compare B, the candidate, with A, the reference, by name.

    `a` and `b` are paths, or mappings of names to tensors. `rename` are rules `REGEX=REPLACEMENT` for B's names, all
    applied, one after the other. Names that match one of `ignore` are left out, and those that match none of `only`.
    Without `rtol` and `atol` the tolerances are those of torch.testing.assert_close for the dtypes; with one of them,
    the other is 0.
    """
    began = time.monotonic()
    rule = fixed_rule(rtol, atol) or Fixed()
    rules = [mapping.Rename.parse(text) for text in rename]
    choice = Choice(ignore, only)
    with Source.open(a) as golden, Source.open(b) as candidate:
        names = match(golden, candidate, rules, choice)
        order = golden.order() or candidate.order()
        if order is not None:
            names.both.sort(key=lambda both: order(both.name))
        works = [_work(both, golden, candidate, rule) for both in names.both]
        reporter = _Reporter(sum(work.pair.numel * work.pair.itemsize for work in works), progress)
        measured = measure(works, reporter)
        entries = tuple(
            _entry(both, metrics, rule) for both, metrics in zip(names.both, measured, strict=True)
        )
        return _difference(golden, candidate, names, entries, rule, order is not None, began)


def _work(both: Both, golden: Source, candidate: Source, rule: Fixed) -> Work:
    tensors = golden.tensors[both.golden], candidate.tensors[both.candidate]
    for tensor, source in zip(tensors, (golden, candidate), strict=True):
        if tensor.form.dtype not in dtypes.DTYPES:
            message = f"{both.name} is {tensor.form.dtype}, which cannot be compared"
            raise WeightsError("TP0322", message, where=source.given, fix="Leave it out with --ignore.")
    pair = ComparedPair(tensors[0].form, tensors[1].form, rtol=rule.rtol, atol=rule.atol)
    return Work(pair, *tensors)


def _entry(both: Both, metrics: Metrics, rule: Fixed) -> Entry:
    return Entry(
        **dict(metrics),
        **rule.judge(metrics)._asdict(),
        name=both.name,
        candidate_name=both.candidate_name,
        identical=is_identical(metrics),
    )


def _difference(
    golden: Source,
    candidate: Source,
    names: Names,
    entries: Sequence[Entry],
    rule: Fixed,
    in_order: bool,
    began: float,
) -> Difference:
    failed = [entry for entry in entries if not entry.passed]
    missing = bool(names.only_in_a or names.only_in_b)
    elements = sum(entry.numel for entry in entries if entry.incomparable is None)
    if not elements and not failed and not missing:
        where = f"{golden.given} and {candidate.given}"
        raise ReportError("TP0342", "every tensor that both have is empty, so nothing is proven", where=where)
    identical = sum(entry.identical and entry.passed for entry in entries)
    return Difference(
        passed=not failed and not missing,
        rule="assert_close by dtype" if rule == Fixed() else rule.name,
        a=_side(golden),
        b=_side(candidate),
        order="execution" if in_order else "file",
        first_difference=failed[0] if failed else None,
        entries=tuple(entries),
        only_in_a=names.only_in_a,
        only_in_b=names.only_in_b,
        identical=identical,
        within_tolerance=len(entries) - len(failed) - identical,
        differing=len(failed),
        ignored=names.ignored,
        warnings=(*names.warnings, *_warnings(golden, candidate, entries)),
        suggestion=names.suggestion,
        elements=elements,
        seconds=time.monotonic() - began,
    )


def _side(source: Source) -> ComparedSet:
    files = tuple(str(file) for file in source.files)
    return ComparedSet(
        given=source.given, kind=source.kind, files=files, tensors=len(source.tensors), skipped=source.skipped
    )


def _warnings(golden: Source, candidate: Source, entries: Iterable[Entry]) -> Iterator[str]:
    for letter, source in (("A", golden), ("B", candidate)):
        if count := len(source.skipped):
            what = "an entry that is no tensor" if count == 1 else f"{count} entries that are no tensors"
            yield f"{letter} has {what}: not compared"
    if shared := [entry.name for entry in entries if entry.passed and entry.nan_golden]:
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        yield f"NaN at the same places in both: {shared[0]}{more}"


class _Reporter:
    """Reports how many bytes of a long comparison are done, every few seconds."""

    def __init__(self, total: int, progress: Callable[[str], None] | None) -> None:
        self.total, self.progress = total, progress
        self.done = 0
        self.last = time.monotonic()

    def __call__(self, more: int) -> None:
        self.done += more
        if self.progress is not None and time.monotonic() - self.last > SAY_EVERY:
            self.last = time.monotonic()
            self.progress(f"compared {self.done / 1e9:.1f} of {self.total / 1e9:.1f} GB")
