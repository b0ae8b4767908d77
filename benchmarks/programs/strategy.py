"""Random programs as a strategy of hypothesis: a script with a model and its inputs, and the axes that stay free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from benchmarks.programs import children, lines
from benchmarks.programs.names import CLASSES, KEYS, VARIABLES
from benchmarks.programs.writing import SIZES, Book, Choices, Scope

_DEEPEST = 3


@dataclass(frozen=True)
class Program:
    """A script that is a SPEC, `script.py:case`; `case(batch, length)` gives the same model inputs of another size."""

    source: str
    dynamic: str | None


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Program:
    choices = Choices(draw)
    book = Book(choices)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inputs = _Inputs(choices)
        name = write_class(book, 0, inputs.values, inputs.parameters)
    source = "\n".join(
        [
            "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n",
            *book.sources,
            f"def case(batch={SIZES[0][0]}, length={SIZES[0][1]}):",
            "    torch.manual_seed(0)",
            f"    return {name}().eval(), ({''.join(f'{text}, ' for text in inputs.given)})",
            "",
        ]
    )
    return Program(source, inputs.dynamic)


_INPUTS = (
    *(
        ("torch.randn(batch, length, 6)", (0, 1)),
        ("torch.randn(batch, 4)", (0,)),
        ("torch.randn(batch, 6)", (0,)),
    ),
    *(("torch.randint(0, 9, (batch, length))", (0, 1)), ("torch.rand(batch, length) > 0.5", (0, 1))),
    *(
        ("torch.randn(batch, 4, length)", (0, 2)),
        ("torch.randn(4, 6)", ()),
        ("torch.randint(0, 4, (batch,))", (0,)),
    ),
    *(("torch.randn(batch, 3, 8, 8)", (0,)), ("torch.randn(6)", ()), ("torch.randn(batch, length)", (0, 1))),
    *(
        ("torch.randn(length, batch, 4)", (0, 1)),
        ("torch.randint(0, 4, (batch, length), dtype=torch.int32)", (0, 1)),
    ),
)


class _Inputs:
    """The inputs of the whole model: what `case` gives, the parameters of `forward`, and their tensors."""

    def __init__(self, choices: Choices):
        self.parameters: list[str] = []
        self.given: list[str] = []
        self.values: dict[str, list[torch.Tensor]] = {}
        self.wholes: dict[str, list[Any]] = {}
        free: list[str] = []
        for _ in range(choices.number(1, 4)):
            name = choices.one(VARIABLES)
            if name in self.parameters or name == "self":
                continue
            text, axes = self._structure(choices)
            self.parameters.append(name)
            self.given.append(text)
            self.wholes[name] = [eval(text, {"torch": torch, "batch": b, "length": t}) for b, t in SIZES]
            for place, label, own in axes:
                self.values[f"{name}{place}"] = [eval(f"it{place}", {"it": it}) for it in self.wholes[name]]
                free += [f"{name}{label}:{axis}" for axis in own]
        self.dynamic = choices.one((",".join(free), None, ",".join(free), ""))

    def _structure(self, choices: Choices) -> tuple[str, list[tuple[str, str, tuple[int, ...]]]]:
        """An input's text, and for each tensor in it the expression, the label and the free axes."""
        text, axes = choices.one(_INPUTS)
        if not choices.once_in(5):
            return text, [("", "", axes)]
        if choices.once_in(2):
            keys = list(dict.fromkeys(choices.one(KEYS) for _ in range(2)))
            items = [choices.one(_INPUTS) for _ in keys]
            pairs = ", ".join(f"{key!r}: {text}" for key, (text, _) in zip(keys, items, strict=True))
            return f"{{{pairs}}}", [
                (f"[{k!r}]", f".{k}", axes) for k, (_, axes) in zip(keys, items, strict=True)
            ]
        items = [choices.one(_INPUTS) for _ in range(2)]
        return f"({', '.join(t for t, _ in items)})", [
            (f"[{i}]", f".{i}", a) for i, (_, a) in enumerate(items)
        ]


def write_class(
    book: Book,
    depth: int,
    inputs: dict[str, list[torch.Tensor]],
    parameters: list[str],
    keeps: str | None = None,
) -> str:
    """Adds a class to a program, and gives its name. With `keeps`, it returns a tensor like that input."""
    choices = book.choices
    name = book.free_name(CLASSES)
    book.namespace.setdefault(name, None)
    scope = Scope(book, depth, {})
    _give(scope, inputs, parameters)
    for _ in range(choices.number(1, 9 - 2 * depth)):
        add_line(scope)
    result = _kept(scope, keeps) if keeps else _returned(scope)
    book.add(name, scope.source(name, parameters, result), list(inputs.values()))
    return name


