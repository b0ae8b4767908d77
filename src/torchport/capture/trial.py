"""A quick run of a model on the meta device: which operations it makes, and with which numbers.

Made with other numbers, a model serves to explain the first only if it still makes the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture.rebuild import Inputs, Recipe
from torchport.capture.state import quiet
from torchport.capture.torch_internals import TorchDispatchMode, pytree

Operations = dict[str, set[tuple[str, ...]]]
"""The class of a module → what one of its calls does: its own operations, and its calls of others.

A list of layers that all do the same counts once, so that it may be longer or shorter.
"""


@dataclass(frozen=True)
class Trial:
    """What a model did in one run."""

    operations: Operations
    trace: list[object]
    """All shapes and numbers: two models that have the same are the same."""
    modules: int


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Operations = {}
        self.trace: list[object] = []
        self.open: list[list[str | _Call]] = [[]]
        self.lists = {
            module: name.rpartition(".")[0]
            for name, module in model.named_modules()
            if name.rpartition(".")[2].isdigit()
        }

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        self.open[-1].append(str(func))
        numbers = [leaf for leaf in pytree.tree_leaves((args, given)) if isinstance(leaf, int | float)]
        if func is torch.ops.aten._local_scalar_dense.default:
            # What a meta tensor holds is not known; models ask whether a mask is all ones.
            return True if args[0].dtype == torch.bool else 1
        result = func(*args, **given)
        shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.trace.append((str(func), numbers, shapes))
        return result

    def entered(self, module: torch.nn.Module, _: Any) -> None:
        self.open.append([])

    def left(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        name, done = type(module).__qualname__, _with_lists(self.open.pop())
        self.operations.setdefault(name, set()).add(done)
        self.open[-1].append(_Call(f"{name} {hash(done)}", self.lists.get(module)))


@dataclass(frozen=True)
class _Call:
    """A call of a module by another: what it does, and the list that the module is in."""

    does: str
    list: str | None


def _with_lists(steps: list[str | _Call]) -> tuple[str, ...]:
    """What a module does, in which the calls of a list count once if they all do the same."""
    in_lists: dict[str | None, set[str]] = {}
    for step in steps:
        if isinstance(step, _Call):
            in_lists.setdefault(step.list, set()).add(step.does)
    done: list[str] = []
    for step in steps:
        if isinstance(step, str):
            done.append(step)
        elif step.list is None or len(in_lists[step.list]) > 1 or done[-1:] != [f"each {step.does}"]:
            is_each = step.list is not None and len(in_lists[step.list]) == 1
            done.append(f"each {step.does}" if is_each else step.does)
    return tuple(done)


def construct(recipe: Recipe, numbers: Mapping[str, int | float]) -> int | None:
    """The number of modules of the model with these numbers; None if it cannot be made."""
    try:
        with quiet():
            return sum(1 for _ in recipe.made(numbers)[0].modules())
    except Exception:  # whatever the model's own code raises
        return None


def attempt_run(recipe: Recipe, numbers: Mapping[str, int | float], inputs: Inputs) -> Trial | str:
    """What the model with these numbers does, or why it cannot be run."""
    try:
        with quiet():
            model, own = recipe.made(numbers)
            args, kwargs = own or inputs
            watch = _Watch(model)
            watch.trace += [tuple(tensor.shape) for tensor in model.state_dict(keep_vars=True).values()]
            hooks = [
                handle
                for module in model.modules()
                for handle in (
                    module.register_forward_pre_hook(watch.entered),
                    module.register_forward_hook(watch.left),
                )
            ]
            with torch.device("meta"), torch.no_grad(), watch:
                model(*args, **kwargs)
            for handle in hooks:
                handle.remove()
    except Exception as error:  # whatever the model's own code raises
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return Trial(watch.operations, watch.trace, sum(1 for _ in model.modules()))
