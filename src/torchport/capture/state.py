"""Leaving no trace on a model: what a run changes of it is put back, and the noise of a run is kept down."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch.utils import _pytree as pytree

_TABLES = ("_parameters", "_buffers", "_modules")
"""Dicts inside a module that are put back in place, because others may hold on to them."""


@contextmanager
def as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode and the plain attention path inside; afterwards mode, state and randomness are as before."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    devices = {p.device for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=[d.index for d in devices]), state_kept(model):
        try:
            model.eval()
            torch.backends.mha.set_fastpath_enabled(False)
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


@contextmanager
def state_kept(model: torch.nn.Module) -> Iterator[None]:
    """Puts back buffers, by name and by value, and the attributes of every module."""
    attributes = [(module, _snapshot(module)) for module in model.modules()]
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not buffer.is_meta]
    try:
        yield
    finally:
        for module, saved in attributes:
            _put_back(module, saved)
        with torch.no_grad():
            for buffer, value in values:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


def _snapshot(module: torch.nn.Module) -> dict[str, Any]:
    return {
        name: (value, dict(value)) if name in _TABLES and isinstance(value, dict) else value
        for name, value in vars(module).items()
    }


def _put_back(module: torch.nn.Module, saved: dict[str, Any]) -> None:
    own = vars(module)
    for name in own.keys() - saved.keys():
        del own[name]
    for name, value in saved.items():
        if isinstance(value, tuple) and name in _TABLES:
            table, content = value
            table.clear()
            table.update(content)
            value = table
        own[name] = value


def copied(tree: Any) -> Any:
    """The same inputs in memory of their own, so that a forward that writes to them does no harm."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), tree)


@contextmanager
def quiet() -> Iterator[None]:
    """torch.export tells of its troubles at length; what matters of that is in the error that it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
