"""What changed between two runs: worse is never called better, and mere rounding is no news."""

import json
import math

import pytest

from torchport.errors import ReportError, UsageError
from torchport.report.against import FACTOR, Change, compare_runs
from torchport.report.changes import markdown_of, renderer, text_of
from torchport.runs.report import Report

from .sample import failing, layer, passing, unsupported
from .views import EVERY, drifting, full, many

ERROR = EVERY["error"]


def with_layer(report: Report, name: str, own: float, chained: float | None = None) -> Report:
    """The report with one layer measured anew."""
    other = layer(name, own, chained)
    layers = tuple(other if one.name == name else one for one in report.layers)
    return report.model_copy(update={"layers": layers})


def renamed(report: Report, **names: str) -> Report:
    layers = tuple(one.model_copy(update={"name": names.get(one.name, one.name)}) for one in report.layers)
    return report.model_copy(update={"layers": layers})


def test_a_run_against_itself_is_the_same() -> None:
    for kind in ("pass", "fail", "nan", "drift", "unsupported"):
        change = compare_runs(EVERY[kind], EVERY[kind])
        assert (change.status, change.worse, change.better) == ("same", (), ()), kind
        assert not (change.grown or change.shrunk or change.added or change.removed)


def test_a_layer_that_fails_now_is_worse_with_its_reason_and_source() -> None:
    change = compare_runs(with_layer(failing(0.5), "tail", 0.0), failing(0.5))
    (turned,) = change.newly_failing
    assert (turned.layer, turned.source) == ("tail", "net.py:4") and "outside" in (turned.reason or "")
    (sentence,) = change.worse
    assert sentence == f"tail passed and fails: {turned.reason}"
    assert change.status == "worse" and change.before.failed == 1 and change.now.failed == 2


def test_a_layer_that_passes_now_is_better() -> None:
    change = compare_runs(failing(0.5), with_layer(failing(0.5), "tail", 0.0))
    assert change.status == "better" and change.better[0] == "tail failed and passes"
    assert [one.layer for one in change.newly_passing] == ["tail"]


def test_one_thing_worse_is_worse_whatever_got_better() -> None:
    before = with_layer(failing(0.5), "encoder", 0.5)
    now = with_layer(with_layer(failing(0.5), "head", 0.0), "encoder", 4.0)
    change = compare_runs(before, now)
    assert change.better and change.status == "worse"
    assert "head failed and passes" in text_of(change) and "encoder fails and is further off" in text_of(
        change
    )


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ("pass", "fail", "worse"),
        ("pass", "unsupported", "worse"),
        ("pass", "error", "worse"),
        ("fail", "unsupported", "worse"),
        ("fail", "error", "worse"),
        ("fail", "pass", "better"),
        ("unsupported", "pass", "better"),
        ("unsupported", "fail", "better"),
        ("error", "fail", "better"),
    ],
)
def test_verdicts_are_ordered(before: str, now: str, status: str) -> None:
    change = compare_runs(EVERY[before], EVERY[now])
    assert change.status == status
    sentence = f"the verdict was {before} and is {now}"
    assert sentence in (change.worse if status == "worse" else change.better)


def test_an_error_in_place_of_todos_does_not_mean_that_they_are_done() -> None:
    change = compare_runs(unsupported(), ERROR)
    assert change.todos_done == () and change.status == "same"


def test_new_todos_are_worse_and_lines_do_not_count() -> None:
    before = unsupported()
    moved = before.todos[0].model_copy(update={"source": "net.py:99"})
    other = moved.model_copy(update={"op": "aten.bar.default"})
    assert compare_runs(before, before.model_copy(update={"todos": (moved,)})).status == "same"
    change = compare_runs(before, before.model_copy(update={"todos": (moved, other)}))
    assert change.worse == ("nothing maps aten.bar.default in head: nothing maps it",)
    back = compare_runs(before.model_copy(update={"todos": (moved, other)}), before)
    assert back.better == ("aten.bar.default in head is mapped or gone",)


def test_errors_within_their_limits_are_listed_and_not_worse() -> None:
    change = compare_runs(with_layer(passing(), "head", 1e-6), with_layer(passing(), "head", 9e-6))
    grown = {(one.layer, one.kind, one.unit) for one in change.grown}
    assert ("head", "own", "of limit") in grown
    assert change.status == "same" and change.worse == ()


def test_a_failing_layer_that_is_further_off_is_worse() -> None:
    change = compare_runs(failing(0.5), with_layer(failing(0.5), "tail", 0.5 * FACTOR * 1.1))
    assert change.worse[0].startswith("tail fails and is further off than before: own error ")
    back = compare_runs(with_layer(failing(0.5), "tail", 0.5 * FACTOR * 1.1), failing(0.5))
    assert back.status == "better" and [one.layer for one in back.shrunk if one.kind == "own"] == ["tail"]


def test_changes_below_the_factor_are_not_listed() -> None:
    change = compare_runs(failing(0.5), with_layer(failing(0.5), "tail", 0.5 * FACTOR * 0.9))
    assert change.grown == () and change.status == "same"


def test_nan_is_the_largest_error_of_all() -> None:
    worse = compare_runs(failing(0.5), with_layer(failing(0.5), "tail", math.nan))
    assert [(one.layer, one.kind, one.now) for one in worse.grown] == [
        ("tail", "own", math.inf),
        ("tail", "chained", math.inf),
    ]
    assert worse.status == "worse"
    better = compare_runs(with_layer(failing(0.5), "tail", math.nan), failing(0.5))
    assert better.status == "better" and better.worse == ()
    both = compare_runs(failing(math.nan), failing(math.nan))
    assert both.grown == () and both.status == "same"


