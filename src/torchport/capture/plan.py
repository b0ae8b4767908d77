"""What a trace of a graph holds: the calls in order, and the key of each tensor.

Worked out from the graph alone, so that a capture without values has the same calls and keys as one with.
"""

from __future__ import annotations

from collections import Counter

from torchport.capture.graph import CALL, Graph, Module, Node, Ref
from torchport.capture.source import is_of_torch
from torchport.trace.plan import Call, Plan, input_key, input_keys, output_keys

__all__ = ["Call", "Plan", "make_plan"]


def make_plan(graph: Graph) -> Plan:
    plan = Plan(root=_root_name(graph))
    walk = _Walk(graph, plan)
    name = walk.next_name(graph.root)
    walk.call(graph.root, name, None, input_keys(name, len(graph.root.inputs)), graph.root.source)
    return plan


def _root_name(graph: Graph) -> str:
    """The root's class, unless a module inside has that very name."""
    name = graph.root.class_name
    taken = {module.path for module in graph.modules.values()}
    while name in taken:
        name += "_"
    return name


class _Walk:
    def __init__(self, graph: Graph, plan: Plan):
        self.graph, self.plan = graph, plan
        self.counts: Counter[str] = Counter()

    def next_name(self, module: Module) -> str:
        base = module.path or self.plan.root
        nth = self.counts[base]
        self.counts[base] += 1
        return base if nth == 0 else f"{base}#{nth}"

    def call(
        self, module: Module, name: str, parent: str | None, given: list[str], source: str | None
    ) -> list[str]:
        """Walks one call and gives the keys of its outputs; `given` are the keys of its inputs."""
        self.plan.events.append(("enter", name))
        inputs = input_keys(name, len(module.inputs))
        keys: dict[Ref, str] = {}
        for own, item, known in zip(inputs, module.inputs, given, strict=True):
            keys[Ref(item.name)] = self.store(own, known)
        for node in module.nodes:
            if node.op == CALL:
                self.child(node, name, keys, source)
        outputs = output_keys(name, len(module.outputs))
        for own, ref in zip(outputs, module.outputs, strict=True):
            self.store(own, keys.get(ref, own))
        self.plan.calls[name] = Call(
            name, module.path, module.type, inputs, outputs, source, parent, module.key
        )
        self.plan.events.append(("exit", name))
        return outputs

    def child(self, node: Node, parent: str, keys: dict[Ref, str], calling: str | None) -> None:
        assert node.target is not None
        module = self.graph.modules[node.target]
        name = self.next_name(module)
        for i, arg in enumerate(node.args):
            keys.setdefault(arg, input_key(name, i))
        source = calling if is_of_torch(node.source) else node.source or module.source
        outputs = self.call(module, name, parent, [keys[arg] for arg in node.args], source)
        for i, key in enumerate(outputs):
            keys[Ref(node.name, i)] = self.plan.resolve(key)

    def store(self, own: str, known: str) -> str:
        """The key under which a value is found: its own, or the one that it has already."""
        if known == own:
            return own
        self.plan.aliases[own] = self.plan.resolve(known)
        return self.plan.resolve(known)
