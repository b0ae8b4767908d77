"""Pieces of work are done once each, no more at a time than is asked for, and an error ends all."""

from __future__ import annotations

import threading
import time

import pytest

from torchport.fan_out import fan_out


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_piece_is_done_once_and_no_more_at_a_time_than_asked(jobs: int) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return number**2

    found = list(fan_out(work, range(10, 20), jobs=jobs))
    assert sorted(found) == [(place, (10 + place) ** 2) for place in range(10)]
    assert most == jobs


def test_what_is_there_first_is_given_first() -> None:
    slow = threading.Event()

    def work(name: str) -> str:
        if name == "slow":
            assert slow.wait(10)
        return name

    found = fan_out(work, ["slow", "fast"], jobs=2)
    assert next(found) == (1, "fast")
    slow.set()
    assert next(found) == (0, "slow")


def test_an_error_ends_what_has_not_begun() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        time.sleep(0.01)
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match="no "):
        list(fan_out(work, range(100), jobs=2))
    assert len(begun) < 100
