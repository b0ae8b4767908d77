"""The modules that a module holds: layers, classes of the program, lists that loops walk over, weights and ties."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.programs.names import ATTRIBUTES, MODULE_KEYS, VARIABLES
from benchmarks.programs.writing import Scope

WriteClass = Callable[..., str]

_ON_LAST_AXIS = (
    *("nn.Linear({c}, {d})", "nn.LayerNorm({c})", "nn.Linear({c}, {d}, bias=False)", "nn.Linear({c}, {c})"),
    *(
        "nn.Sequential(nn.Linear({c}, {d}), nn.ReLU(), nn.Linear({d}, {c}))",
        "nn.RMSNorm({c})",
        "nn.Linear({c}, 1)",
    ),
    *("nn.Sequential(nn.Linear({c}, {c}), nn.Sequential(nn.Tanh(), nn.Linear({c}, {d})))", "nn.PReLU()"),
    *("nn.GLU()", "nn.Sequential()"),
)
_ON_ANY = (
    "nn.ReLU()",
    "nn.Dropout(0.1)",
    "nn.GELU()",
    "nn.Identity()",
    "nn.Flatten(0)",
    "nn.SiLU()",
    "nn.LeakyReLU(0.2)",
)
_ON_CHANNELS = (
    "nn.Conv1d({c}, {d}, 3, padding=1)",
    "nn.BatchNorm1d({c})",
    "nn.Conv1d({c}, {c}, 1, groups={c})",
    "nn.AvgPool1d(2)",
)
_ON_IMAGES = (
    "nn.Conv2d({c}, {d}, 3)",
    "nn.BatchNorm2d({c})",
    "nn.MaxPool2d(2)",
    "nn.AdaptiveAvgPool2d(1)",
    "nn.GroupNorm(1, {c})",
)
_ON_SEQUENCES = (
    "nn.GRU({c}, {d}, batch_first=True)",
    "nn.LSTM({c}, {d})",
    "nn.LSTM({c}, {d}, bidirectional=True)",
)


def _layer(scope: Scope, x: str) -> str | None:
    """The constructor of a layer of torch that may take a value."""
    choices, first = scope.choices, scope.values[x][0]
    width = choices.number(2, 6)
    options = list(_ON_ANY)
    if first.ndim >= 1 and (c := scope.fixed(x, -1)):
        options += [text.format(c=c, d=width) for text in _ON_LAST_AXIS * 2]
        options += [text.format(c=c, d=width) for text in _ON_SEQUENCES] if first.ndim == 3 else []
    if first.ndim in (3, 4) and (c := scope.fixed(x, 1)):
        kinds = _ON_CHANNELS if first.ndim == 3 else _ON_IMAGES
        options += [text.format(c=c, d=width) for text in kinds]
    return choices.one(options[::-1])


def add_layer(scope: Scope) -> bool:
    """A layer of torch, and its call."""
    if scope.choices.once_in(5) and (n := scope.integers()):
        name = scope.attribute(ATTRIBUTES)
        return scope.do_init(f"self.{name} = nn.Embedding(9, {scope.choices.number(2, 6)})") and _call(
            scope, f"self.{name}", [n], "{} % 9"
        )
    x = scope.floats()
    constructor = x and _layer(scope, x)
    if x is None or constructor is None:
        return False
    if scope.choices.once_in(6):
        return _add_in_container(scope, constructor, x)
    name = scope.attribute(ATTRIBUTES)
    return scope.do_init(f"self.{name} = {constructor}") and _call(scope, f"self.{name}", [x])


def _add_in_container(scope: Scope, constructor: str, x: str) -> bool:
    """A layer in a ModuleDict or a ModuleList, in which the others are never called."""
    name, key = scope.attribute(ATTRIBUTES), scope.choices.one(MODULE_KEYS)
    kind, place = scope.choices.one(
        (
            (f"nn.ModuleDict({{{key!r}: {constructor}, 'unused': nn.Linear(2, 2)}})", f"[{key!r}]"),
            (f"nn.ModuleList([nn.Linear(2, 2), {constructor}])", "[1]"),
            (f"nn.ModuleList([{constructor}])", "[0]"),
        )
    )
    return scope.do_init(f"self.{name} = {kind}") and _call(scope, f"self.{name}{place}", [x])


def _call(scope: Scope, place: str, arguments: list[str], form: str = "{}") -> bool:
    """A call of a child, whose result goes into one variable or is taken apart."""
    given = ", ".join(form.format(argument) for argument in arguments)
    target = scope.target(VARIABLES)
    tensors = [scope.values[argument] for argument in arguments]
    if not scope.do(f"{target} = {place}({given})", target):
        return False
    scope.children[place if form == "{}" else f"{place}!"] = tensors
    return True


def reuse(scope: Scope) -> bool:
    """One more call of a child, or one more module of a class that is there already."""
    choices = scope.choices
    if choices.once_in(2) and scope.children:
        place = choices.one(list(scope.children)[::-1])
        found = [scope.like(tensors) for tensors in scope.children[place]]
        form = "{} % 9" if place.endswith("!") else "{}"
        known = [name for name in found if name is not None]
        return len(known) == len(found) and _call(scope, place.rstrip("!"), known, form)
    signatures = scope.book.signatures
    if not signatures:
        return False
    name = choices.one(list(signatures))
    known = [found for tensors in signatures[name] if (found := scope.like(tensors)) is not None]
    if len(known) < len(signatures[name]):
        return False
    attribute = scope.attribute(ATTRIBUTES)
    return scope.do_init(f"self.{attribute} = {name}()") and _call(scope, f"self.{attribute}", known)


def _arguments(scope: Scope, most: int) -> list[str]:
    names = [scope.choices.one(list(scope.values)[::-1]) for _ in range(scope.choices.number(1, most))]
    return list(dict.fromkeys(names))


def _parameters(scope: Scope, count: int) -> list[str]:
    names: list[str] = []
    for _ in range(count):
        name = scope.target(VARIABLES)
        names.append(name if name not in names and name != "self" else f"{name}_{len(names)}")
    return names


def add_child(scope: Scope, write_class: WriteClass) -> bool:
    """A module of a new class, and its call."""
    arguments = _arguments(scope, 3)
    if not arguments:
        return False
    parameters = _parameters(scope, len(arguments))
    inputs = dict(zip(parameters, (scope.values[name] for name in arguments), strict=True))
    name = write_class(scope.book, scope.depth + 1, inputs, parameters)
    attribute = scope.attribute(ATTRIBUTES)
    return scope.do_init(f"self.{attribute} = {name}()") and _call(scope, f"self.{attribute}", arguments)


_WALKS = (
    "for {item} in self.{name}:\n    {x} = {item}({given})",
    "for {item} in self.{name}:\n    {x} = {item}({given})",
    "for {item} in reversed(self.{name}):\n    {x} = {item}({given})",
    "for {item} in self.{name}[:-1]:\n    {x} = {item}({given})",
    "for i_, {item} in enumerate(self.{name}):\n    {x} = {x} + {item}({given}) * i_",
    "for {item} in self.{name}:\n    {x} = {x} + {item}({given})",
    "all_ = []\nfor {item} in self.{name}:\n    {x} = {item}({given})\n    all_.append({x})\n{x} = {x} + sum(all_)",
    "for {item} in self.{name}:\n    for _ in range(2):\n        {x} = {item}({given})",
    "{x} = sum({item}({given}) for {item} in self.{name})",
)


def add_loop(scope: Scope, write_class: WriteClass | None) -> bool:
    """A ModuleList whose items are called one after another, and the loop over it."""
    choices = scope.choices
    x = scope.floats()
    if x is None or scope.values[x][0].ndim == 0:
        return False
    others = [name for name in _arguments(scope, 2) if name != x][: choices.number(0, 2)]
    count = choices.number(1, 4)
    if write_class is not None and choices.once_in(2):
        arguments = [x, *others] if choices.once_in(2) else [*others, x]
        parameters = _parameters(scope, len(arguments))
        inputs = dict(zip(parameters, (scope.values[name] for name in arguments), strict=True))
        name = write_class(
            scope.book, scope.depth + 1, inputs, parameters, keeps=parameters[arguments.index(x)]
        )
        items = [f"{name}()"] * count
    else:
        arguments = [x]
        width = scope.fixed(x, -1)
        if width is None:
            return False
        options = (
            f"nn.Linear({width}, {width})",
            f"nn.LayerNorm({width})",
            f"nn.Sequential(nn.Linear({width}, {width}), nn.ReLU())",
        )
        items = (
            [choices.one(options)] * count
            if choices.once_in(2)
            else [choices.one(options) for _ in range(count)]
        )
    attribute = scope.attribute(ATTRIBUTES)
    if not scope.do_init(f"self.{attribute} = nn.ModuleList([{', '.join(items)}])"):
        return False
    target = scope.target(VARIABLES)
    item = scope.target(("layer", "block", "l", "m", "item", "x", "match_", "层"))
    if item == target or any(item == name.partition("[")[0] for name in arguments):
        item = f"{item}_1"
    start = "" if target == x else f"{target} = {x}\n"
    given = ", ".join(target if name == x else name for name in arguments)
    walk = choices.one(_WALKS).format(item=item, name=attribute, x=target, given=given)
    scope.children[f"self.{attribute}[0]"] = [scope.values[name] for name in arguments]
    return scope.do(start + walk, target)


def add_weight(scope: Scope) -> bool:
    """A parameter or a buffer, and something that reads it."""
    x = scope.floats()
    width = scope.fixed(x, -1) if x is not None and scope.values[x][0].ndim else None
    if x is None or width is None:
        return False
    name = scope.attribute(ATTRIBUTES)
    line, read = scope.choices.one(
        (
            (f"self.{name} = nn.Parameter(torch.randn({width}))", f"{x} * self.{name}"),
            (f"self.register_buffer({name!r}, torch.arange({width}))", f"{x} + self.{name}"),
            (
                f"self.register_buffer({name!r}, torch.ones(1, {width}), persistent=False)",
                f"self.{name} - {x}",
            ),
            (f"self.{name} = nn.Parameter(torch.randn({width}, {width}))", f"{x} @ self.{name}"),
            (f"self.{name} = torch.full(({width},), 0.5)", f"{x} + self.{name}"),
            (f"self.{name} = {width}", f"{x} / self.{name} + self.{name}"),
            (f"self.{name} = nn.ParameterList([nn.Parameter(torch.ones({width}))])", f"{x} * self.{name}[0]"),
            (
                f"self.register_buffer({name!r}, torch.tensor([True, False] * 3)[:{width}])",
                f"{x} * self.{name}",
            ),
        )
    )
    target = scope.target(VARIABLES)
    return scope.do_init(line) and scope.do(f"{target} = {read}", target)


def add_tie(scope: Scope) -> bool:
    """Two layers with one weight."""
    x = scope.floats()
    width = scope.fixed(x, -1) if x is not None and scope.values[x][0].ndim else None
    if x is None or width is None:
        return False
    first, second = scope.attribute(ATTRIBUTES), scope.attribute(ATTRIBUTES)
    made = f"self.{first} = nn.Linear({width}, {width})\nself.{second} = nn.Linear({width}, {width})"
    tie = scope.choices.one((f"self.{second}.weight = self.{first}.weight", f"self.{second} = self.{first}"))
    target = scope.target(VARIABLES)
    call = f"{target} = self.{first}({x}) + self.{second}({x}).tanh()"
    return scope.do_init(f"{made}\n{tie}") and scope.do(call, target)


assert torch
