"""A quick run of a model on the meta device: which operations it makes, and with which numbers.

Made with other numbers, a model serves to explain the first only if it still makes the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchport.capture.rebuild import Inputs, Recipe
from torchport.capture.state import quiet
from torchport.capture.torch_internals import TorchDispatchMode, pytree

Operations = dict[str, set[tuple[str, ...]]]
"""The class of a module → what one of its calls does: its own operations, and its calls of others.

A list of layers that all do the same with the same numbers, one after another, counts once, so that it may be longer
or shorter. A sequence of one layer, which runs as a module, is that layer: code for several is other code.
"""


@dataclass(frozen=True)
class Trial:
    """What a model did in one run."""

    operations: Operations
    trace: list[object]
    """All shapes and numbers: two models that have the same are the same."""
    modules: int
    constants: list[torch.Tensor]
    """The values of the tensors that `forward` makes out of Python's lists."""


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Operations = {}
        self.trace: list[object] = []
        self.open: list[list[str | _Call]] = [[]]
        self.numbers: list[list[object]] = [[]]
        modules = dict(model.named_modules())
        self.lists = {
            module: name.rpartition(".")[0]
            for name, module in modules.items()
            if name.rpartition(".")[2].isdigit()
        }
        self.loose = {
            place for place in self.lists.values() if isinstance(modules[place], torch.nn.ModuleList)
        }
        """The lists that are no modules which run: one of one layer is written as a longer one is."""
        self.given: dict[int, tuple[str, int]] = {}
        """By identity, the tensors that layers of lists gave: the list, and how many had been called before."""
        self.called: dict[str, int] = {}
        """List → how many of its layers have been called."""
        self.kept: list[object] = []
        """What has an identity in `given`, which nothing else may take on."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        self.open[-1].append(str(func))
        self.open[-1] += self.early_reads((args, given))
        numbers = [leaf for leaf in pytree.tree_leaves((args, given)) if isinstance(leaf, int | float)]
        if func is torch.ops.aten._local_scalar_dense.default:
            if not args[0].is_meta:
                return func(*args, **given)
            # What a meta tensor holds is not known; models ask whether a mask is all ones.
            return True if args[0].dtype == torch.bool else 1
        result = func(*args, **given)
        shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.trace.append((str(func), numbers, shapes))
        self.numbers[-1] += [*numbers, *shapes]
        return result

    def early_reads(self, tree: Any) -> list[str | _Call]:
        """Which layers of lists gave what is read, but for the last of a list: code for that knows their number."""
        read: dict[str, set[int]] = {}
        for leaf in pytree.tree_leaves(tree):
            if isinstance(leaf, torch.Tensor) and id(leaf) in self.given:
                place, index = self.given[id(leaf)]
                read.setdefault(place, set()).add(index)
        found: list[str | _Call] = []
        for place, indices in read.items():
            count = self.called[place]
            if indices == set(range(count)) and count > 1:
                found.append(f"reads each of {place}")
            else:
                found += [f"reads {place} {i}, of {count}" for i in sorted(indices) if i < count - 1]
        return found

    def entered(self, module: torch.nn.Module, _: Any) -> None:
        self.open.append([])
        self.numbers.append([tuple(own.shape) for own in module.parameters(recurse=False)])

    def left(self, module: torch.nn.Module, _: Any, output: Any) -> None:
        own, place = self.open.pop(), self.lists.get(module)
        if len(self.open) == 1:
            own += self.early_reads(output)
        name, done, numbers = type(module).__qualname__, _with_lists(own, self.loose), self.numbers.pop()
        self.numbers[-1] += numbers
        self.operations.setdefault(name, set()).add(done)
        self.open[-1].append(_Call(f"{name} {hash(done)}", place, repr(numbers)))
        if place is not None:
            index = self.called.get(place, 0)
            self.called[place] = index + 1
            leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            self.given |= {id(leaf): (place, index) for leaf in leaves}
            self.kept.append(leaves)


class _Constants(TorchFunctionMode):
    """Notes the values of tensors that are made out of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        data = args[0] if args else given.get("data")
        if func in (torch.tensor, torch.as_tensor) and isinstance(data, int | float | list | tuple):
            self.values.append(func(*args, **{**given, "device": "cpu"}))
        return func(*args, **given)


@dataclass(frozen=True)
class _Call:
    """A call of a module by another: what it does, and the list that the module is in."""

    does: str
    list: str | None
    numbers: str
    """The numbers and shapes in it, as a text."""


def _with_lists(steps: list[str | _Call], loose: set[str]) -> tuple[str, ...]:
    """What a module does, in which the calls of a list count once if they all do the same."""
    in_lists: dict[str | None, list[tuple[str, str]]] = {}
    for step in steps:
        if isinstance(step, _Call):
            in_lists.setdefault(step.list, []).append((step.does, step.numbers))
    alike = {
        name
        for name, calls in in_lists.items()
        if name and (len(calls) > 1 or name in loose) and len(set(calls)) == 1
    }
    done: list[str] = []
    for step in steps:
        if isinstance(step, str):
            done.append(step)
        elif step.list not in alike:
            done.append(step.does)
        elif done[-1:] != [f"each {step.does}"]:
            done.append(f"each {step.does}")
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
            constants = _Constants()
            with recipe.on_meta(), torch.no_grad(), constants, watch:
                model(*args, **kwargs)
            for handle in hooks:
                handle.remove()
    except Exception as error:  # whatever the model's own code raises
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    count = sum(1 for _ in model.modules())
    return Trial(watch.operations, watch.trace, count, constants.values)
