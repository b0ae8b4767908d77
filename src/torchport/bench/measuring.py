"""One model under one backend, measured in this process: eager PyTorch and the backend in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from pydantic import BaseModel

from torchport.bench.backends import Backend, open_backend
from torchport.bench.memory import peak_of, process_peak
from torchport.bench.models import built, find_model
from torchport.bench.results import BrokenConstraint, Latency, Row
from torchport.capture.spec import Subject
from torchport.debug.constraints.base import Violation
from torchport.debug.internals import adapting

MOST_VIOLATIONS = 50
"""How many are kept of those that are counted."""


class Request(BaseModel):
    """What a row is to be measured with."""

    model: str
    backend: str
    device: str
    small: bool
    warmup: int
    runs: int
    compare: bool


def measure(request: Request) -> Iterator[Row]:
    """The row as it is measured, and then once more with KernelDiff's verdict, if one is asked for."""
    subject = built(find_model(request.model), small=request.small, device=request.device)
    backend = open_backend(request.backend)
    with torch.no_grad():
        row = _eager(request, subject) if backend.given is None else _compiled(request, subject, backend)
    yield row
    if request.compare and backend.given is not None:
        from torchport.bench.verdicts import compared

        yield compared(row, subject, backend)


def _eager(request: Request, subject: Subject) -> Row:
    call = _call(subject.model, subject, request.device)
    for _ in range(request.warmup):
        call()
    latency = Latency.of([_timed(call) for _ in range(request.runs)])
    peak = peak_of(call, subject, request.device)
    return Row(
        model=request.model,
        backend=request.backend,
        status="measured",
        latency=latency,
        eager=latency,
        speedup=1.0,
        peak_memory_bytes=peak,
        eager_peak_memory_bytes=peak,
        process_peak_bytes=process_peak(),
    )


def _compiled(request: Request, subject: Subject, backend: Backend) -> Row:
    eager = _call(subject.model, subject, request.device)
    call = _call(torch.compile(subject.model, backend=backend.given), subject, request.device)
    adapting.forget_counts()
    eager()
    first = _timed(call)
    graphs, breaks = adapting.graphs_and_breaks()
    for _ in range(request.warmup):
        eager()
        call()
    golden, candidate = _in_turn(eager, call, request.runs)
    violations = None if backend.violations is None else list(backend.violations())
    return Row(
        model=request.model,
        backend=request.backend,
        status="measured",
        compile_seconds=max(0.0, first - candidate.median / 1000),
        latency=candidate,
        eager=golden,
        speedup=golden.median / candidate.median,
        peak_memory_bytes=peak_of(call, subject, request.device),
        eager_peak_memory_bytes=peak_of(eager, subject, request.device),
        process_peak_bytes=process_peak(),
        graphs=graphs,
        breaks=breaks,
        violations=None if violations is None else len(violations),
        first_violations=tuple(_broken(one) for one in (violations or ())[:MOST_VIOLATIONS]),
    )


def _in_turn(eager: Callable[[], Any], call: Callable[[], Any], runs: int) -> tuple[Latency, Latency]:
    """A call of each after the other, each being the first every other time: what slows the machine slows both."""
    golden: list[float] = []
    candidate: list[float] = []
    for run in range(runs):
        pair = [(eager, golden), (call, candidate)]
        for one, taken in pair if run % 2 == 0 else reversed(pair):
            taken.append(_timed(one))
    return Latency.of(golden), Latency.of(candidate)


def _call(model: Callable[..., Any], subject: Subject, device: str) -> Callable[[], Any]:
    """A call of the model on its inputs that ends when the device has computed everything."""
    is_cuda = torch.device(device).type == "cuda"

    def call() -> Any:
        given = model(*subject.args, **subject.kwargs)
        if is_cuda:
            torch.cuda.synchronize(device)
        return given

    return call


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _broken(violation: Violation) -> BrokenConstraint:
    return BrokenConstraint(
        constraint=violation.constraint,
        message=violation.message,
        op=violation.op,
        module=violation.module,
        source=violation.source,
    )
