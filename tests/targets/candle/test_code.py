"""Code with parts: it is put together without losing them, and becomes text when their words are known."""

from __future__ import annotations

import pytest

from torchport.targets.candle.code import (
    Code,
    InputName,
    Parameter,
    Part,
    Slot,
    StructName,
    call,
    code,
    joined,
    optional,
    slice_of,
    tuple_of,
)


def word(part: Part) -> str:
    match part:
        case Slot():
            return f"n{part.index}"
        case InputName():
            return f"in{part.index}"
        case StructName():
            return f"Struct{part.index}"
        case Parameter():
            return part.value


def text(made: Code) -> str:
    return made.filled(word)


def test_parts_become_the_words_that_are_chosen_for_them() -> None:
    made = code("{}::new({size}, {}, {})?", StructName(2), Parameter.CONFIG, Parameter.BUILDER, size=Slot(7))
    assert text(made) == "Struct2::new(n7, cfg, vb)?"


def test_braces_of_a_template_are_doubled_and_those_of_a_piece_are_not() -> None:
    assert text(code("Config {{ {} }}", 'format!("{i}")')) == 'Config { format!("{i}") }'


def test_calls_chains_and_lists_are_written_as_rust_writes_them() -> None:
    xs = code("{}", InputName(0))
    assert text(xs.method("narrow", 0, Slot(1), 2)) == "in0.narrow(0, n1, 2)?"
    assert text(call("ops::any", xs.borrowed, slice_of([0, 1]), True)) == "ops::any(&in0, &[0, 1], true)?"
    assert text(xs.method("t").cloned) == "in0.t()?.clone()"
    assert [text(optional(item)) for item in (None, Slot(0), 3)] == ["None", "Some(n0)", "Some(3)"]
    assert [text(tuple_of(items)) for items in ([], [1], [1, Slot(2)])] == ["()", "1", "(1, n2)"]


def test_code_that_reads_the_same_is_equal_however_it_was_put_together() -> None:
    whole = code("ops::add({}, 1)?", Slot(0))
    assert whole == joined("", ["ops::", "", code("add({}, ", Slot(0)), "1)", "?"])
    assert hash(whole) == hash(call("ops::add", Slot(0), 1))
    assert whole != call("ops::add", Slot(1), 1)


def test_code_in_an_f_string_raises_because_its_parts_would_be_lost() -> None:
    with pytest.raises(TypeError, match="would lose its parts"):
        f"ops::relu({code('{}', Slot(0))})"


@pytest.mark.parametrize("piece", [None, 1.5, [1]])
def test_what_has_no_single_form_in_rust_is_not_a_piece(piece: object) -> None:
    with pytest.raises(TypeError, match="is not code"):
        code("{}", piece)  # type: ignore[arg-type]


def test_slots_are_found_in_the_order_in_which_they_are_written() -> None:
    assert list(code("{}, {}, {}, {}", Slot(3), InputName(9), Slot(0), Slot(3)).slots()) == [3, 0, 3]


def test_a_long_number_counts_no_more_than_a_short_one() -> None:
    short, long = call("ops::add", InputName(0), Slot(1)), call("ops::add", InputName(0), Slot(1234))
    assert short.width() == long.width() == len("ops::add(x_0, 12)?")


def test_a_part_is_replaced_wherever_it_stands_and_others_stay() -> None:
    made = call("nn::linear", Slot(0), Slot(1), Parameter.BUILDER)
    replaced = made.replaced(Parameter.BUILDER, code('{}.pp("fc")', Parameter.BUILDER)).replaced(
        Slot(1), "size"
    )
    assert text(replaced) == 'nn::linear(n0, size, vb.pp("fc"))?'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (code("({} + {})", Slot(0), Slot(1)), "n0 + n1"),
        (code("({}) + ({})", Slot(0), Slot(1)), "(n0) + (n1)"),
        (code("(({}) + ({}))", Slot(0), Slot(1)), "(n0) + (n1)"),
        (code("({})?", Slot(0)), "(n0)?"),
        (code("{}", Slot(0)), "n0"),
    ],
)
def test_only_a_pair_around_everything_counts_as_outer_parentheses(given: Code, expected: str) -> None:
    assert text(given.without_outer_parentheses()) == expected


def test_text_is_taken_off_the_ends_only_if_it_stands_there() -> None:
    made = code("&{}?", Slot(0))
    assert text(made.removeprefix("&").removesuffix("?")) == "n0"
    assert made.removeprefix("n").removesuffix("0") == made
    assert (
        code("size").is_identifier and not code("{}", Slot(0)).is_identifier and not code("a b").is_identifier
    )
