"""Faults in the weights that a port loads: the code is right, and the file is not what was trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from torchport.capture.graph import CALL, Graph, refs

from .kinds import of_kind


@dataclass(frozen=True)
class Stored:
    """One weight of a model among the others; `tensors` has those that are stored, not those tied to them."""

    graph: Graph
    tensors: Mapping[str, torch.Tensor]
    name: str

    @property
    def tensor(self) -> torch.Tensor:
        return self.tensors[self.name]

    @property
    def local(self) -> str:
        return self.name.rpartition(".")[2]

    def beside(self, local: str) -> str:
        """The name of another weight of the same module."""
        return f"{self.name.removesuffix(self.local)}{local}"

    @property
    def readers(self) -> set[str]:
        """The operations that read the weight."""
        found = set()
        for module in self.graph.modules.values():
            names = {node for node, weight in module.params.items() if weight == self.name}
            for node in module.nodes:
                if node.op != CALL and any(ref.name in names for ref in refs([node.args, node.kwargs])):
                    found.add(node.op.split(".")[1])
        return found


Change = Callable[[Stored], "dict[str, torch.Tensor] | None"]
WEIGHTS: dict[str, list[Change]] = {}


def fault(kind: str) -> Callable[[Change], Change]:
    return of_kind(WEIGHTS, kind)


@fault("transposed weight")
def transposed(stored: Stored) -> dict[str, torch.Tensor] | None:
    weight = stored.tensor
    square = weight.ndim == 2 and weight.shape[0] == weight.shape[1] and stored.readers & {"linear", "addmm"}
    return {stored.name: weight.t()} if square else None


@fault("conv kernel transposed")
def kernel_transposed(stored: Stored) -> dict[str, torch.Tensor] | None:
    weight = stored.tensor
    square = weight.ndim == 4 and weight.shape[2] == weight.shape[3] > 1
    return {stored.name: weight.transpose(2, 3)} if square else None


@fault("bias dropped")
def bias_is_zero(stored: Stored) -> dict[str, torch.Tensor] | None:
    return {stored.name: torch.zeros_like(stored.tensor)} if stored.local.endswith("bias") else None


@fault("statistics swapped")
def statistics_swapped(stored: Stored) -> dict[str, torch.Tensor] | None:
    if stored.local != "running_mean":
        return None
    variance = stored.beside("running_var")
    return {stored.name: stored.tensors[variance], variance: stored.tensor}


@fault("stale buffer")
def stale_buffer(stored: Stored) -> dict[str, torch.Tensor] | None:
    """A buffer as it was before training, or as another setting would have made it."""
    buffer = stored.tensor
    if stored.graph.weights[stored.name].kind != "buffer" or buffer.numel() < 2:
        return None
    fresh = {"running_mean": torch.zeros_like, "running_var": torch.ones_like}.get(stored.local)
    if fresh is not None:
        return {stored.name: fresh(buffer)}
    return {stored.name: buffer.pow(0.9) if buffer.is_floating_point() else buffer.roll(1, -1)}


@fault("weight of a neighbour")
def weight_of_a_neighbour(stored: Stored) -> dict[str, torch.Tensor] | None:
    """Another layer's weight of the same name and shape, the next one in the model or else the first."""
    if not stored.tensor.is_floating_point():
        return None
    alike = [
        name
        for name, tensor in stored.tensors.items()
        if tensor.shape == stored.tensor.shape
        and name.rpartition(".")[2] == stored.local
        and (name == stored.name or not torch.equal(tensor, stored.tensor))
    ]
    if len(alike) < 2:
        return None
    other = alike[(alike.index(stored.name) + 1) % len(alike)]
    return {stored.name: stored.tensors[other]}


@fault("weights averaged")
def averaged_with_a_neighbour(stored: Stored) -> dict[str, torch.Tensor] | None:
    """The mean of the weight and the one that `weight_of_a_neighbour` would put in its place."""
    other = weight_of_a_neighbour(stored) if stored.tensor.numel() > 1 else None
    return {stored.name: (stored.tensor + other[stored.name]) / 2} if other is not None else None


def _one_element(stored: Stored, change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, torch.Tensor]:
    weight = stored.tensor.clone()
    flat = weight.view(-1)
    place = int(flat.abs().argmax())
    flat[place] = change(flat[place])
    return {stored.name: weight}


@fault("NaN in one element")
def nan_in_one_element(stored: Stored) -> dict[str, torch.Tensor] | None:
    if not stored.tensor.is_floating_point():
        return None
    return _one_element(stored, lambda value: value * float("nan"))


@fault("one element off by 10 %")
def one_element_off(stored: Stored) -> dict[str, torch.Tensor] | None:
    return _one_element(stored, lambda value: value * 1.1) if stored.tensor.is_floating_point() else None


@fault("one small channel off by 10 %")
def one_small_channel_off(stored: Stored) -> dict[str, torch.Tensor] | None:
    """The weights of an output channel, if there are others with weights that are a hundred times as large."""
    if stored.tensor.ndim < 2 or not stored.readers & {"linear", "conv1d", "conv2d"}:
        return None
    weight = stored.tensor.clone()
    sizes = weight.flatten(1).norm(dim=1)
    weight[int(sizes.argmin())] *= 1.1
    return {stored.name: weight} if sizes.max() > 100 * sizes.min() else None


def _gates(stored: Stored, op: str, order: list[int]) -> dict[str, torch.Tensor] | None:
    """The gates of all weights of a recurrent layer in another order."""
    if op not in stored.readers or not stored.local.startswith("weight_ih_l0"):
        return None
    prefix = stored.name.removesuffix(stored.local)
    names = [name for name in stored.tensors if name.startswith(prefix) and "_hr_" not in name]
    names = [name for name in names if name.removeprefix(prefix).startswith(("weight_", "bias_"))]
    return {
        name: torch.cat([stored.tensors[name].chunk(len(order))[gate] for gate in order]) for name in names
    }


@fault("LSTM gate order")
def lstm_gates(stored: Stored) -> dict[str, torch.Tensor] | None:
    """Input, cell, forget, output in place of torch's input, forget, cell, output."""
    return _gates(stored, "lstm", [0, 2, 1, 3])


@fault("GRU gate order")
def gru_gates(stored: Stored) -> dict[str, torch.Tensor] | None:
    """Update before reset, as other libraries store them."""
    return _gates(stored, "gru", [1, 0, 2])
