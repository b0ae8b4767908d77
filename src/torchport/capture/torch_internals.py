"""All that capture takes from private parts of torch, so that a new version of torch is met in one place.

Works with torch 2.11 to 2.15. What is needed of each part:

- `torch.utils._pytree`: `tree_flatten`, `tree_unflatten`, `tree_leaves`, `tree_map_only`, `tree_flatten_with_path`
  and `keystr`. torch.export itself speaks in its terms, and there is no public form of it.
- `torch._ops`: the classes of what `torch.ops.aten.gelu`, `torch.ops.aten.gelu.default` and torch.cond's operation are.
- `torch.utils._python_dispatch`: `TorchDispatchMode` to see operations before they run, and `_disable_current_modes` to
  compute something that they do not see.
- `torch.fx.experimental.proxy_tensor.make_fx` with `pre_dispatch` and `_allow_non_fake_inputs`.
- `SymInt.node`: `expr`, and `shape_env` of the environment that the size is of: `bound_sympy` has the limits of a size,
  `guards` what was found out about sizes, each with the line (`sloc`), `replace` puts the known sizes into that.
- `torch.utils._sympy.solve.try_solve`: which sizes fulfil an inequality.
- `torch.fx.experimental.symbolic_shapes.ShapeEnv`: `_set_replacement`, which is called when a free size turns out to be
  a number, and `var_to_sources`, which says of which input it is. Without them, nobody knows why.
- `torch._dispatch.python.enable_python_dispatcher`: decompositions that are written in Python take part in a trace.
- `torch._subclasses.FakeTensorMode`: shapes and strides of what an operation gives, without computing it.
- `torch._guards`: `tracing(None)` to step out of a compilation that is going on, `detect_fake_mode`.
- `torch.fx.traceback.preserve_node_meta`: a graph that is traced again keeps the user's lines.
- `torch.fx.proxy.TracerBase._filter_traceback_frames`, which is there to be overridden: torch.export keeps the lines of
  `forward` alone, and drops those of the functions that a `forward` calls. Without it, an operation has the line of the
  call.
- `torch._decomp.get_decompositions`: an operation as others that it is made of; `global_decomposition_table` has all.
- `torch._higher_order_ops.associative_scan.generic_associative_scan`: the order in which torch combines elements.
- `torch.autograd.grad_mode._unsafe_preserve_version_counter`: what is put back counts as never written to.
- `torch._C._functorch`: `peek_interpreter_stack` and `is_functorch_wrapped_tensor`, which tell whether a transform of
  torch.func, such as `vmap`, is at work.
- `torch._C`: `_dispatch_get_all_op_names` and `_dispatch_has_kernel_for_dispatch_key`, which know every operation,
  `_set_grad_enabled`, which stands in graphs as an operation, `_is_any_autocast_enabled`, and
  `DisableTorchFunction` and `_DisableTorchDispatch`, which keep what is computed within from all modes, and
  `_EnableTorchFunction` and `_SetExcludeDispatchKeyGuard`, which do not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from traceback import FrameSummary, StackSummary
from typing import Any, Literal, NamedTuple

import sympy
import torch
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
from torch._decomp import get_decompositions, global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode, tracing
from torch._higher_order_ops.associative_scan import generic_associative_scan
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses import FakeTensorMode
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._sympy.solve import try_solve

from torchport.capture.source import is_of_python

__all__ = [
    "FakeTensorMode",
    "FixedSize",
    "Guard",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "TorchDispatchMode",
    "alternatives_of",
    "associative_scan",
    "aten_names",
    "decomposition_tables",
    "decompositions",
    "eps_of_rms_norm",
    "guards_of",
    "is_autocast_on",
    "is_composite",
    "is_grad_mode",
    "is_in_transform",
    "is_of_transform",
    "limits_of",
    "lines_of_helpers_kept",
    "modes_again",
    "plain_torch",
    "preserve_node_meta",
    "pytree",
    "sizes_fixed",
    "storage_id",
    "trace_to_aten",
    "versions_kept",
    "without_modes",
]

without_modes = _disable_current_modes
"""Within, no mode that changes operations is on, such as one that widens or rounds them."""


@contextmanager
def lines_of_helpers_kept(is_helper: Callable[[str, str], bool]) -> Iterator[None]:
    """Within, what torch.export traces has also the lines of functions that a `forward` calls, behind its own.

    `is_helper` says of a file, and of that of the innermost `forward`, whether the lines in the one are kept.
    """
    tracer, name = torch.fx.proxy.TracerBase, "_filter_traceback_frames"
    original = getattr(tracer, name, None)
    if original is None:
        yield
        return

    def kept(self: Any, summary: StackSummary) -> StackSummary:
        frames: StackSummary = original(self, summary)
        forward = max((place for place, frame in enumerate(summary) if frame.name == "forward"), default=None)
        if not frames or forward is None or not getattr(self, "_record_forward_stack_traces_only", False):
            return frames
        helpers = [
            one for one in summary[forward + 1 :] if is_helper(one.filename, summary[forward].filename)
        ]
        return StackSummary.from_list([*frames, *helpers])

    setattr(tracer, name, kept)
    try:
        yield
    finally:
        setattr(tracer, name, original)


def decompositions(operations: Sequence[OpOverloadPacket]) -> dict[OpOverload, Callable[..., Any]]:
    """For each overload of some operations that torch can take apart, the function that does."""
    found: dict[OpOverload, Callable[..., Any]] = dict(get_decompositions(list(operations)))  # type: ignore[arg-type]
    return found


def aten_names() -> list[str]:
    """The full names of all overloads of ATen that this torch has."""
    known: list[str] = torch._C._dispatch_get_all_op_names()
    parts = (name.removeprefix("aten::").partition(".") for name in known if name.startswith("aten::"))
    return sorted({f"aten.{base}.{form or 'default'}" for base, _, form in parts})


def is_composite(name: str) -> bool:
    """Whether ATen itself writes an operation in others, so that every trace has these instead."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(
        name.replace(".", "::", 1).removesuffix(".default"), "CompositeImplicitAutograd"
    )


