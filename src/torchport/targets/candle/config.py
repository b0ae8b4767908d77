"""Names for numbers: which of a model's sizes are fields of `Config`, and which follow from others.

In: the numbers in the model's own config or attributes, and the user's hints. Out: Rust expressions such as
`cfg.hidden_size / cfg.num_attention_heads`. A number that has no name there stays a literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torchport.capture import graph as g
from torchport.targets.candle import rust

_WIDTH = r"hidden|d_model|n_embd|embed|dim$|width"
_ROLES: dict[str, tuple[str, ...]] = {
    "num_embeddings": (r"^vocab", r"position|context|n_ctx", r"vocab", r"codebook|classes"),
    "embedding_dim": (r"embedding_size", _WIDTH),
    "in_features": (_WIDTH, r"intermediate|ffn|inner|mlp", r"head", r"size|feat"),
    "out_features": (_WIDTH, r"intermediate|ffn|inner|mlp", r"head", r"^vocab|classes|labels", r"size|feat"),
    "normalized_shape": (_WIDTH, r"head", r"size"),
    "input_size": (r"input", _WIDTH),
    "hidden_size": (_WIDTH,),
    "in_channels": (r"channels|mel", _WIDTH),
    "out_channels": (_WIDTH, r"channels"),
    "num_features": (r"channels", _WIDTH),
    "kernel_size": (r"patch_size",),
    "stride": (r"patch_size",),
    "size": (r"head", _WIDTH, r"intermediate|ffn|inner|mlp", r"^vocab", r"position|n_ctx"),
    "offset": (r"head", _WIDTH, r"intermediate|ffn|inner|mlp"),
    "bound": (r"head_dim",),
    "repeat": (r"groups|n_rep",),
    "eps": (r"eps",),
    "add": (r"eps",),
}
"""Role of a number → patterns of the names that may stand for it, the likeliest first."""
_NOT_SIZES = re.compile(r"_id$|token|dropout|layers?$|depth|range|version|prob|theta|_std|initializer")
"""Names that never stand for a size, although their values may be equal to one."""
_SIZES = re.compile(r"(_dim|_size|_classes|_model|_heads?|nhead|_layers?|_length|_channels|_features)$|^n_")
"""Names of attributes that become Config fields if the model has no config."""
_COUNTS = re.compile(r"layer|depth|block")
"""Names that may stand for the length of a list of modules."""
_LEAST = {"size": 2, "offset": 2, "bound": 4}
"""Role → the smallest number that gets a name; smaller ones are equal to something by chance."""


class Config:
    """The numbers that have a name, and those of them that generated code reads: the fields of its `Config`."""

    def __init__(self, graph: g.Graph, hints: dict[str, Any] | None = None):
        self.hints: dict[str, Any] = hints or {}
        named = graph.config or {k: v for k, v in graph.root.attributes.items() if _SIZES.search(k)}
        known = {**(named or _first_and_last(graph)), **self.hints}
        self.known = {
            rust.snake(name): value
            for name, value in known.items()
            if not isinstance(value, bool) and isinstance(value, int | float)
        }
        self.fields: dict[str, int | float] = {}

    def expression(self, value: int | float, role: str | None, kind: str, path: str) -> str | None:
        """A Rust expression over `cfg` for a number of the module at `path`, or None if the number stays a literal."""
        if role is None:
            return None
        if role.startswith("count"):
            return self._field(self._count(int(value), f"{path} {role}"))
        if role not in _ROLES or (isinstance(value, int) and value < _LEAST.get(role, 1)):
            return None
        if role == "add" and not isinstance(value, float):
            return None
        name = self._by_role(value, role, path)
        if name is not None:
            return self._field(name)
        if isinstance(value, float):
            return None
        return self._repeats(value) if role == "repeat" else self._derived(value, role)

    def _field(self, name: str | None) -> str | None:
        """The expression that reads a field, which is added to `fields`."""
        if name is None:
            return None
        self.fields[name] = self.known[name]
        return f"cfg.{name}"

    def _named(self, value: int | float) -> list[str]:
        """The names that have this value; those that the user gave as hints, if there are any."""
        same = [
            n
            for n, v in self.known.items()
            if v == value and isinstance(v, float) == isinstance(value, float)
        ]
        hinted = [name for name in same if name in self.hints]
        return hinted or [name for name in same if not _NOT_SIZES.search(name)]

    def _by_role(self, value: int | float, role: str, path: str) -> str | None:
        names = self._named(value)
        for pattern in _ROLES[role]:
            found = [name for name in names if re.search(pattern, name)]
            if found:
                return max(found, key=lambda name: _shared_words(name, path))
        return None

    def _count(self, value: int, place: str) -> str | None:
        """The name for the length of a list of modules."""
        names = [n for n, v in self.known.items() if v == value and isinstance(v, int) and _COUNTS.search(n)]
        return max(names, key=lambda name: _shared_words(name, place), default=None)

    def _like(self, pattern: str) -> Iterator[tuple[str, int]]:
        """The sizes whose names match a pattern."""
        for name, value in self.known.items():
            if (
                isinstance(value, int)
                and value > 1
                and re.search(pattern, name)
                and not _NOT_SIZES.search(name)
            ):
                yield name, value

    def _repeats(self, value: int) -> str | None:
        """The expression for how often each key and value head is repeated for the query heads."""
        for queries, count in self._like(r"num_attention_heads|n_head"):
            for keys, few in self._like(r"key_value_heads|kv_heads"):
                if few * value == count:
                    return f"{self._field(queries)} / {self._field(keys)}"
        return None

    def _derived(self, value: int, role: str) -> str | None:
        """The expression for a size that follows from named ones: all heads, a head's width, a half, a multiple."""
        if value < 8:
            return None
        widths = [item for item in self._like(_WIDTH) if "head" not in item[0]]
        heads = list(self._like(r"head(?!_dim)"))
        is_feature = role in ("in_features", "out_features")
        for head, count in heads:
            for width, size in self._like(r"head_dim"):
                if count * size == value:
                    return f"{self._field(head)} * {self._field(width)}"
        for head, count in heads:
            for width, total in widths:
                if not is_feature and total == value * count:
                    return f"{self._field(width)} / {self._field(head)}"
        for width, size in [*self._like(r"head_dim"), *widths]:
            if role in ("offset", "bound", "size") and size == 2 * value:
                return f"{self._field(width)} / 2"
        for width, size in widths:
            for factor in (2, 3, 4, 6, 8):
                if role != "bound" and value == factor * size:
                    return f"{factor} * {self._field(width)}"
        return None


