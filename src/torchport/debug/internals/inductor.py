"""What `torchport_inductor` needs of Inductor: its own way from a graph to kernels, its settings and its traces."""

from __future__ import annotations

import difflib
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from torchport.debug.internals.aot import graphs_made_anew
from torchport.debug.internals.needs import Need
from torchport.errors import UsageError

_BACKEND, _TRACES = "torchport_inductor", "IR and kernels in artifacts"
NEEDS = (
    Need("compile_fx", "torch._inductor.compile_fx", "compile_fx", _BACKEND),
    Need("compile_fx_inner", "torch._inductor.compile_fx", "compile_fx_inner", _BACKEND),
    Need("Inductor's settings", "torch._inductor.config", "get_config_copy", _BACKEND),
    Need("Inductor's traces", "torch._inductor.config", "trace.enabled", _TRACES),
    Need("folder of traces", "torch._inductor.config", "trace.debug_dir", _TRACES),
    Need("Inductor's cache of graphs", "torch._inductor.config", "fx_graph_cache", _TRACES),
    Need("files of Inductor's cache", "torch._inductor.codecache", "get_path", _TRACES),
    Need(
        "graphs that Inductor made", "torch._inductor.output_code", "CompiledFxGraph", "checks of free sizes"
    ),
    Need("log of traces", "torch._inductor.debug", "log", _TRACES),
)
Compiled = Callable[..., Any]


class CompileGraph(Protocol):
    """Compiles a graph of ATen operations; what it is given beside graph and inputs is Inductor's affair."""

    def __call__(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **settings: Any
    ) -> Any: ...


def compile_like_inductor(
    module: torch.fx.GraphModule, inputs: Sequence[Any], inner: CompileGraph, settings: Mapping[str, Any]
) -> Compiled:
    """A graph of Dynamo's, compiled as torch.compile's own "inductor" does, but with `inner` for its ATen graphs.

    AOTAutograd runs once, within. The module is Inductor's from here on, which changes it.
    """
    from torch._inductor.compile_fx import compile_fx

    with graphs_made_anew():
        compiled: Any = compile_fx(module, inputs, inner_compile=inner, config_patches=dict(settings) or None)
    return cast(Compiled, compiled)


def compile_to_kernels(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **settings: Any
) -> Any:
    """What Inductor makes of a graph of ATen operations."""
    from torch._inductor.compile_fx import compile_fx_inner

    return compile_fx_inner(module, inputs, *args, **settings)  # type: ignore[arg-type]


def compile_with_traces(
    folder: Path, module: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **settings: Any
) -> Any:
    """The same, compiled anew whatever is in Inductor's caches, with its trace files under a folder."""
    with _traces_in(folder):
        compiled = compile_to_kernels(module, inputs, *args, **settings)
    _remove_copy_of_traces(compiled)
    return compiled


def watch_calls(compiled: Any, call: Callable[[Sequence[Any]], AbstractContextManager[None]]) -> None:
    """Each call of a graph that Inductor has compiled is run within what `call` gives for its inputs."""
    work = getattr(compiled, "current_callable", None)
    if work is None:
        return

    def run(inputs: Sequence[Any]) -> Any:
        with call(inputs):
            return work(inputs)

    compiled.current_callable = run


@contextmanager
def _traces_in(folder: Path) -> Iterator[None]:
    """Within, Inductor leaves its trace files under a folder, without a word of that in the log."""
    from torch._inductor import config, debug

    def is_of_others(record: logging.LogRecord) -> bool:
        return str(folder) not in record.getMessage()

    settings = {
        "trace.enabled": True,
        "trace.debug_dir": str(folder),
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
    }
    debug.log.addFilter(is_of_others)
    try:
        with config.patch(settings):
            yield
    finally:
        debug.log.removeFilter(is_of_others)


def _remove_copy_of_traces(compiled: Any) -> None:
    """Removes the copy of the trace files that Inductor makes beside the code in its cache."""
    from torch._inductor.codecache import get_path

    key = getattr(compiled, "cache_key", None)
    if isinstance(key, str):
        code = Path(get_path(key, "py")[2])
        shutil.rmtree(code.with_suffix(".debug"), ignore_errors=True)
        code.with_suffix(".debug.lock").unlink(missing_ok=True)


def settings_of(mode: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Inductor's settings, from what torch.compile was given as mode and options."""
    from torch._inductor import config, list_mode_options

    settings = dict(list_mode_options(mode)) if mode is not None else {}
    known = config.get_config_copy()
    for name, value in options.items():
        setting = name.replace("-", "_")
        if setting not in known:
            near = difflib.get_close_matches(setting, known, n=1)
            fix = f"Did you mean {near[0]}?" if near else None
            raise UsageError("TP1011", f"there is no option {name}", fix=fix)
        settings[setting] = value
    return settings
