"""A Python `if` or `while` of the user's source as the control flow of torch that would do the same.

In: the line that decides by a value. Out: the lines to write instead, made from the user's own; None if there is more
to it than names that are assigned: a `break`, a `return` on one side only, an attribute that is written.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from torchport.capture.source import parsed

_Function = ast.FunctionDef
_CANNOT = (ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)

_SIGNS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


def rewritten(file: str, line: int) -> str | None:
    function = _innermost(parsed(file), line, _Function)
    if not isinstance(function, _Function):
        return None
    decision = _innermost(function, line, ast.If | ast.While | ast.IfExp)
    if isinstance(decision, ast.IfExp):
        return _expression(decision, _names_before(function, decision))
    if isinstance(decision, ast.If):
        return _branch(function, decision)
    if isinstance(decision, ast.While):
        return _loop(function, decision)
    return None


def _innermost(tree: ast.AST, line: int, kinds: Any) -> ast.AST | None:
    """The last node of some kinds that covers a line; one that decides must do so on that line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            where: Any = getattr(node, "test", node)
            if where.lineno <= line <= (where.end_lineno or where.lineno):
                found = node
    return found


def _expression(decision: ast.IfExp, known: Sequence[str]) -> str:
    operands = _operands([decision.body, decision.orelse], known)
    sides = (
        f"lambda {', '.join(operands)}: {ast.unparse(side)}" for side in (decision.body, decision.orelse)
    )
    return f"torch.cond({_condition(decision.test)}, {', '.join(sides)}, {_tuple(operands)})"


def _branch(function: _Function, decision: ast.If) -> str | None:
    block = _block_of(function, decision)
    after = block[block.index(decision) + 1 :] if decision in block else []
    yes, no = decision.body, decision.orelse
    known = _names_before(function, decision)
    if _returns(yes):
        no = no or after
        if not (_is_simple(yes[:-1]) and no and _returns(no) and _is_simple(no[:-1])):
            return None
        operands = _operands([*yes, *no], known)
        bodies = [_definition(name, operands, side) for name, side in (("if_true", yes), ("if_false", no))]
        result = "return "
    else:
        if not (_is_simple(yes) and _is_simple(no)):
            return None
        read_after = _loaded(_statements_after(function, decision))
        results = [name for name in _stored([*yes, *no]) if name in read_after]
        if not results or not all(
            name in known or name in _sure(side) for name in results for side in (yes, no)
        ):
            return None
        passed_on = [name for name in results if not all(name in _stored(side) for side in (yes, no))]
        operands = _operands([*yes, *no], [*known], also=passed_on)
        bodies = [
            _definition(name, operands, [*side, _return(results, side)])
            for name, side in (("if_true", yes), ("if_false", no))
        ]
        result = f"{', '.join(results)} = "
    call = f"{result}torch.cond({_condition(decision.test)}, if_true, if_false, {_tuple(operands)})"
    return "\n".join([*bodies, call])


def _loop(function: _Function, decision: ast.While) -> str | None:
    if decision.orelse or not _is_simple(decision.body):
        return None
    known = _names_before(function, decision)
    carried = [name for name in _stored(decision.body) if name in known]
    if not carried:
        return None
    condition = f"def again({', '.join(carried)}):\n    return {_condition(decision.test)}"
    body = _definition("step", carried, [*decision.body, _return(carried, decision.body)])
    start = [_as_tensor(function, name, decision) for name in carried]
    call = f"{', '.join(carried)} = while_loop(again, step, {_tuple(start)})"
    imported = "from torch._higher_order_ops import while_loop"
    return "\n".join([imported, condition, body, call])


# parts of the rewrite


def _condition(test: ast.expr) -> str:
    """The condition as a tensor: `bool(…)` and `….item()` of it would leave the graph."""
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "bool"
        and test.args
    ):
        return _condition(test.args[0])
    plain = _WithoutItem().visit(copy.deepcopy(test))
    return ast.unparse(plain)


class _WithoutItem(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
            return node.func.value
        return node


def _as_tensor(function: _Function, name: str, decision: ast.stmt) -> str:
    """What a loop starts with: the variable, or a tensor if the variable was set to a number."""
    before = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and node.lineno < decision.lineno and name in _stored([node])
    ]
    last = max(before, key=lambda node: node.lineno, default=None)
    if last is None or not isinstance(last.value, ast.Constant):
        return name
    return f"torch.tensor({ast.unparse(last.value)})"


def _definition(name: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> str:
    lines = "\n".join(ast.unparse(_NotInPlace().visit(copy.deepcopy(statement))) for statement in body)
    return f"def {name}({', '.join(parameters)}):\n{textwrap.indent(lines, '    ')}"


class _NotInPlace(ast.NodeTransformer):
    """`x = x + 1` for `x += 1`: a body must not write to its operands."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = ast.unparse(node.target)
        return ast.parse(f"{target} = {target} {_SIGNS[type(node.op)]} ({ast.unparse(node.value)})").body[0]


def _return(names: Sequence[str], side: Sequence[ast.stmt]) -> ast.stmt:
    """A return of these names; an operand that a side leaves as it is must be copied."""
    stored = _stored(side)
    items = [name if name in stored else f"{name}.clone()" for name in names]
    return ast.parse(f"return {', '.join(items)}").body[0]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"


# names


def _operands(nodes: Iterable[ast.AST], known: Sequence[str], also: Sequence[str] = ()) -> list[str]:
    """The variables of the function that some code reads."""
    loaded = [*_loaded(nodes), *also]
    return [name for name in dict.fromkeys(known) if name in loaded]


def _names_before(function: _Function, decision: ast.AST) -> list[str]:
    """The parameters, and what is assigned before a line."""
    arguments = function.args
    given = [arg.arg for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    line = decision.lineno  # type: ignore[attr-defined]
    before = [
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < line
    ]
    return [name for name in dict.fromkeys([*given, *before]) if name != "self"]


def _loaded(nodes: Iterable[ast.AST]) -> list[str]:
    walked = [node for root in nodes for node in ast.walk(root)]
    loaded = [n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    changed = [n.target.id for n in walked if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
    return list(dict.fromkeys([*loaded, *changed]))


def _stored(nodes: Iterable[ast.AST]) -> list[str]:
    walked = (node for root in nodes for node in ast.walk(root))
    return list(
        dict.fromkeys(n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    )


def _sure(side: Sequence[ast.stmt]) -> list[str]:
    """What a side assigns whatever happens in it."""
    return _stored(statement for statement in side if not isinstance(statement, ast.If | ast.For | ast.While))


def _statements_after(function: _Function, decision: ast.stmt) -> list[ast.stmt]:
    """All that may run after a statement: what is behind it, or all of a loop around it."""
    end = decision.end_lineno or decision.lineno
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While) and node.lineno < decision.lineno <= (node.end_lineno or 0)
    ]
    behind = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node.lineno > end]
    return [*around, *behind]


def _block_of(function: _Function, decision: ast.stmt) -> list[ast.stmt]:
    """The list of statements that a statement is one of, if it is the body of the function; else nothing."""
    return function.body if decision in function.body else []


def _returns(side: Sequence[ast.stmt]) -> bool:
    return bool(side) and isinstance(side[-1], ast.Return) and side[-1].value is not None


def _is_simple(side: Sequence[ast.stmt]) -> bool:
    """Whether nothing in a block leaves it, and all that it writes is variables."""
    for node in (node for statement in side for node in ast.walk(statement)):
        if isinstance(node, (*_CANNOT, ast.Return)):
            return False
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return False
    return True
