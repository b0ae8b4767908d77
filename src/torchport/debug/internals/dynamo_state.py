"""What Dynamo keeps between calls: compiled code, resume functions, and which sizes have changed before."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

import torch

from torchport.debug.internals import dynamo_guards
from torchport.debug.internals.dynamo_records import RawEntry
from torchport.debug.internals.needs import Need

NEEDS = (
    Need("cache entries", "torch._C._dynamo.eval_frame", "_debug_get_cache_entry_list",
         "guards: functions that were compiled before"),
    Need("forgetting", "torch._C._dynamo.eval_frame", "reset_code",
         "guards: an inspection leaves nothing behind in functions that were not compiled before"),
    Need("execution strategy", "torch._C._dynamo.eval_frame", "set_code_exec_strategy",
         "guards: a function that an inspection makes Dynamo give up is compiled again afterwards"),
    Need("resume functions", "torch._dynamo.resume_execution", "ContinueExecutionCache.generated_code_metadata",
         "guards: the function that a resume function belongs to"),
    Need("profile", "torch._dynamo.pgo", "_CODE_STATE",
         "guards: an inspection does not know which sizes have changed before"),
)  # fmt: skip


def innermost_backend(compiler: Any) -> Any:
    """The backend that a user gave to torch.compile, inside of what torch wraps around it."""
    while hasattr(compiler, "_torchdynamo_orig_backend"):
        compiler = compiler._torchdynamo_orig_backend
    return compiler


def backend_name(compiler: Any) -> str:
    compiler = innermost_backend(compiler)
    compiler = getattr(compiler, "compiler_fn", compiler) if not _own_name(compiler) else compiler
    return _own_name(compiler) or type(compiler).__name__


def named_backend(compiler: Any) -> Any:
    """The name of a backend, if torch has one of that name; otherwise the backend itself, as the user gave it."""
    name = backend_name(compiler)
    if name in torch._dynamo.list_backends(exclude_tags=()):  # type: ignore[no-untyped-call]
        return name
    compiler = innermost_backend(compiler)
    return getattr(compiler, "compiler_fn", compiler)


def _own_name(compiler: Any) -> str:
    """The name of a backend; "" if it is an object without one, which torch names by its address."""
    name = str(getattr(compiler, "compiler_name", None) or getattr(compiler, "__name__", ""))
    return "" if " object at 0x" in name else name


def _entries(code: CodeType) -> list[Any]:
    try:
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    except ImportError:
        return []
    return list(_debug_get_cache_entry_list(code))


def has_entries(code: CodeType) -> bool:
    return bool(_entries(code))


def entries(code: CodeType) -> list[RawEntry]:
    """The compiled code of a function and of its resume functions, the oldest first."""
    found = [_entry(part, one) for part in (code, *resume_functions(code)) for one in _entries(part)]
    return sorted(found, key=lambda one: [int(number) for number in one.compile_id.split("/")[-2:]])


def _entry(code: CodeType, entry: Any) -> RawEntry:
    return RawEntry(
        compile_id=str(entry.compile_id),
        code=code,
        backend=backend_name(entry.backend),
        has_graph=any(name.startswith("__compiled_fn") for name in entry.code.co_names),
        guards=dynamo_guards.checked(entry.guard_manager, []),
    )


def compiled_for(backend: Any, entries: Any) -> set[str]:
    """The ids of the compilations for a backend, of a list of cache entries or of a chain of them (torch 2.11)."""
    backend = innermost_backend(backend)
    return {str(one.compile_id) for one in _each(entries) if innermost_backend(one.backend) == backend}


def _each(entries: Any) -> Iterator[Any]:
    if isinstance(entries, list):
        yield from entries
        return
    while entries is not None:
        yield entries
        entries = entries.next


def resume_functions(code: CodeType) -> list[CodeType]:
    """The code of the functions in which a function goes on after its breaks."""
    try:
        from torch._dynamo.resume_execution import ContinueExecutionCache
    except ImportError:
        return []
    if code not in ContinueExecutionCache.cache:
        return []
    made = ContinueExecutionCache.cache[code].values()
    return list(dict.fromkeys(one for part in made for one in (part, *resume_functions(part))))


def original_code(code: CodeType) -> CodeType:
    """The user's code that a resume function was made of; any other code as it is."""
    try:
        from torch._dynamo.resume_execution import ContinueExecutionCache
    except ImportError:
        return code
    known = ContinueExecutionCache.generated_code_metadata
    while code in known:
        code = known[code].code
    return code


def forget(codes: Iterable[CodeType]) -> None:
    """Removes all that Dynamo keeps of these codes."""
    try:
        from torch._C._dynamo.eval_frame import reset_code
        from torch._dynamo.convert_frame import compile_lock
    except ImportError:
        return
    with compile_lock:
        for code in codes:
            reset_code(code)


def run_again(codes: Iterable[CodeType]) -> None:
    """Lets Dynamo look at these codes as before, should it have given them up in the meantime."""
    try:
        from torch._C._dynamo import eval_frame
    except ImportError:
        return
    usual = eval_frame._FrameAction.DEFAULT
    for code in codes:
        eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(usual, usual))


class _Profile:
    """Dynamo's memory of sizes that have changed; a fresh one is lent to all who ask at the same time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.borrowers = 0
        self.undo = ExitStack()

    def borrow(self) -> None:
        with self.lock:
            self.borrowers += 1
            if self.borrowers == 1:
                self.undo = _replaced_profile()

    def give_back(self) -> None:
        with self.lock:
            self.borrowers -= 1
            if self.borrowers == 0:
                self.undo.close()


_profile = _Profile()


@contextmanager
def fresh_profile() -> Iterator[None]:
    """Within, Dynamo knows of no size that has changed before, and writes no profile; afterwards all is as it was."""
    _profile.borrow()
    try:
        with torch._dynamo.config.patch(_without_profiles_on_disk()):
            yield
    finally:
        _profile.give_back()


def _replaced_profile() -> ExitStack:
    """Puts an empty profile in place. To close the stack puts the other back."""
    undo = ExitStack()
    try:
        from torch._dynamo import pgo

        empty: Any = defaultdict(pgo.CodeState)
    except (ImportError, AttributeError):
        return undo
    undo.callback(setattr, pgo, "_CODE_STATE", getattr(pgo, "_CODE_STATE", None))
    pgo._CODE_STATE = empty
    return undo


def _without_profiles_on_disk() -> dict[str, bool]:
    names = ("automatic_dynamic_local_pgo", "automatic_dynamic_remote_pgo")
    return {name: False for name in names if hasattr(torch._dynamo.config, name)}


def uncompiled(function: Any) -> Any | None:
    """The function or module that `torch.compile` was given to make this one; None if it is not compiled."""
    if isinstance(function, torch.nn.Module):
        inner = getattr(function, "_orig_mod", None)
        if inner is not None:
            return inner
        return function if getattr(function, "_compiled_call_impl", None) is not None else None
    return getattr(function, "_torchdynamo_orig_callable", None)


class OneInspection:
    """A backend that is equal to no other, so that nothing compiled before is taken for its own."""

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        from torch._dynamo.backends.registry import lookup_backend

        self.compiler: Any = lookup_backend(backend)
        self.compiler_name = backend if isinstance(backend, str) else backend_name(backend)
        self.__name__ = self.compiler_name

    def __call__(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Any:
        return self.compiler(module, inputs, **options)
