"""Which parameter of a candidate stands for which of the reference's, and which modules hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from torchport.candidates.left_out import BY_MAP
from torchport.candidates.pair import ModelPair
from torchport.candidates.paths import own_parameters, parameters_of, uncompiled
from torchport.errors import UsageError


@dataclass(frozen=True)
class Parameters:
    """Of one side, by the reference's name; a tied one has one name."""

    tensors: dict[str, Tensor]
    absent: dict[str, str]
    """Why others are not there."""


def parameters_of_reference(pair: ModelPair) -> Parameters:
    return Parameters({uncompiled(name): one for name, one in pair.reference.model.named_parameters()}, {})


def parameters_of_candidate(pair: ModelPair, ours: Mapping[str, Tensor]) -> Parameters:
    """The candidate's parameter for each of the reference's, which goes by any of its names where it is tied."""
    known = own_parameters(pair.candidate.model)
    if not known and pair.candidate.is_function:
        known = parameters_of(pair.reference.model)  # those that the function uses get a gradient
    names = _all_names(pair.reference.model)
    tensors, absent = {}, {}
    for name, parameter in ours.items():
        targets = [pair.partner[other] for other in names[parameter]]
        there = [known[target] for target in targets if target is not None and target in known]
        if there:
            tensors[name] = there[0]
        elif targets == [None]:
            absent[name] = BY_MAP
        else:
            absent[name] = "the candidate has no such parameter"
    return Parameters(tensors, absent)


def owners_of_parameters(model: nn.Module) -> dict[str, list[str]]:
    """For each parameter the paths of the modules that hold it."""
    return {every[0]: [name.rpartition(".")[0] for name in every] for every in _all_names(model).values()}


def _all_names(model: nn.Module) -> dict[Tensor, list[str]]:
    names: dict[Tensor, list[str]] = {}
    for name, parameter in parameters_of(model).items():
        names.setdefault(parameter, []).append(name)
    return names


def must_take_gradients(pair: ModelPair) -> None:
    for side in (pair.reference, pair.candidate):
        for name, parameter in parameters_of(side.model).items():
            if parameter.is_inference():
                message = f"{name} of the {side.label} was made in inference mode, so that no gradient can flow to it"
                raise UsageError("TP0801", message, fix="make the model outside of torch.inference_mode()")
