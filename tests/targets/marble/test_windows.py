"""Windows of every kind, with options drawn at random: their synapses give what torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.targets.marble.cases import Work
from tests.targets.marble.test_counts import enumerated
from tests.targets.marble.test_fans import summed
from tests.targets.marble.test_messages import assert_agree
from torchport.targets.marble.counts import synapses
from torchport.targets.marble.fans import fan, form_of
from torchport.targets.marble.groups import Group, Kind, Port

pytestmark = pytest.mark.slow
DRAWN = settings(max_examples=60, deadline=None, derandomize=True)


def numbers(axes: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=axes, max_size=axes)


def checked(
    kind: Kind, work: str, inputs: list[Tensor], arrays: dict[str, Tensor], options: dict[str, Any]
) -> Work:
    """A group of the form that torch gives it; skipped if torch refuses the options."""
    ports = tuple(Port(f"x{nth}") for nth in range(len(inputs)))
    bare = Work(
        Group("g", kind, work, ports, (), 5, "", options, {name: name for name in arrays}), inputs, arrays
    )
    try:
        results = bare.compute()
    except RuntimeError:
        assume(False)
    assume(all(0 < result.numel() < 4000 for result in results))
    return Work(
        Group(**{**vars(bare.group), "results": tuple(form_of(one) for one in results)}), inputs, arrays
    )


def of_rank(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("axes", [1, 2, 3])(test)


@of_rank
@DRAWN
@given(data=st.data())
def test_convolutions(axes: int, data: st.DataObject) -> None:
    groups, inner, outer = (data.draw(st.integers(1, 3)) for _ in range(3))
    transposed = data.draw(st.booleans())
    options = {
        "stride": data.draw(numbers(axes, 1, 3)),
        "padding": data.draw(numbers(axes, 0, 3)),
        "dilation": data.draw(numbers(axes, 1, 3)),
        "transposed": transposed,
        "output_padding": data.draw(numbers(axes, 0, 2)) if transposed else [0] * axes,
        "groups": groups,
    }
    kernel, sizes = data.draw(numbers(axes, 1, 3)), data.draw(numbers(axes, 1, 6))
    shape = (groups * inner, outer, *kernel) if transposed else (groups * outer, inner, *kernel)
    arrays = {"weight": torch.randn(shape, dtype=torch.float64), "present": torch.rand(shape) < 0.7}
    arrays["weight"] *= arrays["present"]
    if not data.draw(st.booleans()):
        del arrays["present"]
    value = torch.randn(2, groups * inner, *sizes, dtype=torch.float64)
    work = checked(Kind.WEIGHTED_SUM, "convolution", [value], arrays, options)
    found = summed(work, fan(work.ask, range(work.group.neurons)))
    torch.testing.assert_close(found.reshape(work.group.results[0].shape), work.compute()[0])
    assert synapses(work.ask) == enumerated(work)
    assert_agree(work)


@of_rank
@DRAWN
@given(data=st.data())
def test_pooling(axes: int, data: st.DataObject) -> None:
    value = torch.randn(2, 2, *data.draw(numbers(axes, 1, 7)), dtype=torch.float64)
    how = {
        "kernel_size": data.draw(numbers(axes, 1, 4)),
        "stride": data.draw(st.one_of(st.just([]), numbers(axes, 1, 3))),
        "padding": data.draw(numbers(axes, 0, 2)),
        "ceil_mode": data.draw(st.booleans()),
    }
    if data.draw(st.booleans()):
        work, options = "max", {**how, "dilation": data.draw(numbers(axes, 1, 2))}
    else:
        work, options = "avg", {**how, "count_include_pad": data.draw(st.booleans())}
        if axes > 1:
            options["divisor_override"] = data.draw(st.sampled_from([None, 1, 5]))
    made = checked(
        Kind.REDUCTION,
        f"aten.{work}_pool{axes}d.default",
        [value],
        {},
        {**options, "order": [("self", None)]},
    )
    assert synapses(made.ask) == enumerated(made)
    assert_agree(made)


@of_rank
@DRAWN
@given(data=st.data())
def test_adaptive_pooling_and_interpolation(axes: int, data: st.DataObject) -> None:
    value = torch.randn(2, 2, *data.draw(numbers(axes, 1, 7)), dtype=torch.float64)
    size = data.draw(numbers(axes, 1, 7))
    options: dict[str, Any] = {"output_size": size, "order": [("self", None)]}
    for work, kind in (("max", Kind.SELECTION), ("avg", Kind.REDUCTION)):
        assert_agree(checked(kind, f"aten.adaptive_{work}_pool{axes}d.default", [value], {}, options))
    name = {1: "linear1d", 2: data.draw(st.sampled_from(["bilinear2d", "bicubic2d"])), 3: "trilinear3d"}[axes]
    scales = data.draw(st.one_of(st.none(), st.lists(st.floats(0.4, 2.5), min_size=axes, max_size=axes)))
    options = {"align_corners": data.draw(st.booleans()), "scale_factors": scales, "order": [("input", None)]}
    options["output_size"] = size if scales is None else None
    made = checked(Kind.WEIGHTED_SUM, f"aten.upsample_{name}.vec", [value], {}, options)
    assert synapses(made.ask) == enumerated(made)
    assert_agree(made)
