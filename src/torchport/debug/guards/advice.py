"""What to do about the common breaks and recompilations. Rows do not guess: no advice is better than a wrong one."""

from __future__ import annotations

import re
from typing import NamedTuple

from torchport.debug.guards.model import Place, Reason


class Advice(NamedTuple):
    """If the pattern is found, the text is given, with the pattern's named groups filled in."""

    pattern: str
    text: str


WITHOUT_COMMENT = re.compile(r"\s{2,}# .*", re.DOTALL)
HINT = re.compile(r"\(HINT: [^)\n]*\)")
OF_AN_ARGUMENT = r"\n.*\nof an argument$"
OUTSIDE = "call it outside of the compiled function"
NOT_COMPILED = "keep it from the compiler by `if not torch.compiler.is_compiling():`"

BREAKS: tuple[Advice, ...] = (
    Advice(r"builtin operator `print`",
           f"Remove the print, or {NOT_COMPILED}. To keep it, allow it to be printed after the graph has run: "
           "torch._dynamo.config.reorderable_logging_functions.add(print)."),
    Advice(r"`_?warnings\.warn`",
           f"Warn before the compiled function is called, or {NOT_COMPILED}."),
    Advice(r"logging\.Logger method not supported",
           f"Log outside of the compiled function, or {NOT_COMPILED}."),
    Advice(r"Unsupported Tensor\.item\(\) call with capture_scalar_outputs=False",
           "Go on with the tensor instead of the Python number: `.item()`, `int()`, `float()` and `bool()` of a tensor "
           "break the graph. If a number it must be, set torch._dynamo.config.capture_scalar_outputs = True."),
    Advice(r"Tensor\.tolist\(\) with non-integer tensor",
           "Go on with the tensor: `tolist()` of a tensor of floats breaks the graph."),
    Advice(r"Data-dependent branching[\s\S]*\nline: while\b",
           "How often the loop runs depends on the values of a tensor. Move the loop out of the compiled function and "
           "compile its body, or write it with torch.while_loop."),
    Advice(r"Data-dependent branching",
           "The branch depends on the values of a tensor. Compute both sides and choose with torch.where, or use "
           "torch.cond."),
    Advice(r"^Dynamic shape operator\nOperator `(?P<op>[^`]+)`",
           "The shape that {op} gives depends on values. Use a form of fixed shape (torch.where with a mask instead of "
           "x[mask]), or set torch._dynamo.config.capture_dynamic_output_shape_ops = True."),
    Advice(r"trace numpy function unsupported by PyTorch[\s\S]*<function (?P<name>\w+) at",
           "Dynamo has no form of numpy's {name} in torch: use torch's own functions, or " + OUTSIDE + "."),
    Advice(r"^Call to `torch\._dynamo\.graph_break\(\)`",
           "The code asks for this break: remove torch._dynamo.graph_break() if it is no longer wanted."),
    Advice(r"^Skip calling `torch\.compiler\.disable\(\)`d function",
           "The function called here is marked with torch.compiler.disable: remove the mark, or " + OUTSIDE + "."),
    Advice(r"marked as skipped\nDynamo does not know how to trace the (?:Python )?builtin `(?P<name>[\w.]+?)\.?`",
           "Dynamo cannot look into {name}, which is not written in Python: " + OUTSIDE + ", or make it an operator "
           "with torch.library.custom_op if it computes on tensors."),
    Advice(r"^Call to a time function\nDynamo graph breaks on `(?P<name>time\.\w+)\(\)`",
           "Read the clock, {name}(), outside of the compiled function."),
    Advice(r"^Failed to trace builtin operator\nDynamo does not know how to trace builtin operator `(?P<name>\w+)`",
           "Dynamo cannot trace Python's {name}() with these arguments: " + OUTSIDE + "."),
    Advice(r"^Unsupported context manager\nDynamo does not know how to enter a `(?P<name>[^`]+)`",
           "Dynamo cannot enter a {name}: put the `with` around the call of the compiled function."),
    Advice(r"^Unsupported Tensor\.backward\(\) call",
           "Call backward() outside: torch.compile compiles the backward of what is compiled by itself."),
    Advice(r"^Attempted to use tensor creation function with requires_grad=True",
           "Create the tensor outside of the compiled function and pass it in."),
    Advice(r"^copy\.deepcopy\(\)", "Copy outside of the compiled function."),
    Advice(r"^repr\(\) on tensor", "The text of a tensor needs its values: make it outside of the compiled function."),
)  # fmt: skip
"""Matched with title, explanation, context and code line, each on its own line, of why a graph broke."""

