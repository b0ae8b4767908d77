"""What the user's source calls the operands of a body of control flow: the parameters of the function that it was.

In: the line of the call, and which of its arguments the function is. Out: names; none if the source does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchport.capture.source import parsed

_Function = ast.FunctionDef | ast.Lambda


def parameter_names(place: str | None, called: str, position: int) -> tuple[str, ...]:
    """The parameters of the function that is an argument of the call of `called` at `file:line`."""
    file, _, line = (place or "").rpartition(":")
    if not line.isdecimal():
        return ()
    tree = parsed(file)
    calls = [call for call in _calls(tree, called) if call.lineno <= int(line) <= (call.end_lineno or 0)]
    if not calls or len(calls[-1].args) <= position:
        return ()
    function = _function(tree, calls[-1].args[position], int(line))
    if function is None or function.args.vararg is not None or function.args.kwonlyargs:
        return ()
    return tuple(arg.arg for arg in [*function.args.posonlyargs, *function.args.args])


def _calls(tree: ast.Module, called: str) -> Iterator[ast.Call]:
    """All calls of a function by its name, under which it may have been imported: `map` is a builtin, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name.startswith(called):
                yield node


def _function(tree: ast.Module, given: ast.expr, line: int) -> _Function | None:
    """The function that an expression is: a lambda, or the last definition of its name before the call."""
    if isinstance(given, ast.Lambda):
        return given
    if not isinstance(given, ast.Name):
        return None
    known = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == given.id and node.lineno <= line
    ]
    return max(known, key=lambda node: node.lineno, default=None)
