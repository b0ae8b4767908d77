"""What may be wrong with one operation: the hypotheses, each with the result that the operation would then have.

Most follow from the operation's schema alone: another axis, a flag the other way, a number that is fitted, an operand
left out. Others are tables of operations that are taken for each other. The last ones are about the value itself, and
are read off it if the candidate's is known: it is rolled, scaled, clipped, or another value of the layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses import (
    arguments,
    attention,
    memory_layout,
    numbers,
    operands,
    other_operations,
    other_values,
    padding,
    precision,
    rearranged,
    repetition,
    shapes,
    weight_layout,
)
from torchport.explain.hypotheses.hypothesis import Hypothesis, Topic
from torchport.explain.hypotheses.last_resort import result_scaled

__all__ = ["Hypothesis", "hypotheses_about", "hypotheses_about_values", "result_scaled"]

IN_ORDER_OF_BELIEF: tuple[Topic, ...] = (
    arguments.another_word,
    arguments.another_flag,
    arguments.another_number,
    arguments.another_step,
    padding.padded_otherwise,
    arguments.another_axis,
    arguments.off_by_one,
    operands.left_out,
    operands.swapped,
    weight_layout.transposed,
    attention.wrong_mask,
    weight_layout.gates_reordered,
    shapes.heads,
    other_operations.another_operation,
    other_operations.another_interpolation,
    operands.one_alone,
    operands.broadcast,
    precision.half,
    memory_layout.channels_last,
)
"""If several hypotheses explain a difference equally well, the one that comes first here is believed."""
ABOUT_VALUES: tuple[Topic, ...] = (
    repetition.applied_twice,
    other_values.operand_is_another,
    other_values.weights_are_another_layers,
    other_values.made_of_another,
    attention.masked_otherwise,
    rearranged.result_rearranged,
    repetition.operand_counts_otherwise,
    other_values.added,
    rearranged.operand_rearranged,
    other_values.moved,
    numbers.slices_scaled,
    numbers.clipped,
    numbers.dropped,
    numbers.scaled,
    attention.flags_differ,
)
"""The same for what goes into an operation and comes out of it; tried if no setting of the operation is the cause."""


def hypotheses_about(operation: BoundOperation) -> Iterator[Hypothesis]:
    """All that may be wrong with what an operation does, the most believed first."""
    for topic in IN_ORDER_OF_BELIEF:
        yield from topic(operation)


def hypotheses_about_values(operation: BoundOperation) -> Iterator[Hypothesis]:
    """All that may be wrong with its operands and its result, the most believed first."""
    for topic in ABOUT_VALUES:
        yield from topic(operation)
