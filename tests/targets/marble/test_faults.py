"""A sample of the faults that are planted in neuron graphs: in the captured graph, in arrays, in single groups."""

from pathlib import Path

import pytest

from benchmarks.faults.campaign import Subject
from benchmarks.faults.cli import check
from benchmarks.faults.outcome import missed

pytestmark = pytest.mark.slow


def test_faults_are_detected_and_traced_to_their_layer(tmp_path: Path) -> None:
    subject = Subject("decoder", tmp_path, "marble")
    assert subject.false_alarm() is None
    planted = list(subject.all_faults(["bias dropped", "pooling", "wrong axis", "another operand"]))
    assert {fault.way for fault in planted} == {"graph", "weights", "neurons"}
    assert missed([check(subject, fault) for fault in planted]) == []
