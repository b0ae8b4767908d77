"""Makes our own `Graph` of an exported program, with its module tree.

In: the model and the program that torch.export made of it. Out: the graph, and the model's own tensors as its weights.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

import torch

from torchport.capture import graph as g
from torchport.capture import symbols
from torchport.capture.exported import Exported
from torchport.capture.fields import plain_numbers, values_of
from torchport.capture.flow_layers import with_flow_layers
from torchport.capture.flow_reader import FoundBody
from torchport.capture.fx_nodes import output_names
from torchport.capture.reader import GraphReader
from torchport.capture.simplify import simplify
from torchport.capture.torch_internals import pytree
from torchport.capture.weights import MemoryWeights, described, identity


class Converter:
    """One conversion of a program; the owner of the modules that are read."""

    def __init__(
        self, model: torch.nn.Module, program: torch.export.ExportedProgram, name: str, labels: list[str]
    ):
        self.model, self.program, self.name, self.labels = model, program, name, labels
        self.originals = dict(model.named_modules(remove_duplicate=False))
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.own_tensors = {
            name
            for named in (model.named_parameters, model.named_buffers)
            for name, _ in named(remove_duplicate=False)
        }
        self.tensors = {**program.state_dict, **program.constants}
        self.written_parameters = _release_written_parameters(program)
        self.tree = _unflattened(program)
        self.modules: dict[str, g.Module] = {}
        self.weights: dict[str, torch.Tensor] = {}
        self.kinds = {spec.target: spec.kind.name.lower() for spec in program.graph_signature.input_specs}

    def convert(self) -> Exported:
        placeholders = [n for n in self.tree.graph.nodes if n.op == "placeholder"]
        values = {label: n.meta.get("val") for label, n in zip(self.labels, placeholders, strict=True)}
        self.free = symbols.read_symbols(values)
        self.rename = {raw: symbol.name for raw, symbol in self.free.items()}
        self.rename |= symbols.measured(self.program.graph, set(self.rename.values()))
        conditions = symbols.read_conditions(values, self.rename)
        self._module("", self.tree)
        names, left_out = output_names(self.tree.graph, self._output_structure())
        kinds = {name: self.kinds.get(name, "constant_tensor") for name in self.weights}
        weights = described(self.weights, {n: kind.removesuffix("_tensor") for n, kind in kinds.items()})
        graph = g.Graph(
            name=self.name,
            modules=with_flow_layers(self.modules, weights),
            weights=weights,
            symbols=tuple(self.free.values()),
            output_names=names,
            config=_model_config(self.model),
            conditions=conditions,
        )
        graph = simplify(graph)
        buffers = self.program.graph_signature.buffers_to_mutate.values()
        writes = tuple(sorted({*buffers, *self.written_parameters}))
        kept = MemoryWeights({name: self.weights[name] for name in graph.weights})
        return Exported(graph, kept, writes, left_out)

    def _output_structure(self) -> Any:
        spec = self.program.call_spec.out_spec
        return pytree.tree_unflatten(list(range(spec.num_leaves)), spec)

    def _module(self, key: str, module: torch.nn.Module, body: FoundBody | None = None) -> None:
        if key in self.modules:
            return
        graph: torch.fx.Graph = module.graph  # type: ignore[assignment]
        original = None if body is not None else self.originals.get(g.path_of(key))
        reader = GraphReader(self, key, module, graph, body)
        children = reader.read()
        forward = getattr(type(original), "forward", None)
        self.modules[key] = g.Module(
            key=key,
            type=body.type if body is not None else _type_name(module, original),
            inputs=tuple(reader.inputs),
            nodes=tuple(reader.nodes),
            outputs=tuple(reader.outputs),
            params=reader.params,
            attributes=_attributes(original),
            source=_definition(forward),
        )
        for found in reader.bodies:
            self._module(found.key, found.module, found)
        for child in children:
            self._module(child, self.tree.get_submodule(child))

    def keep_constant(self, name: str, value: torch.Tensor) -> None:
        self.weights[name] = value.detach()

    def has_module(self, path: str) -> bool:
        return path in self.originals

    def path_of_module(self, identity: int) -> str | None:
        return self.paths.get(identity)

    def own_name(self, path: str) -> str | None:
        return path if path in self.own_tensors else None

    def keep_weight(self, name: str, path: str) -> None:
        self.weights.setdefault(name, self.tensors[path].detach())


def _release_written_parameters(program: torch.export.ExportedProgram) -> list[str]:
    """The parameters that the model writes to, as an embedding with `max_norm` does, which are no longer outputs.

    `unflatten` knows what becomes of buffers that are written, and takes parameters for results of the model.
    """
    specs = program.graph_signature.output_specs
    is_kept = [spec.kind.name != "PARAMETER_MUTATION" for spec in specs]
    if all(is_kept):
        return []
    written = [str(spec.target) for spec, kept in zip(specs, is_kept, strict=True) if not kept]
    output = program.graph.output_node()
    values = cast(tuple[Any, ...], output.args[0])
    output.args = (tuple(value for value, kept in zip(values, is_kept, strict=True) if kept),)
    specs[:] = [spec for spec, kept in zip(specs, is_kept, strict=True) if kept]
    program.graph_module.recompile()
    return written


def _unflattened(program: torch.export.ExportedProgram) -> torch.export.UnflattenedModule:
    """The program's module tree, in which tensors are stand-ins without values.

    `unflatten` copies every tensor that it is given, which for a large model is as much memory again.
    """
    _place_sizes(program)
    stand_ins: dict[Any, torch.Tensor] = {}
    held = [(tensors, dict(tensors)) for tensors in (program.state_dict, program.constants)]
    try:
        for tensors, own in held:
            for name, tensor in own.items():
                if isinstance(tensor, torch.Tensor):
                    tensors[name] = stand_ins.setdefault(identity(tensor), _without_values(tensor))
        return torch.export.unflatten(program)
    finally:
        for tensors, own in held:
            tensors.update(own)


def _place_sizes(program: torch.export.ExportedProgram) -> None:
    """Puts the nodes that belong to no module into the root: `unflatten` fails on a `numel()` that was moved there."""
    for node in program.graph.nodes:
        if node.meta.get("nn_module_stack") == {}:
            node.meta["nn_module_stack"] = {"": ("", type(program.graph_module).__qualname__)}


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return (
        torch.nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else empty
    )


def _definition(function: Any) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code else None


def _type_name(module: torch.nn.Module, original: torch.nn.Module | None) -> str:
    if original is not None:
        return f"{type(original).__module__}.{type(original).__qualname__}"
    return module.type_name() or type(module).__qualname__  # type: ignore[operator]


def _attributes(module: torch.nn.Module | None) -> dict[str, Any]:
    """The module's own plain values: what its author thought worth a name."""
    if module is None:
        return {}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) <= 8 and all(isinstance(v, int | float) for v in value)
    return isinstance(value, bool | int | float | str)


def _model_config(model: torch.nn.Module) -> dict[str, Any]:
    """The numbers of a `config` object, as Hugging Face models carry one."""
    config = getattr(model, "config", None)
    return {} if config is None else plain_numbers(values_of(config))
