"""Rules: what each makes of the tensors is what torch makes of them, and a rule that is wrong is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from torchport.errors import TorchportError
from torchport.parity.bits import bits_of
from torchport.weights.checkpoint import opened
from torchport.weights.rules import read_rules
from torchport.weights.table import applied, table_of
from torchport.weights.views import Cast, pieces

TENSORS = {
    "h.0.qkv.weight": torch.arange(72.0).reshape(12, 6),
    "h.0.qkv.bias": torch.arange(12.0),
    "h.0.conv.weight": torch.randn(4, 3, 2),
    **{f"experts.{n}.w": torch.randn(3, 2) for n in (0, 1, 2, 10)},
    "q.weight": torch.randn(4, 5),
    "k.weight": torch.randn(2, 5),
}


def made(folder: Path, rules: str, tensors: dict[str, torch.Tensor] = TENSORS) -> dict[str, torch.Tensor]:
    """What the rules make of the tensors in a file."""
    (folder / "rules.yaml").write_text(rules)
    given = read_rules(folder / "rules.yaml")
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    save_file(copies, folder / "a.safetensors")
    with opened([folder / "a.safetensors"]) as checkpoint:
        table = applied(table_of(checkpoint.tensors, given.prefix or ("",)), given.rules)
        found = {}
        for name, entry in table.entries.items():
            bits = np.concatenate([np.array(piece) for piece in pieces(entry.stored)])
            form = entry.stored.form
            found[name] = torch.from_numpy(bits).view(getattr(torch, form.dtype)).reshape(form.shape)
        return found


CASES = {
    "rename": (r"- {rename: 'h\.(\d)\.(.*)', to: 'layers.\1.\2'}", {"layers.0.qkv.bias": "h.0.qkv.bias"}),
    "copy": ("- {copy: q.weight, to: head.weight}", {"head.weight": "q.weight", "q.weight": "q.weight"}),
}


@pytest.mark.parametrize("kind", CASES)
def test_names_change_and_values_do_not(tmp_path: Path, kind: str) -> None:
    rules, expected = CASES[kind]
    found = made(tmp_path, f"rules:\n  {rules}\n")
    assert all(torch.equal(found[new], TENSORS[old]) for new, old in expected.items())


def test_a_dropped_tensor_is_gone(tmp_path: Path) -> None:
    found = made(tmp_path, r"rules: [{drop: 'experts\..*'}]")
    assert found.keys() == {name for name in TENSORS if not name.startswith("experts")}


def test_a_name_is_matched_in_full_and_not_in_part(tmp_path: Path) -> None:
    with pytest.raises(TorchportError, match=r"TP0323.*rule 1 matches no name: drop: weight"):
        made(tmp_path, "rules: [{drop: weight}]")


def test_transpose_is_that_of_torch(tmp_path: Path) -> None:
    rules = r"rules: [{transpose: q\.weight}, {transpose: 'h\.0\.conv\.weight', axes: [2, 0, 1]}]"
    found = made(tmp_path, rules)
    assert torch.equal(found["q.weight"], TENSORS["q.weight"].T)
    assert torch.equal(found["h.0.conv.weight"], TENSORS["h.0.conv.weight"].permute(2, 0, 1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sizes", [None, [1, 2, 3]])
def test_split_is_that_of_torch(tmp_path: Path, axis: int, sizes: list[int] | None) -> None:
    length = 12 if axis == 0 else 6
    given = None if sizes is None else [size * length // 6 for size in sizes]
    rule = (
        f"rules: [{{split: 'h\\.0\\.qkv\\.weight', into: [q, k, v], axis: {axis}, sizes: {given or 'null'}}}]"
    )
    found = made(tmp_path, rule)
    parts = TENSORS["h.0.qkv.weight"].split(given or [length // 3] * 3, axis)
    assert all(torch.equal(found[name], part) for name, part in zip("qkv", parts, strict=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_merge_is_that_of_torch(tmp_path: Path, axis: int) -> None:
    first, second = torch.randn(4, 5), torch.randn(*((2, 5) if axis == 0 else (4, 3)))
    rules = rf"rules: [{{merge: ['(.*)\.q', '(.*)\.k'], into: '\1.qk', axis: {axis}}}]"
    found = made(tmp_path, rules, {"a.q": first, "a.k": second, "b.q": second, "b.k": second})
    assert torch.equal(found["a.qk"], torch.cat([first, second], axis))
    assert torch.equal(found["b.qk"], torch.cat([second, second], axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stack_is_that_of_torch_in_the_order_of_numbers(tmp_path: Path, axis: int) -> None:
    found = made(tmp_path, rf"rules: [{{stack: 'experts\.\d+\.w', into: experts, axis: {axis}}}]")
    parts = [TENSORS[f"experts.{n}.w"] for n in (0, 1, 2, 10)]
    assert torch.equal(found["experts"], torch.stack(parts, axis))


def test_rules_apply_to_what_earlier_rules_made(tmp_path: Path) -> None:
    rules = r"""
    rules:
      - split: 'h\.0\.qkv\.weight'
        into: [a, b, c]
      - transpose: a
      - split: a
        into: [d, e]
        axis: 1
      - merge: [d, e]
        into: f
        axis: 1
      - cast: f
        dtype: float64
    """
    found = made(tmp_path, rules)
    assert torch.equal(found["f"], TENSORS["h.0.qkv.weight"][:4].T.double())


def test_a_long_tensor_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchport.weights.views.PIECE", 7)
    wide = torch.randn(10, 13, 3)
    rules = "rules: [{transpose: a, axes: [1, 2, 0]}, {merge: [a, b], into: c, axis: 1}, {cast: c, dtype: float64}]"
    found = made(tmp_path, rules, {"a": wide, "b": torch.ones(13, 2, 10)})
    assert torch.equal(found["c"], torch.cat([wide.permute(1, 2, 0), torch.ones(13, 2, 10)], 1).double())
    found = made(
        tmp_path, "rules: [{transpose: v, axes: [0]}, {transpose: m}]", {"v": wide[0, 0], "m": wide[:, 0]}
    )
    assert torch.equal(found["v"], wide[0, 0]) and torch.equal(found["m"], wide[:, 0].T)


def test_the_prefix_may_be_in_the_rules(tmp_path: Path) -> None:
    both = {f"{prefix}.{name}": tensor for prefix in ("ema", "model") for name, tensor in TENSORS.items()}
    found = made(tmp_path, "prefix: ema.\nrules: []\n", both)
    assert found.keys() == TENSORS.keys()


@pytest.mark.parametrize(
    ("old", "new", "values", "fits"),
    [
        ("float32", "float16", [1.0, 65504.0], True),
        ("float32", "float16", [1.0, 1e6], False),
        ("float32", "float16", [float("inf"), float("nan")], True),
        ("int64", "int32", [-5, 2**31 - 1], True),
        ("int64", "int32", [2**31], False),
        ("float32", "int32", [2.0, 3.0], True),
        ("float32", "int32", [2.5], False),
        ("bool", "uint8", [True, False], True),
        ("float32", "bfloat16", [1 / 3], True),
    ],
)
def test_a_cast_is_that_of_torch_and_refuses_what_does_not_fit(
    old: str, new: str, values: list[float], fits: bool
) -> None:
    from torchport.weights.stored import InMemory

    given = torch.tensor(values, dtype=getattr(torch, old))
    cast = Cast(InMemory(given), new, "x")
    if fits:
        bits = np.concatenate([np.array(piece) for piece in pieces(cast)])
        assert np.array_equal(bits.view(np.uint8), bits_of(given.to(getattr(torch, new))).view(np.uint8))
    else:
        with pytest.raises(TorchportError, match="TP0321.*x has values that"):
            list(pieces(cast))


WRONG = {
    "no yaml": ("rules: [", "no YAML"),
    "no list": ("rules: 3", "a list"),
    "other keys": ("rulez: []", "nothing else"),
    "no kind": ("rules: [{to: x}]", "rule 1 is none"),
    "two kinds": ("rules: [{drop: x, rename: x, to: y}]", "rule 1 is none, or several"),
    "extra": ("rules: [{drop: x, axis: 0}]", "rule 1 (drop) is wrong at axis"),
    "regex": ("rules: [{drop: '('}]", "no regular expression"),
    "no to": ("rules: [{rename: x}]", "rule 1 (rename) is wrong at to"),
    "dtype": ("rules: [{cast: x, dtype: float99}]", "float99"),
    "matches nothing": ("rules: [{drop: 'gone.*'}]", "rule 1 matches no name: drop: gone.*"),
    "two to one": (
        "rules: [{rename: '(q|k).weight', to: same}]",
        "two tensors would be called same: q.weight and k.weight",
    ),
    "group": (r"rules: [{rename: q.weight, to: '\3'}]", "the replacement"),
    "uneven": ("rules: [{split: 'q.weight', into: [a, b, c]}]", "4 along axis 0"),
    "no axis": ("rules: [{split: 'q.weight', into: [a, b], axis: 4}]", "no axis 4"),
    "axes": ("rules: [{transpose: h.0.conv.weight}]", "the axes are [1, 0]"),
    "shapes": ("rules: [{merge: [q.weight, k.weight], into: x, axis: 1}]", "cannot be joined"),
    "lacks one": ("rules: [{merge: [q.weight, gone], into: x}]", "gone matches"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    rules, said = WRONG[kind]
    with pytest.raises(TorchportError, match="TP0323") as raised:
        made(tmp_path, rules)
    assert said in raised.value.message
