"""Which tensor of a model is which weight of the reference, whatever the candidate calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from torchport.candidates.pair import ModelPair
from torchport.candidates.paths import buffers_of, parameters_of


@dataclass(frozen=True)
class NamedWeights:
    """The tensors of one model by the reference's names; a tied tensor has several."""

    tensors: Mapping[str, Tensor]

    def name_of(self, tensor: Tensor, path: str) -> str | None:
        """The name of a tensor, one below `path` if there is one; None if it is no weight of the reference."""
        names = [name for name, other in self.tensors.items() if other is tensor]
        below = [name for name in names if path == "" or name.startswith(f"{path}.")]
        return next(iter(below or names), None)


def seen_from(path: str, name: str) -> str:
    """`weight` for `blocks.0.norm.weight`, seen from `blocks.0.norm`."""
    return name.removeprefix(f"{path}.") if path else name


def weights_of_reference(pair: ModelPair) -> NamedWeights:
    return NamedWeights(_tensors(pair.reference.model))


def weights_of_candidate(pair: ModelPair) -> NamedWeights:
    """Its parameters and buffers; a function has those of the reference that it uses."""
    own, known = _tensors(pair.candidate.model), _tensors(pair.reference.model)
    if not own and pair.candidate.is_function:
        return NamedWeights(known)
    found: dict[str, Tensor] = {}
    for name in known:
        target = pair.partner_of(name)
        if target is not None and target in own:
            found[name] = own[target]
    return NamedWeights(found)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return parameters_of(model) | buffers_of(model)