class plain_torch:
    """Within, operations are done as they are, whatever modes are on; faster than `without_modes`."""

    def __enter__(self) -> None:
        self._both: tuple[Any, ...] = (torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch())
        for one in self._both:
            one.__enter__()

    def __exit__(self, *raised: object) -> None:
        for one in reversed(self._both):
            one.__exit__(None, None, None)


@contextmanager
def modes_again() -> Iterator[None]:
    """Within `plain_torch`, what the modes outside of it do is done again: code of the model runs."""
    keys = torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot
    with torch._C._EnableTorchFunction(), ExitStack() as stack:
        for key in keys:
            stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


def associative_scan(
    combine: Callable[..., list[torch.Tensor]],
    xs: Sequence[torch.Tensor],
    closed_over: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """The running combinations of elements along the first axis, combined in the order that eager torch takes."""
    if len(xs[0]) < 2:
        return list(xs)
    scan: Callable[..., list[torch.Tensor]] = generic_associative_scan
    return scan(combine, xs, additional_inputs=tuple(closed_over))


def eps_of_rms_norm(dtype: torch.dtype) -> float:
    """The eps that torch takes if a norm has none: it computes narrower floats in float32."""
    return min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def storage_id(tensor: torch.Tensor) -> int:
    """A number that tensors have in common if and only if they share memory, also on the meta device."""
    return int(tensor.untyped_storage()._cdata)


def versions_kept(tensors: Iterable[torch.Tensor]) -> AbstractContextManager[None]:
    """Afterwards autograd takes the tensors for unwritten: their values must be what they were before."""
    counting = tuple(tensor for tensor in tensors if not tensor.is_inference())
    kept: AbstractContextManager[None] = _unsafe_preserve_version_counter(counting)
    return kept


def is_grad_mode(target: object) -> bool:
    """Whether a node's target only turns gradients on or off."""
    return target is torch._C._set_grad_enabled


def limits_of(size: torch.SymInt) -> tuple[Any, Any]:
    """The least and the largest value that tracing allows a symbolic size, as sympy expressions."""
    environment: Any = size.node.shape_env
    bounds = environment.bound_sympy(size.node.expr)
    return bounds.lower, bounds.upper


class Guard(NamedTuple):
    """What tracing found out about free sizes, and took for granted from then on."""

    relation: Any
    """A sympy relation over torch's symbols."""
    is_limit: bool
    """Whether the limits of a size say the same."""
    line: str | None


_TORCH = os.path.dirname(torch.__file__) + os.sep
_SHAPE_FUNCTIONS = tuple(
    _TORCH + name
    for name in (
        "_prims",
        "_refs",
        "_subclasses",
        "_decomp",
        "_meta_registrations",
        f"fx{os.sep}",
        # These two call operations and modules, and compare nothing: what did is written in C++.
        "_ops.py",
        os.path.join("nn", "modules", "module.py"),
    )
)
_CLAMPING = frozenset({"_compute_slice_index"})
"""Functions of torch that find the shape of a result, which is another where their guards do not hold."""


def guards_of(values: Iterable[object]) -> Iterator[Guard]:
    """What tracing found out about the free sizes of example inputs, once for each fact.

    torch's functions that find shapes and strides have guards of their own: that a size is not 0 or 1, that memory is
    contiguous, that an operation does not fail. These are left out.
    """
    sizes: Iterator[Any] = (
        size for value in values if isinstance(value, torch.Tensor) for size in value.shape
    )
    environment: Any = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    seen = set()
    for guard in () if environment is None else list(environment.guards):
        relation = environment.replace(guard.expr)
        place, function = _place_of(guard.sloc)
        is_of_shapes = (place or "").startswith(_SHAPE_FUNCTIONS) and function not in _CLAMPING
        if relation in (sympy.true, True) or relation in seen or is_of_shapes:
            continue
        seen.add(relation)
        line = None if place is None or place.startswith(_TORCH) else place
        for part in sympy.And.make_args(sympy.to_cnf(relation)):
            yield Guard(part, _is_limit(part), line)


def alternatives_of(relation: Any) -> tuple[Any, ...]:
    """The relations of which one must hold, if there are several."""
    found: tuple[Any, ...] = sympy.Or.make_args(relation)
    return found


def _place_of(location: Any) -> tuple[str | None, str | None]:
    """The file and line of the code that guarded, and its function."""
    frame: Any = getattr(location, "framework_loc", None)
    is_known = isinstance(frame, FrameSummary)
    return (f"{frame.filename}:{frame.lineno}", frame.name) if is_known else (None, None)


def _is_limit(relation: Any) -> bool:
    """Whether an inequality says no more than that one size is within limits, which tracing then knows."""
    if len(relation.free_symbols) != 1 or isinstance(relation, sympy.Eq | sympy.Ne | sympy.Or):
        return False
    solved = try_solve(relation, next(iter(relation.free_symbols)))
    return solved is not None and bool(solved[1].is_Integer)


def is_in_transform() -> bool:
    """Whether a transform of torch.func, such as `vmap`, is at work: its tensors have no values of their own."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_of_transform(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one that a transform of torch.func gives to the function that it runs."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def is_autocast_on() -> bool:
    """Whether operations are cast to another dtype at present, on any device."""
    return bool(torch._C._is_any_autocast_enabled())


def trace_to_aten(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    pre_dispatch: bool,
    interpreter: Callable[[torch.fx.GraphModule], torch.fx.Interpreter] = torch.fx.Interpreter,
) -> torch.fx.GraphModule:
    """The ATen operations that a graph runs on inputs, which may be fake tensors with symbolic sizes.

    With `pre_dispatch`, operations such as `linear` stay whole, and those in place stay in place. Without it, they are
    functionalised and broken down as far as autograd does. `interpreter` runs the graph for the trace.
    """

    mode: Literal["symbolic", "fake"] = "symbolic" if any(map(_has_symbols, inputs)) else "fake"

    def trace(graph: torch.fx.GraphModule, functional: bool) -> torch.fx.GraphModule:
        def run(*args: Any) -> Any:
            with preserve_node_meta():
                return interpreter(graph).run(*args)

        traced: Callable[..., Any] = torch.func.functionalize(run, remove="mutations") if functional else run
        make = make_fx(traced, tracing_mode=mode, pre_dispatch=pre_dispatch, _allow_non_fake_inputs=True)
        return make(*inputs)

    with tracing(None), torch.no_grad(), enable_python_dispatcher(), _real_tensors_allowed(inputs):
        whole = trace(module, functional=False)
        # Operations that hide what they write to, such as batch_norm, say so once they are broken down.
        return whole if pre_dispatch else trace(whole, functional=True)


def _has_symbols(value: Any) -> bool:
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return any(isinstance(size, torch.SymInt) for size in sizes)


@contextmanager
def _real_tensors_allowed(inputs: Sequence[Any]) -> Iterator[None]:
    """Within, fake inputs may meet the real tensors that a graph holds."""
    mode = detect_fake_mode(inputs)
    if mode is None:
        yield
        return
    before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = before


class FixedSize(NamedTuple):
    """A size that was left free, and turned out to be a number."""

    input: str
    """The name of the input, with the names or numbers of what is inside."""
    axis: int
    line: str | None
    """The user's line that fixed it; None if that is not known."""


_INDEX = re.compile(r"\['?([^'\]]*)'?\]")


@contextmanager
def sizes_fixed() -> Iterator[list[FixedSize]]:
    """Within, the list gets every free size of a capture that torch takes for a number."""
    found: list[FixedSize] = []
    usual = getattr(symbolic_shapes.ShapeEnv, "_set_replacement", None)
    if usual is None:
        yield found
        return

    def noting(env: Any, symbol: Any, value: Any, *rest: Any, **options: Any) -> Any:
        if getattr(value, "is_Integer", False):
            line = _running_line()
            for source in getattr(env, "var_to_sources", {}).get(symbol, ()):
                name, axis = (
                    getattr(getattr(source, "base", None), "name", None),
                    getattr(source, "idx", None),
                )
                text = name() if callable(name) else name
                if isinstance(text, str) and isinstance(axis, int):
                    found.append(FixedSize(".".join(_INDEX.findall(text)), axis, line))
        return usual(env, symbol, value, *rest, **options)

    symbolic_shapes.ShapeEnv._set_replacement = noting  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        symbolic_shapes.ShapeEnv._set_replacement = usual  # type: ignore[method-assign,assignment]


def _running_line() -> str | None:
    """The innermost line that runs now and is neither torch's nor Python's; None if there is none in the model."""
    frame = sys._getframe(2)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        file = frame.f_code.co_filename
        if package == "torchport":
            return None
        if package != "torch" and not file.startswith("<") and not is_of_python(file):
            return f"{file}:{frame.f_lineno}"
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def decomposition_tables() -> list[dict[Any, Callable[..., Any]]]:
    """Torch's tables of what operations are made of, by which it also finds shapes."""
    return list(global_decomposition_table.values())
