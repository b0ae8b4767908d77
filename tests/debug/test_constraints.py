"""Each constraint on graphs of a node or two: what it accepts, what it does not, and how it is to be written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torchport.debug.constraints import (
    CheckedGraph,
    Constraint,
    DtypeConstraint,
    Found,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    check_graph,
)
from torchport.debug.constraints.byte_sizes import byte_count, readable
from torchport.debug.facts import facts_of
from torchport.debug.nodes import GraphNode
from torchport.errors import CompileError, UsageError


def node(*tensors: torch.Tensor, op: str = "aten.relu.default") -> GraphNode:
    facts = tuple(facts_of(tensor) for tensor in tensors)
    return GraphNode("relu", op, "call_function", (), facts, "layer1.0", "torch.nn.ReLU", "model.py:7")


def messages(constraint: Constraint, *tensors: torch.Tensor) -> list[str]:
    graph = CheckedGraph("graph_0", "forward", (node(*tensors),))
    return [violation.message for violation in check_graph(graph, [constraint])]


def test_a_violation_names_node_module_and_line() -> None:
    graph = CheckedGraph("graph_3", "backward", (node(torch.zeros(4, 6)),))
    (violation,) = check_graph(graph, [ShapeConstraint(alignment=8)])
    assert str(violation) == (
        "shape: axis 1 of (4, 6) is 6, no multiple of 8 (aten.relu.default, node relu in layer1.0 at model.py:7)"
    )
    assert (violation.graph, violation.stage, violation.fix) == ("graph_3", "backward", "pad the axis to 8")


def test_the_last_axis_is_aligned_by_default_and_others_on_request() -> None:
    assert not messages(ShapeConstraint(alignment=8), torch.zeros(3, 16))
    assert messages(ShapeConstraint(alignment=8, dims=(0, -1)), torch.zeros(3, 12)) == [
        "axis 0 of (3, 12) is 3, no multiple of 8",
        "axis 1 of (3, 12) is 12, no multiple of 8",
    ]
    assert len(messages(ShapeConstraint(alignment=8, dims=(-1, 1)), torch.zeros(3, 12))) == 1


@pytest.mark.parametrize("shape", [(), (0,), (5, 0), (1,), (5, 1), (8,)])
def test_alignment_accepts_tensors_with_nothing_to_align(shape: tuple[int, ...]) -> None:
    assert not messages(ShapeConstraint(alignment=8), torch.zeros(shape))


def test_an_axis_that_a_tensor_does_not_have_is_not_held_against_it() -> None:
    assert not messages(ShapeConstraint(alignment=8, dims=(2, -3)), torch.zeros(3, 3))


def test_an_alignment_of_1_accepts_everything() -> None:
    assert not messages(ShapeConstraint(alignment=1), torch.zeros(3, 7))


@pytest.mark.parametrize("alignment", [0, -8, 2.5, True, "8"])
def test_a_wrong_alignment_is_refused(alignment: int) -> None:
    with pytest.raises(UsageError, match="TP1008.*at least 1"):
        ShapeConstraint(alignment=alignment)


@pytest.mark.parametrize("dtype", ["float32", "torch.float32", torch.float32, "float"])
def test_dtypes_are_given_as_text_or_as_torch_has_them(dtype: str | torch.dtype) -> None:
    rule = DtypeConstraint(allowed_dtypes={dtype})
    assert not messages(rule, torch.zeros(2))
    assert messages(rule, torch.zeros(2, dtype=torch.complex64)) == ["complex64 is not among float32"]
    assert messages(rule, torch.zeros(2, dtype=torch.int64)) == ["int64 is not among float32"]


def test_a_dtype_that_torch_does_not_have_is_refused_with_the_closest() -> None:
    with pytest.raises(UsageError, match="TP1005: torch has no dtype 'flaot32'") as refused:
        DtypeConstraint(allowed_dtypes={"flaot32"})
    assert refused.value.fix == "Did you mean float32?"
    with pytest.raises(UsageError, match="TP1005"):
        DtypeConstraint(allowed_dtypes=set())


def test_memory_of_a_tensor_counts_repeated_axes_once() -> None:
    rule = MemoryConstraint(max_bytes="1KiB")
    assert not messages(rule, torch.zeros(256))
    assert messages(rule, torch.zeros(257)) == ["1,028 B for a tensor of shape (257,), more than 1,024 B"]
    assert not messages(rule, torch.zeros(1).expand(4096))


@pytest.mark.parametrize("limit", [0, -1, "much", "1 XiB", True])
def test_a_wrong_limit_is_refused(limit: int | str) -> None:
    with pytest.raises(UsageError, match="TP1008: max_peak"):
        MemoryConstraint(max_peak=limit)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("16GiB", 2**34),
        ("512MB", 512_000_000),
        ("1.5 gb", 1_500_000_000),
        ("4096", 4096),
        (7, 7),
        ("2TiB", 2**41),
    ],
)
def test_amounts_of_memory_are_read_as_people_write_them(text: str | int, count: int) -> None:
    assert byte_count(text) == count


def test_amounts_that_would_read_alike_are_given_in_bytes() -> None:
    (message,) = messages(MemoryConstraint(max_bytes=16 * 1024), torch.zeros(4097))
    assert message.startswith("16,388 B for a tensor") and message.endswith("more than 16,384 B")
    (message,) = messages(MemoryConstraint(max_bytes="1KiB"), torch.zeros(4097))
    assert message.startswith("16.0 KiB") and message.endswith("more than 1.0 KiB")


def test_amounts_of_memory_are_written_for_readers() -> None:
    assert [readable(count) for count in (5, 2048, 3 * 2**30)] == ["5 B", "2.0 KiB", "3.0 GiB"]


def test_layouts_are_judged_by_strides() -> None:
    contiguous, channels_last = LayoutConstraint(), LayoutConstraint(memory_format=torch.channels_last)
    image = torch.zeros(2, 3, 4, 5)
    assert messages(contiguous, torch.zeros(3, 4).t()) == ["not contiguous: shape (4, 3) has strides (1, 4)"]
    assert not messages(contiguous, image) and not messages(contiguous, torch.zeros(()))
    assert not messages(contiguous, torch.zeros(4, 1).t()) and not messages(contiguous, torch.zeros(0, 3).t())
    assert messages(channels_last, image) and not messages(channels_last, torch.zeros(3, 4))
    assert not messages(channels_last, image.to(memory_format=torch.channels_last))
    assert messages(LayoutConstraint("channels_last"), torch.zeros(3, 4).t())


@pytest.mark.parametrize(
    "tensor", [torch.zeros(2, 3, 4, 5), torch.zeros(2, 1, 4, 5), torch.zeros(1, 3, 1, 1)]
)
def test_layouts_agree_with_torch(tensor: torch.Tensor) -> None:
    for permuted in (tensor, tensor.permute(0, 2, 3, 1), tensor.transpose(0, 1), tensor[:, ::2]):
        for name, form in (("contiguous", torch.contiguous_format), ("channels_last", torch.channels_last)):
            assert bool(messages(LayoutConstraint(name), permuted)) != permuted.is_contiguous(
                memory_format=form
            )


def test_an_unknown_memory_format_is_refused() -> None:
    with pytest.raises(UsageError, match="TP1008.*channels_last_3d"):
        LayoutConstraint("chanels_last")


class NoLargeSoftmax(Constraint):
    name = "softmax"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            if node.op == "aten._softmax.default" and node.tensors[0].shape[-1] > 4096:
                yield self.violated_by(node, "softmax over more than 4096 numbers", fix="split the rows")


def test_a_constraint_of_the_users_is_ten_lines() -> None:
    large = node(torch.zeros(1, 5000), op="aten._softmax.default")
    small = node(torch.zeros(1, 50), op="aten._softmax.default")
    (violation,) = check_graph(CheckedGraph("graph_0", "forward", (small, large)), [NoLargeSoftmax()])
    assert str(violation).startswith("softmax: softmax over more than 4096 numbers (aten._softmax.default")
    assert not check_graph(CheckedGraph("graph_0", "joint", (large,)), [NoLargeSoftmax()])


class Failing(Constraint):
    name = "failing"

    def __init__(self, result: object) -> None:
        self.result = result

    def check(self, graph: CheckedGraph) -> list[Found]:
        if isinstance(self.result, Exception):
            raise self.result
        return [self.result]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("result", "words"), [(KeyError("size"), "raised KeyError on graph_0"), ("no", "gave 'no'")]
)
def test_a_constraint_that_fails_is_named_with_its_own_line(result: object, words: str) -> None:
    with pytest.raises(CompileError) as failed:
        check_graph(CheckedGraph("graph_0", "forward", (node(torch.zeros(1)),)), [Failing(result)])
    assert failed.value.code == "TP1006" and words in failed.value.message
    assert "Failing" in failed.value.message and str(failed.value.where).startswith(f"{__file__}:")
