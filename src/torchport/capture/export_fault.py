"""Which modules torch.export failed on, and which line of the user's code that is.

In: the error, and the modules in the order in which they run. Out: the modules at fault, a place to look at, and the
error in plain words.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Collection, Iterator, Sequence
from textwrap import indent

import torch

from torchport.capture.graph import path_of
from torchport.capture.rewrite import rewritten
from torchport.capture.source import modules_running
from torchport.errors import CaptureError


def modules_at_fault(
    model: torch.nn.Module, error: CaptureError, order: Sequence[torch.nn.Module]
) -> list[torch.nn.Module]:
    """The module that an error comes from and all others of its class, which run the same lines.

    Empty if the error does not say which module it comes from.
    """
    ran = set(order)
    running = [module for module in _running(error) if module in ran]
    guilty = running[-1] if running else _named(model, error)
    if guilty is None or guilty not in ran:
        return []
    if type(guilty).__module__.startswith("torch."):
        return [guilty]
    return [module for module in dict.fromkeys(order) if type(module) is type(guilty)]


def outermost(
    model: torch.nn.Module, order: Sequence[torch.nn.Module], blamed: Collection[torch.nn.Module]
) -> list[torch.nn.Module]:
    """The modules nearest to the root that are not blamed yet, for errors that do not say where they come from."""
    depths = {module: path.count(".") + bool(path) for path, module in model.named_modules()}
    left = not_blamed(order, blamed)
    least = min((depths[module] for module in left), default=0)
    return [module for module in left if depths[module] == least]


def not_blamed(
    order: Sequence[torch.nn.Module], blamed: Collection[torch.nn.Module]
) -> list[torch.nn.Module]:
    return [module for module in dict.fromkeys(order) if module not in blamed]


def _running(error: BaseException) -> Iterator[torch.nn.Module]:
    """The modules whose forward was running when an error's first cause was raised, the outermost first."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return modules_running(cause)


def _named(model: torch.nn.Module, error: CaptureError) -> torch.nn.Module | None:
    """The module that an error names by its path, or by a line of its forward."""
    if error.where is None:
        return None
    modules: dict[str, torch.nn.Module] = dict(model.named_modules())
    named = modules.get(path_of(error.where))
    if named is not None and named is not model:
        return named
    file, _, line = error.where.rpartition(":")
    for module in modules.values():
        forward = inspect.unwrap(type(module).forward)
        code = getattr(forward, "__code__", None)
        if line.isdecimal() and code is not None and code.co_filename == file:
            lines, first = inspect.getsourcelines(forward)
            if first <= int(line) < first + len(lines):
                return module
    return None


def line_at_fault(error: CaptureError, module: torch.nn.Module) -> str | None:
    """The line that export could not follow, or else where the module's forward begins."""
    if error.where is not None and error.where.rpartition(":")[2].isdecimal():
        return error.where
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else None


def in_plain_words(error: CaptureError) -> CaptureError:
    """The same error for people who do not know the words of torch.export."""
    kind = type(error.__cause__).__name__
    if kind != "GuardOnDataDependentSymNode":
        return error
    file, _, line = (error.where or "").rpartition(":")
    text = linecache.getline(file, int(line)).strip() if line.isdecimal() else ""
    instead = rewritten(file, int(line)) if line.isdecimal() else None
    control_flow = "this in its place" if instead else f"{_control_flow_for(text)} there"
    fix = f"decide by shapes or arguments only, or use torch.where or {control_flow}; what hooks can see is recorded, "
    plain = CaptureError(
        error.code,
        "torch.export cannot follow forward, because it decides by the value of a tensor"
        + (f": `{text}`" if text else ""),
        where=error.where,
        fix=f"{fix}and the rest is left as TODOs" + (f":\n{indent(instead, '    ')}" if instead else ""),
    )
    plain.__cause__ = error.__cause__
    return plain


def _control_flow_for(line: str) -> str:
    """The control flow of torch that does what a line of Python decides, as far as the line says it."""
    for text in (line, f"{line}\n    pass", f"if 0:\n    pass\n{line}\n    pass"):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        decisions = [node for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp | ast.While)]
        if decisions:
            last = decisions[-1]
            condition = ast.unparse(last.test)
            if isinstance(last, ast.While):
                return f"`while_loop(lambda …: {condition}, body, (…,))` of torch._higher_order_ops"
            return f"`torch.cond({condition}, if_true, if_false, (…,))`"
    return "torch.cond"
