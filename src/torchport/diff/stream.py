"""Measuring many pairs of tensors, of any size, a piece at a time and on every core.

Each thread reads a piece of both tensors into memory that it keeps, a chunk at a time, and sums up the differences
while the chunk is in the processor's cache. The memory that this takes does not depend on the size of the tensors.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import psutil

from torchport.parity.accumulate import Sums
from torchport.parity.metrics import CHUNK, ComparedPair, Metrics
from torchport.weights.stored import Stored

PIECE = 64 * CHUNK
"""Elements that a thread reads at a time: enough for the disk to be read in long runs."""
AHEAD = 2
"""Pieces that are queued for each thread, so that no thread waits for work."""
MOST_THREADS = 8
WIDEST = 16
"""Bytes of the largest element, complex128."""


class Work(NamedTuple):
    """Two tensors to be compared."""

    pair: ComparedPair
    golden: Stored
    candidate: Stored


class _Piece(NamedTuple):
    work: Work
    start: int
    stop: int
    last: bool


Read = Callable[[int], None]


def measure(works: Sequence[Work], read: Read, threads: int | None = None) -> Iterator[Metrics]:
    """The metrics of each pair, in order. `read` is called with the bytes that were compared since it was last called.

    Tensors that would fill the page cache are not left there: to make room in a full one costs more than to compare.
    """
    forget = sum(work.pair.numel * work.pair.itemsize for work in works) > _memory() / 2
    count = threads or min(os.cpu_count() or 1, MOST_THREADS)
    rooms = threading.local()
    with ThreadPoolExecutor(count, thread_name_prefix="diff") as pool:
        waiting: deque[tuple[_Piece, Future[Sums]]] = deque()
        pieces = _pieces(works)
        sums: Sums | None = None
        try:
            while True:
                for piece in pieces:
                    waiting.append((piece, pool.submit(_sum_up, piece, rooms, forget)))
                    if len(waiting) >= count * (1 + AHEAD):
                        break
                if not waiting:
                    return
                piece, future = waiting.popleft()
                found = future.result()
                read((piece.stop - piece.start) * piece.work.pair.itemsize)
                if sums is None:
                    sums = found
                else:
                    sums.merge(found)
                if piece.last:
                    yield piece.work.pair.metrics(sums)
                    sums = None
        finally:
            pool.shutdown(cancel_futures=True)


def _pieces(works: Iterable[Work]) -> Iterator[_Piece]:
    for work in works:
        size = work.pair.numel
        for start in range(0, size or 1, PIECE):
            stop = min(start + PIECE, size)
            yield _Piece(work, start, stop, last=stop == size)


def _sum_up(piece: _Piece, rooms: threading.local, forget: bool) -> Sums:
    if not hasattr(rooms, "golden"):
        rooms.golden = np.empty(CHUNK * WIDEST, np.uint8)
        rooms.candidate = np.empty(CHUNK * WIDEST, np.uint8)
    pair, golden, candidate = piece.work
    sums = pair.sums()
    for start in range(piece.start, piece.stop, CHUNK):
        stop = min(start + CHUNK, piece.stop)
        parts = golden.bits(start, stop, rooms.golden), candidate.bits(start, stop, rooms.candidate)
        pair.add(sums, start, *parts)
    if forget:
        golden.forget(piece.start, piece.stop)
        candidate.forget(piece.start, piece.stop)
    return sums


def _memory() -> int:
    """Bytes of memory that this machine has."""
    return int(psutil.virtual_memory().total)