def _first_and_last(graph: g.Graph) -> dict[str, int]:
    """Names for a model that names no size itself: its first and last sizes, and the width between, if there is one."""
    linear: list[list[int]] = []
    sizes: dict[str, int] = {}
    for module in graph.modules.values():
        for node in module.nodes:
            weight = module.params.get(node.args[1].name) if node.op == "aten.linear.default" else None
            if weight is not None:
                linear.append([int(d) for d in graph.weights[weight].meta.shape])  # type: ignore[arg-type]
            elif node.op == "aten.embedding.default" and node.args[0].name in module.params:
                count, width = graph.weights[module.params[node.args[0].name]].meta.shape
                sizes.setdefault("vocab_size", int(count))  # type: ignore[arg-type]
                sizes.setdefault("hidden_size", int(width))  # type: ignore[arg-type]
    if linear:
        sizes.setdefault("out_features", linear[-1][0])
        if all("conv" not in node.op for module in graph.modules.values() for node in module.nodes):
            sizes.setdefault(
                "hidden_size" if len(linear) > 1 else "in_features", linear[0][0 if len(linear) > 1 else 1]
            )
            sizes.setdefault("in_features", linear[0][1])
    return sizes


def _shared_words(name: str, place: str) -> tuple[int, int]:
    """How many words a name shares with a place in the model; if two names share as many, the shorter is greater."""
    words = set(re.split(r"[^a-z0-9]+|_", place.lower()))
    return sum(word in words for word in name.split("_")), -len(name)
