"""The kernels in the code that Inductor wrote: cut out one by one, with the operations that were fused into each."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

_SUFFIXES = {"C++": "cpp", "Triton": "py"}
_ORIGIN = re.compile(r"Original ATen: \[(.*)\]")
_FUSED = re.compile(r"fused_(\w+?)_\d+$")
_OUTSIDE = re.compile(r"\b(?:extern_kernels\.\w+|torch\.ops\.(?!inductor\.)\w+\.\w+(?:\.\w+)?)(?=\()")
"""A call of a kernel that Inductor did not write: `extern_kernels.addmm(`, `torch.ops.aten.convolution.default(`."""


@dataclass(frozen=True)
class Kernel:
    name: str
    language: str
    """C++, Triton, or what Inductor calls it."""
    source: str
    operations: tuple[str, ...]
    """The ATen operations that were fused into it, as Inductor names them: gelu, native_layer_norm."""

    @property
    def file(self) -> str:
        return f"{self.name}.{_SUFFIXES.get(self.language, 'txt')}"


def kernels_in(code: str, known_operations: Collection[str] = ()) -> list[Kernel]:
    """The kernels in a file of Inductor's, in their order.

    C++ kernels only tell their operations by their names, in which the operations are joined by underscores. So they
    are looked for among those that the graph is known to have.
    """
    lines = code.splitlines()
    return [
        Kernel(name, language, source.strip("\n") + "\n", _operations(name, lines[:line], known_operations))
        for name, language, source, line in _calls(ast.parse(code))
    ]


def calls_outside(code: str) -> dict[str, int]:
    """How often each kernel of a library, such as a matrix product of BLAS, is called by a file of Inductor's."""
    counts: dict[str, int] = {}
    for line in code.splitlines():
        for call in _OUTSIDE.findall(line):
            counts[call] = counts.get(call, 0) + 1
    return counts


def _calls(tree: ast.Module) -> Iterator[tuple[str, str, str, int]]:
    """Each `NAME = async_compile.KIND(…, "source", …)`, as name, language, source, and the line it begins after."""
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(name)],
                value=ast.Call(func=ast.Attribute(ast.Name("async_compile"), kind), args=arguments),
            ):
                texts = [one.value for one in arguments if isinstance(one, ast.Constant)]
                sources = [text for text in texts if isinstance(text, str) and "\n" in text]
                if sources:
                    yield name, _language(kind), sources[-1], statement.lineno - 1


def _language(kind: str) -> str:
    if kind.startswith("cpp"):
        return "C++"
    return "Triton" if kind == "triton" else kind


def _operations(name: str, lines_before: list[str], known: Collection[str]) -> tuple[str, ...]:
    for line in reversed(lines_before):
        if not line.startswith("#"):
            break
        if origin := _ORIGIN.search(line):
            return tuple(one.strip().removeprefix("aten.") for one in origin[1].split(",") if one.strip())
    fused = _FUSED.search(name)
    return _words(fused[1], frozenset(known)) if fused else ()


def _words(joined: str, known: frozenset[str]) -> tuple[str, ...]:
    """The operations whose names are joined, taken apart into as few known ones as can be; as it is if that fails."""
    parts = joined.split("_")

    @cache
    def apart(start: int) -> tuple[str, ...] | None:
        if start == len(parts):
            return ()
        found = None
        for end in range(start + 1, len(parts) + 1):
            word = "_".join(parts[start:end])
            rest = apart(end) if word in known else None
            if rest is not None and (found is None or len(rest) + 1 < len(found)):
                found = (word, *rest)
        return found

    # An operation whose own name begins with an underscore leaves an empty part.
    return apart(0) or (joined,)
