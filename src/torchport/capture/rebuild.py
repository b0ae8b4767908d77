"""How a model is made again with other numbers: from its config, its constructor's arguments, or its factory.

In: a model and its inputs. Out: a `Recipe`, if the same model comes out of it when no number is changed. All is made
on the meta device, so that it costs no memory.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchport.capture.eager import as_arguments
from torchport.capture.fields import numbers_of, plain_numbers, values_of, with_numbers
from torchport.capture.origin import origin_of
from torchport.capture.random_numbers import random_numbers_kept
from torchport.capture.torch_internals import pytree

Numbers = Mapping[str, int | float]
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """A way to make a model. `fields` are the plain numbers, and lists of numbers, that it is made from."""

    fields: dict[str, Any]
    make: Callable[[dict[str, Any]], tuple[torch.nn.Module, Inputs | None]]
    """Makes the model with other fields; a factory gives the inputs, too."""
    keeps_scalars: bool = True
    """Whether tensors that are one number have their value, although all else is on the meta device."""

    @property
    def numbers(self) -> dict[str, int | float]:
        return numbers_of(self.fields)

    def made(self, numbers: Numbers) -> tuple[torch.nn.Module, Inputs | None]:
        with self.on_meta():
            model, inputs = self.make(with_numbers(self.fields, numbers))
        return model.eval(), inputs

    @contextmanager
    def on_meta(self) -> Iterator[None]:
        """Within, tensors are made on the meta device."""
        with torch.device("meta"), _ScalarsKept() if self.keeps_scalars else nullcontext():
            yield


class _ScalarsKept(TorchFunctionMode):
    """Makes tensors of one number where they have a value; torch lets them be beside tensors of other devices."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        data = args[0] if args else given.get("data")
        if func in (torch.tensor, torch.as_tensor) and isinstance(data, int | float):
            given["device"] = "cpu"
        return func(*args, **given)


def find_recipe(model: torch.nn.Module) -> Recipe | str:
    """How a model can be made again, or why it cannot."""
    reason = "neither a config nor a constructor's arguments say what it is made from"
    for recipe in _recipes(model):
        if not recipe.numbers:
            continue
        try:
            again, _ = recipe.made({})
        except Exception as error:  # whatever the model's own code raises
            reason = f"it cannot be made again: {type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        if _build(again) == _build(model):
            return recipe
        reason = "what is made from the same numbers is another model"
    return reason


def sizes_of(model: torch.nn.Module) -> dict[str, Any]:
    """The numbers that a model is made from, as `Recipe.fields` has them; none if it cannot be made again."""
    with random_numbers_kept(model):
        recipe = find_recipe(model)
    return {} if isinstance(recipe, str) else recipe.fields


def _build(model: torch.nn.Module) -> list[tuple[str, object]]:
    """Classes and shapes: what two models that are made from the same numbers have in common."""
    modules: list[tuple[str, object]] = [
        (name, f"{type(module).__module__}.{type(module).__qualname__}")
        for name, module in model.named_modules()
    ]
    return modules + [(name, tensor.shape) for name, tensor in model.state_dict(keep_vars=True).items()]


def _recipes(model: torch.nn.Module) -> Iterator[Recipe]:
    origin = origin_of(model)
    if origin.factory is not None:
        yield _of_factory(origin.factory)
    config = getattr(model, "config", None)
    if config is not None and not isinstance(config, torch.nn.Module):
        yield Recipe(
            plain_numbers(values_of(config)),
            lambda fields: (type(model)(_with_fields(config, fields)), None),
        )
    arguments = origin.arguments or _arguments_kept(model)
    if arguments:
        yield _of_arguments(type(model), arguments)


def _of_factory(factory: Callable[..., Any]) -> Recipe:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.default is not parameter.empty
    }

    def make(fields: dict[str, Any]) -> tuple[torch.nn.Module, Inputs]:
        model, args, *rest = factory(**fields)
        return model, (as_arguments(args), dict(rest[0]) if rest else {})

    return Recipe(plain_numbers(defaults), make)


def _of_arguments(kind: type[torch.nn.Module], arguments: dict[str, Any]) -> Recipe:
    """The arguments are numbers, or one of them is an object that holds numbers."""
    holders = {name: plain_numbers(values_of(value)) for name, value in arguments.items() if _holds(value)}
    if len(holders) == 1 and not plain_numbers(arguments):
        ((name, fields),) = holders.items()
        return Recipe(
            fields, lambda new: (kind(**{**arguments, name: _with_fields(arguments[name], new)}), None)
        )
    return Recipe(plain_numbers(arguments), lambda new: (kind(**{**arguments, **new}), None))


def _holds(value: object) -> bool:
    """Whether an argument is an object with numbers, such as a dataclass."""
    is_class = isinstance(value, type | torch.nn.Module | torch.Tensor) or callable(value)
    return not is_class and hasattr(value, "__dict__") and bool(plain_numbers(values_of(value)))


def _arguments_kept(model: torch.nn.Module) -> dict[str, Any] | None:
    """The arguments of a model's constructor, if it keeps them under their names."""
    found = {}
    try:
        parameters = list(inspect.signature(type(model)).parameters.values())
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        value = vars(model).get(parameter.name, parameter.default)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if value is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            return None
        found[parameter.name] = value
    return found


def _with_fields(config: Any, fields: dict[str, Any]) -> Any:
    """A copy of a config object with other fields."""
    if isinstance(config, Mapping):
        return {**config, **fields}
    other = {name: value for name, value in fields.items() if getattr(config, name, None) != value}
    changed = copy.deepcopy(config)
    try:
        for name, value in other.items():
            setattr(changed, name, value)
    except dataclasses.FrozenInstanceError:
        return dataclasses.replace(config, **other)
    return changed


def on_meta(inputs: Inputs) -> Inputs:
    """The inputs without values."""
    moved: Inputs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), inputs)
    return moved
