"""`Core`: a neuron graph that runs and can be changed while it runs.

Readers take the version of the moment, which never changes. A change makes another version from the newest one, under a
lock, writes it to the journal if there is one, and only then puts it in the place of the old one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.core import changes
from torchport.targets.marble.core.adding import Ids, NeuronGroup
from torchport.targets.marble.core.changes import Change
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.core.views import Neurons, Synapses
from torchport.targets.marble.evaluate import by_groups, by_messages
from torchport.targets.marble.groups import Group, NeuronGraph
from torchport.targets.marble.messages import Observer
from torchport.targets.marble.sparse import has_added
from torchport.targets.marble.synapses import Received, received
from torchport.targets.marble.ways import By, evaluated

REMEMBERED = 100
"""How many changes can be undone."""


class Journal(Protocol):
    """Where changes are written before they are made."""

    def write(self, change: Change) -> None: ...


class Core:
    """Groups of neurons, bundles of synapses, and what the memories hold."""

    def __init__(
        self,
        graph: NeuronGraph,
        arrays: Mapping[str, Tensor],
        *,
        names: Mapping[str, str] | None = None,
        state: Mapping[str, Tensor] | None = None,
    ) -> None:
        """`names` has the names of the model's state dict, each with the array that it is."""
        ends = [group.ids.stop for group in graph.groups()]
        self._version = Version(graph, dict(arrays), max(ends, default=0))
        self._before: list[tuple[Version, dict[str, Tensor]]] = []
        self._lock = threading.RLock()
        self.names = dict(names or {})
        self.state: dict[str, Tensor] = dict(state or {})
        self.journal: Journal | None = None
        self.notes: list[str] = []
        """What should be known of how it was loaded."""

    @property
    def version(self) -> Version:
        """The graph as it is now; it stays as it is, whatever is changed later."""
        return self._version

    @property
    def graph(self) -> NeuronGraph:
        return self._version.graph

    def continue_from(self, version: Version) -> None:
        """Goes on with the ids and the number of a version that was read from a file."""
        with self._lock:
            self._version = version

    def to(self, device: str) -> Core:
        """The same graph with its arrays on another device."""
        with self._lock:
            self._version = self._version.on(device)
            self.state = {name: value.to(device) for name, value in self.state.items()}
        return self

    # Looking

    @property
    def neurons(self) -> Neurons:
        return Neurons(self._version)

    @property
    def synapses(self) -> Synapses:
        return Synapses(self._version)

    def groups(self) -> list[Group]:
        return list(self._version.groups.values())

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and buffers of the model that the graph was made from, under PyTorch's names."""
        version = self._version
        changed = [group for group in version.groups.values() if has_added(group)]
        if changed and self.names:
            raise NeuronError(
                "TP0904",
                f"synapses of {changed[0].name} were changed one by one, so the graph is no longer that of its model",
                fix="Take the state dict before such changes, or undo them.",
            )
        return {name: version.arrays[array].clone() for name, array in self.names.items()}

    # Running

    def run(self, *inputs: Tensor) -> list[Tensor]:
        """The outputs for these inputs, as the model gives them: memories begin anew."""
        version = self._version
        if version.program is not None and version.program.fits(inputs):
            return version.apart(version.program.run(inputs))
        return version.apart(by_groups(version.graph, version.arrays, inputs))

    def run_by_messages(self, *inputs: Tensor, observe: Observer | None = None) -> list[Tensor]:
        """The same, computed neuron by neuron along synapses; `observe` is shown every message."""
        version = self._version
        return version.apart(by_messages(version.graph, version.arrays, inputs, observe=observe))

    def received(self, neuron: int, *inputs: Tensor) -> Received:
        """What a neuron receives from whom in a run on these inputs, and what it makes of it."""
        version = self._version
        version.place(neuron)
        here = [value.cpu() for value in inputs]
        return received(version.graph, version.cpu_arrays, here, neuron, version.arrivals)

    def step(self, *inputs: Tensor, by: By = "groups") -> list[Tensor]:
        """The outputs for these inputs; memories go on from where the last step ended."""
        with self._lock:
            version, state = self._version, dict(self.state)
            outputs = evaluated(version.graph, version.arrays, inputs, by=by, state=state)
            self.state = {name: value.clone() for name, value in state.items()}
        return version.apart(outputs)

    def reset(self) -> None:
        """Memories begin anew with the next step."""
        with self._lock:
            self.state = {}

    # Changing

    def change(self, change: Change, *, expected: Version | None = None) -> Any:
        """Makes a change, or raises and leaves the graph as it is.

        With `expected`, the change is refused if the graph is no longer that version.
        """
        with self._lock:
            old = self._version
            if expected is not None and expected is not old:
                raise NeuronError(
                    "TP0904",
                    f"the graph was changed meanwhile: it is version {old.number}, not {expected.number}",
                    fix="Read `core.version` again and decide anew.",
                )
            made, answer = self._changed(old, change)
            if self.journal is not None:
                self.journal.write(change)
            self._before = [*self._before[1 - REMEMBERED :], (old, self.state)]
            self._version = replace(made, number=old.number + 1)
            known = {memory.name for memory in made.graph.memories()}
            self.state = {name: value for name, value in self.state.items() if name in known}
            return answer

    @staticmethod
    def _changed(old: Version, change: Change) -> tuple[Version, Any]:
        """Changes are made on the CPU; what they leave as it was stays where it is."""
        made, answer = changes.made(replace(old, arrays=old.cpu_arrays), change)
        device = old.device
        if device == "cpu":
            return made, answer
        kept = {
            name: old.arrays[name] if array is old.cpu_arrays.get(name) else array.to(device)
            for name, array in made.arrays.items()
        }
        return replace(made, arrays=kept), answer

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within, nobody else changes the graph."""
        with self._lock:
            yield

    def forget(self) -> None:
        """What was changed until now can no longer be undone, as a journal that begins now does not know of it."""
        with self._lock:
            self._before = []

    def undo(self) -> None:
        """Takes the last change back."""
        with self._lock:
            if not self._before:
                raise NeuronError("TP0904", "there is no change to undo")
            if self.journal is not None:
                self.journal.write(Change("undo", {}))
            version, state = self._before.pop()
            device = self._version.device
            self._version = replace(version.on(device), number=self._version.number + 1)
            self.state = {name: value.to(device) for name, value in state.items()}

    def add_neuron_group(
        self,
        size: int,
        *,
        name: str,
        activation: str | None = None,
        bias: Any = None,
        layer: str = "",
        dtype: str = "float32",
    ) -> NeuronGroup:
        """Neurons without synapses. Each adds what arrives and its bias; then comes the activation, if there is one."""
        given = {
            "size": size,
            "name": name,
            "activation": activation,
            "bias": bias,
            "layer": layer,
            "dtype": dtype,
        }
        made: NeuronGroup = self.change(Change("add_group", given))
        return made

    def add_memory(self, sources: NeuronGroup | range, *, name: str) -> NeuronGroup:
        """Neurons that give what others were at the end of the step before."""
        ids = sources.gives if isinstance(sources, NeuronGroup) else sources
        made: NeuronGroup = self.change(
            Change("add_memory", {"name": name, "first": ids.start, "count": len(ids)})
        )
        return made

    def add_synapses(self, sources: Ids, targets: Ids, weights: Any) -> None:
        """A synapse from each source to the target at the same place. One source or target serves all."""
        self.change(Change("add_synapses", {"sources": sources, "targets": targets, "weights": weights}))

    def connect(self, sources: Ids, targets: Ids, weights: Any) -> None:
        """A synapse from each source to each target; the weights have a row for each target."""
        self.change(Change("connect", {"sources": sources, "targets": targets, "weights": weights}))

    def set_weights(self, synapses: Iterable[tuple[int, int]], weights: Any) -> None:
        self.change(Change("set_weights", {"synapses": list(synapses), "weights": weights}))

    def remove_synapses(self, synapses: Iterable[tuple[int, int]]) -> None:
        """Removes synapses by their ids: the target, and the synapse's number there."""
        self.change(Change("remove_synapses", {"synapses": list(synapses)}))

    def remove_neurons(self, neurons: Sequence[int], *, cascade: bool = False) -> None:
        """Removes neurons that nobody needs; with `cascade`, also the synapses and functions that need them."""
        self.change(
            Change(
                "remove_neurons",
                {"neurons": changes.ids_of(neurons, is_target=False).tolist(), "cascade": bool(cascade)},
            )
        )

    def remove_group(self, name: str) -> None:
        """Removes a group that nobody needs."""
        self.change(Change("remove_group", {"name": name}))

    def split_neuron(self, neuron: int) -> NeuronGroup:
        """A second neuron that does the same; the two share what the one gave, so that no output changes."""
        made: NeuronGroup = self.change(Change("split", {"neuron": neuron}))
        return made

    def grow(self, group: str, count: int, *, seed: int = 0) -> NeuronGroup:
        """More neurons like those of a group, with outgoing synapses of weight 0, so that no output changes."""
        made: NeuronGroup = self.change(Change("grow", {"group": group, "count": count, "seed": seed}))
        return made

    def prune(
        self, *, fraction: float | None = None, below: float | None = None, layer: str | None = None
    ) -> int:
        """Removes the synapses of the smallest weights, by share or by bound, and says how many weights went."""
        given = {
            "fraction": None if fraction is None else float(fraction),
            "below": None if below is None else float(below),
            "layer": layer,
        }
        count: int = self.change(Change("prune", given))
        return count