def test_a_share_that_is_nan_is_the_largest_too() -> None:
    before = failing(0.5)
    own = before.layers[2].own
    assert own is not None
    lost = before.layers[2].model_copy(update={"own": own.model_copy(update={"ratio": math.nan})})
    now = before.model_copy(update={"layers": (*before.layers[:2], lost, before.layers[3])})
    assert [(one.layer, one.now) for one in compare_runs(before, now).grown] == [("tail", math.inf)]


def test_other_rules_are_compared_by_the_largest_error_and_said() -> None:
    before = failing(0.5)
    own = before.layers[2].own
    assert own is not None
    judged = before.layers[2].model_copy(
        update={"own": own.model_copy(update={"rule": "another", "ratio": 1e9})}
    )
    other = before.model_copy(
        update={"layers": (*before.layers[:2], judged, before.layers[3]), "rule": "another"}
    )
    change = compare_runs(other, before)
    assert change.grown == () and change.shrunk == (), "the ratios are of different rules"
    assert "another -> noise floor x 4" in text_of(change)


def test_outputs_that_drift_are_worse() -> None:
    change = compare_runs(passing(), drifting())
    assert "the outputs drift too far, and did not before" in change.worse
    assert "the outputs no longer drift too far" in compare_runs(drifting(), passing()).better
    assert not any("drift" in one for one in compare_runs(drifting(), unsupported()).better)


def test_layers_that_came_and_went_are_listed() -> None:
    change = compare_runs(passing(), renamed(passing(), head="classifier"))
    assert (change.added, change.removed, change.status) == (("classifier",), ("head",), "same")
    assert "Added" in text_of(change) and "1: classifier" in text_of(change)


def test_a_new_layer_that_fails_is_worse() -> None:
    change = compare_runs(failing(0.5), renamed(failing(0.5), tail="last"))
    (sentence,) = change.worse
    assert sentence.startswith("last is new and fails: ")


def test_layers_of_a_run_that_did_not_come_to_be_are_not_counted_as_gone() -> None:
    change = compare_runs(full(), unsupported())
    assert change.removed == () and change.added == ()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (passing(), renamed(passing(), encoder="a", head="b", blocks="c", Net="d")),
        (unsupported().model_copy(update={"model": "Other"}), passing()),
        (unsupported().model_copy(update={"model": "Other"}), unsupported()),
    ],
)
def test_runs_with_nothing_in_common_are_refused(before: Report, now: Report) -> None:
    with pytest.raises(ReportError, match="TP0342"):
        compare_runs(before, now)


def test_culprits_and_seconds_are_those_of_both_sides() -> None:
    change = compare_runs(passing(), full())
    assert (change.before.culprit, change.now.culprit) == (None, "head")
    assert change.before.seconds == 6.5
    text = text_of(change)
    assert "none -> head" in text and "6.5 -> 6.5" in text


def test_text_says_first_what_got_worse() -> None:
    first, second, *_ = text_of(compare_runs(passing(), full())).splitlines()
    assert first == "WORSE  Net to candle: pass before, fail (2 of 4 layers) now"
    assert second == "       the verdict was pass and is fail"


def test_text_states_the_factor_and_counts_what_is_left_out() -> None:
    before = many(40)
    now = before.model_copy(
        update={"layers": tuple(one.model_copy(update={"own": layer("x", 5.0).own}) for one in before.layers)}
    )
    text = text_of(compare_runs(before, now))
    assert f"Errors that grew by more than a factor of {FACTOR:g}" in text
    assert "and 32 more, all of them in the JSON" in text


def test_markdown_has_the_same_facts() -> None:
    text = markdown_of(compare_runs(passing(), full()))
    assert text.startswith("## ❌ WORSE: Net to candle: pass before, fail (2 of 4 layers) now\n")
    assert "- the verdict was pass and is fail" in text and "- **Culprit**: none -\\> head" in text
    assert "| FAIL | `head` | own | " in text


def test_json_is_valid_and_comes_back_the_same() -> None:
    change = compare_runs(failing(0.5), failing(math.nan))
    data = json.loads(change.to_json(), parse_constant=lambda constant: pytest.fail(constant))
    assert data["schema"] == 1 and data["status"] == "worse" and data["worse"] == list(change.worse)
    assert Change.model_validate_json(change.to_json()) == change


@pytest.mark.parametrize("name", ["junit", "sarif", "github", "html", "nonsense"])
def test_other_formats_are_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        renderer(name)
    assert caught.value.fix == "With --against, give one of text, json, markdown."


def test_what_got_better_is_said_together() -> None:
    now = many(30)
    passing_now = tuple(
        layer.model_copy(update={"passed": True, "reason": None})
        if layer.name.startswith("blocks.")
        else layer
        for layer in now.layers
    )
    change = compare_runs(now, now.model_copy(update={"layers": passing_now}))
    assert change.better == ("30 layers failed and pass: blocks.0, blocks.1, blocks.2, blocks.3 and 26 more",)


def test_layers_that_got_worse_in_the_same_way_are_one_sentence() -> None:
    names = [f"blocks.{place}" for place in range(9)]
    before = passing().model_copy(update={"layers": tuple(layer(name, 0.0) for name in names)})
    now = failing(0.5).model_copy(update={"layers": tuple(layer(name, 0.5) for name in names)})
    further = failing(0.5).model_copy(update={"layers": tuple(layer(name, 50.0) for name in names)})
    said = [one for one in compare_runs(before, now).worse if "blocks" in one]
    assert said == ["9 layers passed and fail: blocks.0, blocks.1, blocks.2, blocks.3 and 5 more"]
    said = [one for one in compare_runs(now, further).worse if "blocks" in one]
    assert said == [
        "9 layers fail and are further off than before: blocks.0, blocks.1, blocks.2, blocks.3 and 5 more"
    ]