IN_LOOP = " The break is inside a loop, so the whole function runs uncompiled."

RECOMPILATIONS: tuple[Advice, ...] = (
    Advice(r"^tensor '.*\b_parameters\['(?P<name>[^']+)'\]' requires_grad mismatch",
           "The parameter `{name}` was frozen or unfrozen (requires_grad_) after it was compiled, which takes a graph "
           "each: freeze what is to be frozen before the first call."),
    Advice(r"^tensor '.*\b_parameters\[", ""),
    Advice(r"^tensor '.+' size mismatch at index \d+\. expected (?:[01], actual \d+|\d+, actual [01])$",
           "Dynamo always compiles the sizes 0 and 1 apart from others, so one more graph for them is normal."),
    Advice(r"^tensor '(?P<name>(?!___)[A-Za-z_]\w*)' size mismatch at index (?P<axis>\d+)\. .*$" + OF_AN_ARGUMENT,
           "If this size changes from call to call, say so before the first one: torch._dynamo.mark_dynamic({name}, "
           "{axis}), or torch.compile(…, dynamic=True)."),
    Advice(r"^tensor '.+' size mismatch at index \d+\. ",
           "If this size changes from call to call, compile with torch.compile(…, dynamic=True)."),
    Advice(r"^tensor '(?P<name>(?!___).+)' rank mismatch",
           "A graph is for one number of axes: give `{name}` the same number in every call."),
    Advice(r"^tensor '(?P<name>(?!___).+)' dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)",
           "`{name}` was {old} and now is {new}: cast it before the call if that is not meant."),
    Advice(r"^tensor '(?P<name>(?!___).+)' stride mismatch",
           "`{name}` lies in memory in another way: call `.contiguous()` on it before the call if that is not meant."),
    Advice(r"^tensor '(?P<name>(?!___).+)' requires_grad mismatch",
           "`{name}` once needs a gradient and once does not, which takes a graph each: detach it, or always ask for "
           "one, if that is not meant."),
    Advice(r"^tensor '(?P<name>(?!___).+)' (?:Tensor )?device(?: index)? mismatch",
           "`{name}` is on another device, and there is a graph for each device."),
    Advice(r"^tensor '(?P<name>(?!___).+)' dispatch key set mismatch\. "
           r"expected DispatchKeySet\((?P<old>CPU|CUDA|Meta|XPU|MPS|HPU)\b.*, "
           r"actual DispatchKeySet\((?!(?P=old)\b)(?P<new>CPU|CUDA|Meta|XPU|MPS|HPU)\b",
           "`{name}` was on {old} and now is on {new}: there is a graph for each device."),
    Advice(r"^expected type of '(?P<name>(?!___).+)' to be (?:<class '[^']+'>,|a tensor type, ') "
           r"but found <class '(?P<new>[^']+)'>",
           "`{name}` now is a {new}, and there is a graph for each type of tensor."),
    Advice(r"^GLOBAL_STATE changed: grad_mode\s*$",
           "It is called with gradients and without (torch.no_grad or inference_mode), which takes a graph each."),
    Advice(r"^GLOBAL_STATE changed: autocast",
           "It is called with autocast and without, or with other settings of it, which takes a graph each."),
    Advice(r"^GLOBAL_STATE changed: num_threads\s*$",
           "torch.set_num_threads was called in between: set it once, before anything is compiled."),
    Advice(r"^GLOBAL_STATE changed: default_dtype\s*$",
           "torch.set_default_dtype was called in between: set it once, before anything is compiled."),
    Advice(r"\.training == (?:True|False)$",
           "train() or eval() was called in between: a graph for each mode is normal, to go to and fro is cheap."),
    Advice(r"considers integer attributes of the nn\.Module to be static",
           "An int attribute of a module is a constant of the graph: keep what changes in a buffer (a tensor), or set "
           "torch._dynamo.config.allow_unspec_int_on_nn_module = True."),
    Advice(r"^G\['(?P<name>[^']+)'\] == ",
           "The global `{name}` is a constant of the graph: pass what changes as an argument, as a tensor if it is a "
           "number."),
    Advice(r"^(?P<name>(?!___)[A-Za-z_]\w*) == -?\d+$" + OF_AN_ARGUMENT,
           "The int `{name}` is a constant of the graph until it changes. If it changes from call to call, compile "
           "with torch.compile(…, dynamic=True), or pass it as a tensor."),
    Advice(r"^(?P<name>(?!___)[A-Za-z_]\w*) == -?\d+(?:\.\d*)?(?:e[-+]?\d+)?$" + OF_AN_ARGUMENT,
           "The float `{name}` is a constant of the graph until it changes. If it changes from call to call, pass it "
           "as a tensor."),
    Advice(r"^(?P<name>(?!___)[A-Za-z_]\w*) (?:==|is) (?:True|False|None|'[^']*')$" + OF_AN_ARGUMENT,
           "There is a graph for each value of `{name}`: keep such arguments to few values."),
    Advice(r"^(?P<name>(?!___)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+) == ",
           "The attribute `{name}` is a constant of the graph: keep what changes in a tensor, or set it once."),
    Advice(r"^len\(.*\b_modules\b.*\) (?:==|!=) \d+$",
           "A module was added to a container, or taken out of it, after it was compiled."),
    Advice(r"^len\((?P<name>(?!___)[A-Za-z_][\w.]*)\) (?:==|!=) \d+$",
           "There is a graph for each length of `{name}`: pass one tensor (torch.stack, padding) or always as many."),
    Advice(r"^list\(dict\.keys\((?P<name>(?!___)[A-Za-z_][\w.]*)\)\)\[",
           "The keys of `{name}` are part of the graph: give it the same keys, in the same order, in every call."),
    Advice(r"^Duplicate tensors found: ",
           "The same tensor is passed for two arguments, which takes a graph of its own."),
    Advice(r"^___check_obj_id\((?P<name>(?!___)[A-Za-z_][\w.]*?)\.__code__, \d+\), "
           r"type=<(?:class 'code'>|code object )",
           "Another function is passed as `{name}`, and there is a graph for each function."),
    Advice(r"^___check_obj_id\((?P<name>(?!___)[A-Za-z_]\w*), \d+\), "
           r"type=<(?:class '(?:function|builtin_function_or_method)'>|built-in (?:function|method) |function )",
           "Another function is passed as `{name}`, and there is a graph for each function."),
    Advice(r"^___check_type_id\((?P<name>(?!___)[A-Za-z_][\w.]*), \d+\), type=<class '(?P<old>[^']+)'>",
           "`{name}` no longer is a {old}, and there is a graph for each type."),
    Advice(r"^BACKEND_MATCH failure",
           "The same function is compiled for two backends: give torch.compile the same backend object each time."),
    Advice(r"^___check_torch_function_mode_stack\(\)$",
           "A torch function mode was entered or left in between; torch.set_default_device is one."),
    Advice(r"_dynamo_\w*indices|_has_dynamo_dim_marking",
           "The tensor's axes were marked (mark_dynamic, mark_static) after the first call: mark them before it."),
    Advice(r"^[^#]*\.size\(\)\[\d+\]",
           "The code, or an operation, asks something of a size that once is true and once is not: there is a graph "
           "for each answer."),
)  # fmt: skip
"""Matched with the guard that failed as Dynamo words it, its hint, and "of an argument" if that is so, each on its own
line. The first row that matches counts; one without text keeps the rows below from matching."""

