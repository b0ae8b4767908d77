"""The arguments of one operation, by the names that torch's schema gives them."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.candle.body import Unsupported

_ALWAYS_FINE = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"})
"""Arguments about where and how a tensor lies in memory, which do not change its values."""


class Args:
    """The arguments of a node, with the defaults put in. Remembers which ones were read."""

    def __init__(self, node: g.Node):
        self.node = node
        self.values: dict[str, g.Arg] = operations.bind(node.op, node.args, node.kwargs)
        self._defaults = {argument.name: argument.default for argument in operations.arguments(node.op)}
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> g.Arg:
        self._read.add(name)
        return self.values[name]

    def get(self, name: str, default: g.Arg = None) -> g.Arg:
        """An argument that not every overload has; its value, or the default if the schema does not have it."""
        self._read.add(name)
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        """Whether the schema has an argument of this name, whatever its value."""
        return name in self.values

    def ignore(self, *names: str) -> None:
        """Counts arguments as read that do not change what the generated code computes."""
        self._read.update(names)

    @property
    def output(self) -> g.TensorMeta:
        """Shape and dtype of the first output."""
        meta = self.node.outputs[0]
        assert meta is not None
        return meta

    def check_all_read(self) -> None:
        """Raises for an argument that nothing read, unless it has its default."""
        for name, value in self.values.items():
            if name in self._read or name in _ALWAYS_FINE or value == self._defaults[name]:
                continue
            raise Unsupported(f"its argument {name}={shown(value)} is not handled")


def shown(value: g.Arg) -> str:
    """An argument as a message shows it."""
    return repr(value) if not isinstance(value, g.Ref) else "a tensor"
