"""Names are mapped by rules that are applied in order, and a rule is guessed from what is left over."""

import re

import pytest

from torchport.diff.mapping import Rename, guess, rename
from torchport.errors import TorchportError


def renamed(names: list[str], *rules: str) -> dict[str, str]:
    return rename(names, [Rename.parse(rule) for rule in rules])[0]


def test_every_rule_is_applied_to_what_the_rules_before_have_made() -> None:
    names = ["model.layers.0.w", "model.norm"]
    assert renamed(names, r"^model\.=", r"^layers\.=blocks.") == {"blocks.0.w": names[0], "norm": names[1]}
    assert renamed(["a"], "a=b", "b=c") == {"c": "a"}
    assert renamed(["a"], "b=c", "a=b") == {"b": "a"}


def test_a_rule_replaces_wherever_it_matches_and_knows_groups() -> None:
    assert renamed(["a.x.a"], "a=b") == {"b.x.b": "a.x.a"}
    assert renamed(["h.3.w"], r"h\.(\d+)=layer_\1") == {"layer_3.w": "h.3.w"}


def test_the_last_equals_sign_divides_so_that_lookahead_works() -> None:
    assert renamed(["ab", "ac"], "a(?=b)=x") == {"xb": "ab", "ac": "ac"}


def test_rules_that_match_nothing_are_given_back() -> None:
    used, unused = Rename.parse("^a=b"), Rename.parse("^z=y")
    assert rename(["a"], [used, unused])[1] == [unused]


def test_two_names_that_become_one_are_an_error_that_names_them() -> None:
    with pytest.raises(TorchportError) as raised:
        renamed(["enc.0.w", "enc.1.w"], r"\d=N")
    assert raised.value.code == "TP0801"
    assert "enc.0.w" in raised.value.message and "enc.1.w" in raised.value.message


@pytest.mark.parametrize("rule", ["no-equals", "(=x", r"a=\2", r"(?P<n>a)=\g<other>", "*=x"])
def test_malformed_rules_are_refused_before_anything_is_read(rule: str) -> None:
    with pytest.raises(TorchportError) as raised:
        Rename.parse(rule)("a")
    assert raised.value.code == "TP0801" and raised.value.fix


@pytest.mark.parametrize(
    ("reference", "candidate", "rule"),
    [
        (["fc.w", "fc.b"], ["model.fc.w", "model.fc.b"], r"^model\.="),
        (["model.fc.w", "model.fc.b"], ["fc.w", "fc.b"], "^=model."),
        (["a.fc.w", "a.fc.b"], ["b.c.fc.w", "b.c.fc.b", "other"], r"^b\.c\.=a."),
        (["x+y.w", "x+y.b"], ["x(1).w", "x(1).b"], r"^x\(1\)\.=x+y."),
    ],
)
def test_a_change_of_prefix_is_found(reference: list[str], candidate: list[str], rule: str) -> None:
    found = guess(reference, candidate)
    assert found == (rule, 2)
    pattern, replacement = rule.rsplit("=", 1)
    assert sum(re.sub(pattern, replacement, name) in reference for name in candidate) == 2


def test_nothing_is_guessed_where_nothing_fits() -> None:
    assert guess(["alpha"], ["beta"]) is None
    assert guess([], ["beta"]) is None


def test_thousands_of_names_are_guessed_in_a_moment() -> None:
    names = [f"layers.{i}.attention.{p}.weight" for i in range(1500) for p in "qkvo"]
    found = guess(names, [f"module.{name}" for name in names])
    assert found is not None and found[0] == r"^module\.="