LIMIT = (
    "It runs uncompiled from now on. Cure what is recompiled for first; if so many graphs are meant, raise "
    "torch._dynamo.config.{setting}."
)


def for_break(reason: Reason, place: Place) -> str | None:
    text = "\n".join([reason.title, reason.explanation, reason.context, f"line: {place.code}"])
    found = _first(BREAKS, text)
    in_loop = IN_LOOP if reason.then == "graph break in loop" else ""
    return f"{found or ''}{in_loop}".strip() or None


def for_recompilation(words: str, is_whole_function: bool) -> str | None:
    """Advice for the guard that failed, in Dynamo's words and without the id before them.

    If a whole function is compiled again, and not the rest of one, then what the guard is about came from its caller.
    """
    guard = WITHOUT_COMMENT.sub("", words)
    hint = HINT.search(words)
    lines = [guard, hint[0] if hint else "", "of an argument" if is_whole_function else ""]
    return _first(RECOMPILATIONS, "\n".join(lines))


def for_limit(setting: str, cause: str | None) -> str:
    return " ".join(filter(None, [LIMIT.format(setting=setting), cause]))


def _first(rows: tuple[Advice, ...], text: str) -> str | None:
    for row in rows:
        found = re.search(row.pattern, text, re.MULTILINE)
        if found is not None:
            return row.text.format(**found.groupdict()) or None
    return None