def _give(scope: Scope, inputs: dict[str, list[torch.Tensor]], parameters: list[str]) -> None:
    for name in parameters:
        parts = {
            place: tensors
            for place, tensors in inputs.items()
            if place == name or place.startswith(f"{name}[")
        }
        for index, env in enumerate(scope.envs):
            whole: Any = None
            for place, tensors in parts.items():
                if place == name:
                    whole = tensors[index]
                    continue
                key = eval(place.removeprefix(name)[1:-1])
                whole = {} if whole is None else whole
                whole[key] = tensors[index]
            env[name] = whole
        scope.values |= parts


def add_line(scope: Scope) -> None:
    """One more line, if one can be found that works."""
    for _ in range(4):
        if scope.choices.one(_LINES)(scope):
            return


def _expression(scope: Scope) -> bool:
    text = scope.choices.one(lines.EXPRESSIONS)(scope)
    target = scope.target(VARIABLES)
    return bool(text) and scope.do(f"{target} = {text}", target)


def _several(scope: Scope) -> bool:
    found = lines.several(scope)
    if found is None:
        return False
    text, count = found
    targets = [f"{scope.target(VARIABLES)}" for _ in range(count)]
    if len(set(targets)) < count:
        targets = [f"{target}{index}" for index, target in enumerate(targets)]
    return scope.do(f"{', '.join(targets)} = {text}", *targets)


def _structure(scope: Scope) -> bool:
    """A dict or a tuple of what is known."""
    first, second = scope.floats(), scope.floats()
    target = scope.target(VARIABLES)
    if first is None or second is None:
        return False
    key = scope.choices.one(KEYS)
    text = scope.choices.one((f"({first}, {second})", f"{{{key!r}: {first}, 'rest': [{second}]}}"))
    return scope.do(f"{target} = {text}", target)


def _child(scope: Scope) -> bool:
    if scope.depth + 1 >= _DEEPEST:
        return children.add_layer(scope)
    return children.add_child(scope, write_class)


def _loop(scope: Scope) -> bool:
    return children.add_loop(scope, write_class if scope.depth + 1 < _DEEPEST else None)


_LINES: tuple[Callable[[Scope], bool], ...] = (
    *(_expression, _expression, _expression, children.add_layer, _child, _loop, _expression, children.reuse),
    *(_several, children.add_weight, _expression, _structure, children.add_tie, children.reuse),
)


def _returned(scope: Scope) -> str:
    """What a class returns: a tensor, several, or a structure, with numbers among them."""
    choices = scope.choices
    unread = [place for name in scope.unread[::-1] for place in _places_of(scope, name)]
    names = unread or list(scope.values)[::-1]
    count = choices.one((1, 1, 2, 3, 9))
    chosen = names[:count] if choices.once_in(2) else [choices.one(names) for _ in range(count)]
    if count > 3:
        chosen += [
            f"{name} * {index}"
            for index, name in enumerate(chosen)
            if scope.values[name][0].dtype.is_floating_point
        ]
    first = scope.values[chosen[0]][0]
    rest = [place for place in unread if place not in chosen and scope.values[place][0].is_floating_point()]
    if rest and first.is_floating_point():
        chosen[0] = f"{chosen[0]} + ({' + '.join(f'{place}.mean()' for place in rest)})"
    if choices.once_in(6) and first.ndim:
        chosen.append(
            choices.one(
                (
                    f"{names[0]}.shape[0]",
                    f"{names[0]}.shape[0] * 2 + 1",
                    "3",
                    "None",
                    "2.5",
                    f"{names[0]}.numel()",
                )
            )
        )
    if len(chosen) == 1:
        return chosen[0]
    if choices.once_in(3):
        key = choices.one(KEYS)
        return f"{{{key!r}: {chosen[0]}, 'rest': ({', '.join(chosen[1:])},)}}"
    return ", ".join(chosen)


def _places_of(scope: Scope, name: str) -> list[str]:
    return [place for place in scope.values if place == name or place.startswith(f"{name}[")]


def _kept(scope: Scope, keeps: str) -> str:
    """A result of the form of an input, which what was computed has gone into."""
    places = [place for name in scope.unread for place in _places_of(scope, name)]
    others = [place for place in places if scope.values[place][0].is_floating_point()]
    like = (
        [place for place in others if scope.values[place][0].shape == scope.values[keeps][0].shape]
        if keeps in scope.values
        else []
    )
    whole = like[-1] if like else keeps
    return " + ".join([whole, *(f"{place}.mean()" for place in others if place != whole)])
