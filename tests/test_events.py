"""The steps of a job: each that began ends, with its seconds, whatever happens in it."""

import pytest

from torchport.events import Event, StepBegan, StepEnded, Steps


def test_a_step_that_fails_ends_as_well_and_says_so() -> None:
    events: list[Event] = []
    steps = Steps(events.append)
    with steps.step("run", "running"):
        pass
    with pytest.raises(ZeroDivisionError), steps.step("explain", "looking for the cause"):
        1 / 0  # noqa: B018
    assert [type(event) for event in events] == [StepBegan, StepEnded, StepBegan, StepEnded]
    assert [(end.step, end.failed) for end in events if isinstance(end, StepEnded)] == [
        ("run", False),
        ("explain", True),
    ]
    assert list(steps.seconds) == ["run", "explain"]


def test_a_step_that_is_taken_twice_has_the_seconds_of_both() -> None:
    events: list[Event] = []
    steps = Steps(events.append, {"capture": 5.0})
    with steps.step("capture", "recording"):
        pass
    assert steps.seconds["capture"] >= 5.0 and events[-1] == StepEnded("capture", steps.seconds["capture"])
