"""The format of a manifest, as pydantic models: what its JSON may hold, how a graph becomes that, and back.

`docs/manifest.md` describes the same for readers. Fields that a later version adds are read over. A field that a model
leaves unset is left out of the JSON.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from torchport.capture import graph as g
from torchport.capture.arguments import Arg, Dim, DtypeName
from torchport.capture.plan import Call, Plan

VERSION = 1


class _Form(BaseModel):
    model_config = ConfigDict(strict=True)

    @classmethod
    def _made(cls, **fields: Any) -> Self:
        """The form of values that are known to be right; those that are None are left out."""
        return cls.model_construct(**{name: value for name, value in fields.items() if value is not None})


class TensorForm(_Form):
    shape: list[Dim]
    dtype: DtypeName

    @classmethod
    def of(cls, meta: g.TensorMeta) -> Self:
        return cls._made(shape=list(meta.shape), dtype=meta.dtype)

    def meta(self) -> g.TensorMeta:
        return g.TensorMeta(tuple(self.shape), self.dtype)


class InputForm(_Form):
    name: str
    shape: list[Dim]
    dtype: DtypeName
    hint: str | None = None

    @classmethod
    def of(cls, item: g.Input) -> Self:
        return cls._made(
            name=item.name, shape=list(item.meta.shape), dtype=item.meta.dtype, hint=item.hint or None
        )

    def input(self) -> g.Input:
        return g.Input(self.name, g.TensorMeta(tuple(self.shape), self.dtype), self.hint)


class WeightForm(_Form):
    shape: list[Dim]
    dtype: DtypeName
    kind: Literal["parameter", "buffer", "constant"]
    tied_to: str | None = None
    value: int | float | None = None

    @classmethod
    def of(cls, weight: g.Weight) -> Self:
        meta = weight.meta
        return cls._made(
            shape=list(meta.shape),
            dtype=meta.dtype,
            kind=weight.kind,
            tied_to=weight.tied_to or None,
            value=weight.value,
        )

    def weight(self) -> g.Weight:
        return g.Weight(g.TensorMeta(tuple(self.shape), self.dtype), self.kind, self.tied_to, self.value)


class NodeForm(_Form):
    name: str
    op: str
    args: list[Arg]
    kwargs: dict[str, Arg] = {}
    outputs: list[TensorForm | None]
    target: str | None = None
    source: str | None = None
    hint: str | None = None
    bodies: dict[str, str] = {}
    layer: str | None = None

    @classmethod
    def of(cls, node: g.Node) -> Self:
        return cls._made(
            name=node.name,
            op=node.op,
            args=list(node.args),
            kwargs=node.kwargs or None,
            outputs=[None if meta is None else TensorForm.of(meta) for meta in node.outputs],
            target=node.target,
            source=node.source,
            hint=node.hint,
            bodies=node.bodies or None,
            layer=node.layer,
        )

    def node(self) -> g.Node:
        return g.Node(
            name=self.name,
            op=self.op,
            args=tuple(self.args),
            kwargs=self.kwargs,
            outputs=tuple(None if form is None else form.meta() for form in self.outputs),
            target=self.target,
            source=self.source,
            hint=self.hint,
            bodies=self.bodies,
            layer=self.layer,
        )


class ModuleForm(_Form):
    key: str
    type: str
    inputs: list[InputForm]
    nodes: list[NodeForm]
    outputs: list[Arg]
    params: dict[str, str]
    attributes: dict[str, Arg]
    source: str | None

    @classmethod
    def of(cls, module: g.Module) -> Self:
        return cls.model_construct(
            key=module.key,
            type=module.type,
            inputs=[InputForm.of(item) for item in module.inputs],
            nodes=[NodeForm.of(node) for node in module.nodes],
            outputs=list(module.outputs),
            params=module.params,
            attributes=module.attributes,
            source=module.source,
        )

    def module(self) -> g.Module:
        return g.Module(
            key=self.key,
            type=self.type,
            inputs=tuple(form.input() for form in self.inputs),
            nodes=tuple(form.node() for form in self.nodes),
            outputs=tuple(self.outputs),
            params=self.params,
            attributes=self.attributes,
            source=self.source,
        )


class SymbolForm(_Form):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: str
    input: str
    axis: int
    low: int
    high: int | None
    example: int | None = None

    @classmethod
    def of(cls, symbol: g.Symbol) -> Self:
        known = {
            name: value for name, value in vars(symbol).items() if name != "example" or value is not None
        }
        return cls.model_construct(**known)

    def symbol(self) -> g.Symbol:
        return g.Symbol(**dict(self))


class ConditionForm(_Form):
    left: Dim
    relation: str
    right: Dim
    source: str | None = None
    is_limit: bool = False
    otherwise: list[ConditionForm] = []

    @classmethod
    def of(cls, condition: g.Condition) -> Self:
        others = [cls.of(one) for one in condition.otherwise]
        return cls._made(**{**vars(condition), "otherwise": others})

    def condition(self) -> g.Condition:
        others = tuple(one.condition() for one in self.otherwise)
        return g.Condition(**{**dict(self), "otherwise": others})


class MoveForm(_Form):
    variant: int
    number: int | float
    other: int | float
    fields: list[str]


class CallForm(_Form):
    name: str
    path: str | None = None
    type: str | None = None
    inputs: list[str]
    outputs: list[str]
    source: str | None = None
    parent: str | None = None
    module: str | None = None

    @classmethod
    def of(cls, call: Call) -> Self:
        return cls._made(**vars(call))


class GraphForm(_Form):
    """The part of a manifest that is a graph."""

    config: dict[str, Arg]
    symbols: list[SymbolForm]
    outputs: list[str]
    weights: dict[str, WeightForm]
    modules: list[ModuleForm]
    conditions: list[ConditionForm] = []

    @classmethod
    def of_graph(cls, graph: g.Graph) -> dict[str, Any]:
        """The fields that describe a graph."""
        conditions = [ConditionForm.of(condition) for condition in graph.conditions]
        return {
            "config": graph.config,
            "symbols": [SymbolForm.of(symbol) for symbol in graph.symbols],
            "outputs": list(graph.output_names),
            "weights": {name: WeightForm.of(weight) for name, weight in graph.weights.items()},
            "modules": [ModuleForm.of(module) for module in graph.modules.values()],
            **({"conditions": conditions} if conditions else {}),
        }

    def graph_named(self, name: str, variants: tuple[g.Graph, ...] = ()) -> g.Graph:
        return g.Graph(
            name=name,
            modules={form.key: form.module() for form in self.modules},
            weights={name: form.weight() for name, form in self.weights.items()},
            symbols=tuple(form.symbol() for form in self.symbols),
            output_names=tuple(self.outputs),
            config=self.config,
            variants=variants,
            conditions=tuple(form.condition() for form in self.conditions),
        )


class Manifest(GraphForm):
    model_config = ConfigDict(strict=True, extra="allow")
    version: int = Field(alias="schema")
    torch: str | None = None
    values: bool | None = None
    export_error: dict[str, str | None] | None = None
    """`message` and `where`, if torch.export failed."""
    writes: list[str] | None = None
    idle: list[str] | None = None
    """Bodies of control flow that did not run."""
    sizes: str | None = None
    """Why there are no variants."""
    mapping: str | None = None
    """What is not proven, or not so, of which weight is which."""
    assumed: dict[str, Any] | None = None
    """What was assumed of the model, as `assumed.Assumed` has it."""
    name: str
    root: str
    calls: list[CallForm]
    events: list[list[str]]
    aliases: dict[str, str]
    variants: list[GraphForm] = []
    moves: list[MoveForm] = []
    bound: dict[str, list[str]] = {}

    @classmethod
    def of(cls, graph: g.Graph, plan: Plan, extra: dict[str, Any]) -> Self:
        """The manifest of a graph and the calls that it makes; `extra` are further fields of the manifest."""
        variants = [GraphForm.model_construct(**GraphForm.of_graph(item)) for item in graph.variants]
        fields: dict[str, Any] = dict(
            schema=VERSION,
            **extra,
            name=graph.name,
            root=plan.root,
            **cls.of_graph(graph),
            calls=[CallForm.of(call) for call in plan.calls.values()],
            events=[list(event) for event in plan.events],
            aliases=plan.aliases,
        )
        if variants:
            fields["variants"] = variants
        if graph.moves:
            fields["moves"] = [
                MoveForm.model_construct(**{**vars(move), "fields": list(move.fields)})
                for move in graph.moves
            ]
        if graph.bound:
            fields["bound"] = {name: list(tensors) for name, tensors in graph.bound.items()}
        return cls.model_construct(**fields)

    def json_object(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_unset=True, warnings="error")

    def graph(self) -> g.Graph:
        graph = self.graph_named(self.name, tuple(form.graph_named(self.name) for form in self.variants))
        moves = tuple(
            g.Move(form.variant, form.number, form.other, tuple(form.fields)) for form in self.moves
        )
        bound = {name: tuple(tensors) for name, tensors in self.bound.items()}
        return replace(graph, moves=moves, bound=bound)
