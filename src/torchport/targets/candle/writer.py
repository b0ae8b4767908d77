"""Puts the generated file together: header, imports, Config, the structs that hold no other first, the model last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.errors import UsageError
from torchport.targets.base import NamedNumber, Todo
from torchport.targets.candle import lowering, ops, rust
from torchport.targets.candle.body import Written
from torchport.targets.candle.code import Code, InputName, Parameter, Part, Slot, StructName
from torchport.targets.candle.config import Config, Hint, weight_axis
from torchport.targets.candle.layers.table import RUNTIME_TYPES
from torchport.targets.candle.library import Group, Library
from torchport.targets.candle.naming import input_names, struct_names

assert ops  # importing it fills the operation table


@dataclass(frozen=True)
class Generated:
    """A Rust source file, and what belongs to it."""

    source: str
    model: str
    """The name of the root's struct."""
    structs: dict[str, str]
    """Module key → the name of its struct, for every module that has one. Layers of the runtime crate have none."""
    config: dict[str, int | float | list[int | float]]
    names: list[NamedNumber]
    """The numbers that have a name, each with its reason."""
    todos: list[Todo]
    inputs: list[str]
    input_forms: list[tuple[str, str] | None]
    """The dtype and the shape of each input, as Rust and a reader call them; None if candle lacks the dtype."""
    outputs: int
    is_plain: bool
    """Whether the root takes one tensor and gives one, so that its `forward` is that of candle's `Module`."""

    @property
    def config_json(self) -> str:
        return json.dumps(self.config, indent=2) + "\n"


def generate(
    graph: g.Graph,
    *,
    checks: str = "layers",
    hints: Mapping[str, Hint] | None = None,
    model: str | None = None,
    allow_random: bool = False,
) -> Generated:
    """Writes the Rust for a captured graph. `model` is the name of the root's struct, if not its class's."""
    config, library = _library(graph, Written(checks, allow_random), hints)
    names = struct_names(library)
    root = library.placed[""].struct
    if model:
        names[root.name] = rust.camel(model)
    return Generated(
        source=_Writer(library, config, names, checks).file(),
        model=names[root.name],
        structs={
            key: names[library.placed[key].struct.name] for key in graph.modules if key in library.placed
        },
        config=config.fields,
        names=list(config.reasons.values()),
        todos=library.todos,
        inputs=rust.distinct(item.name for item in graph.root.inputs),
        input_forms=[_form(index, config.graphs, config) for index in range(len(graph.root.inputs))],
        outputs=len(graph.root.outputs),
        is_plain=root.is_plain,
    )


def _form(index: int, graphs: Sequence[g.Graph], config: Config) -> tuple[str, str] | None:
    """The dtype and the shape of an input of the model, which was captured as these graphs."""
    item = graphs[0].root.inputs[index]
    dtype = rust.STORED.get(item.meta.dtype)
    if dtype is None:
        return None
    shapes = [graph.root.inputs[index].meta.shape for graph in graphs]
    at_sizes = zip(*(shape for shape in shapes if len(shape) == item.meta.rank), strict=True)
    place = weight_axis(graphs[0], item.name)
    last = item.meta.rank - 1
    axes = [
        _axis(sizes, graphs[0], config, place if axis == last else None)
        for axis, sizes in enumerate(at_sizes)
    ]
    return dtype, ", ".join(axes)


def _axis(sizes: Sequence[g.Dim], graph: g.Graph, config: Config, place: str | None) -> str:
    first, column = sizes[0], [size for size in sizes if isinstance(size, int)]
    if len(column) == len(sizes):
        return config.axis(tuple(column), place)
    if not isinstance(first, g.Sym) or not isinstance(first.expr, str):
        return "_"  # It is computed from other sizes, and the model says so itself if it is wrong.
    symbol = next((symbol for symbol in graph.symbols if symbol.name == first.expr), None)
    if symbol is None:
        return first.expr
    least = f"{symbol.low}<=" if symbol.low > 1 else ""
    most = "" if symbol.high is None or len(sizes) > 1 else f"<={symbol.high}"
    return f"{least}{first.expr}{most}"


def _library(graph: g.Graph, written: Written, hints: Mapping[str, Hint] | None) -> tuple[Config, Library]:
    """The structs, and the names of numbers, from all sizes of the model that become the same code."""
    graphs = [graph, *graph.variants]
    while True:
        config = Config(graphs, hints)
        library = Library(graphs, config, written)
        alike = library.alike()
        if len(alike) == len(graphs):
            break
        graphs = alike
    if unused := config.unused_hints():
        raise UsageError(
            "TP0109",
            f"the hint{'s' * (len(unused) > 1)} {', '.join(unused)} fit{'s' * (len(unused) < 2)} no number",
            fix="`torchport codegen --analyze-only` lists each name with its reason; a hint names a value that is "
            'there, or places such as "encoder.fc.weight[0]"',
        )
    return config, library


class _Writer:
    def __init__(self, library: Library, config: Config, names: dict[StructName, str], checks: str):
        self.config = config
        self.library, self.names, self.checks = library, names, checks
        self.graph = library.graph
        self.input_names = input_names(library)

    def file(self) -> str:
        structs = "\n\n".join(self._struct(group) for group in self._order())
        if self._ties():
            structs += "\n\n" + self._tied_function()
        structs = "\n\n".join([structs, *lowering.sources(structs)])
        head = [f"//! {self._title()}", "", *self._imports(structs), "", _config_struct(self.config), ""]
        return "\n".join(head) + "\n" + structs + "\n"

    def _title(self) -> str:
        return f"{self._name(self.library.group_of(''))}, ported from `{self.graph.root.type}`."

    def _name(self, group: Group) -> str:
        return self.names[group.struct.name]

    def _filled(self, code: Code, group: Group) -> str:
        """Code of a struct as text."""

        def word(part: Part) -> str:
            match part:
                case Slot():
                    return group.settled.words[part.index]
                case InputName():
                    return self.input_names[group.struct.name][part.index]
                case StructName():
                    return self.names[part]
                case Parameter():
                    return part.value

        return code.filled(word)

    def _order(self) -> list[Group]:
        """Structs that hold no other first, then in the order of use."""
        done: dict[StructName, Group] = {}

        def visit(group: Group) -> None:
            for call in group.body.calls:
                if call.key in self.library.placed:
                    child = self.library.group_of(call.key)
                    if child.struct.name not in done:
                        visit(child)
            done.setdefault(group.struct.name, group)

        visit(self.library.group_of(""))
        return list(done.values())

    # tied weights

    def _ties(self) -> dict[str, str]:
        return {name: w.tied_to for name, w in self.graph.weights.items() if w.tied_to}

    def _tied_function(self) -> str:
        arms = [f'        "{name}" => "{head}",' for name, head in self._ties().items()]
        return "\n".join(
            [
                "/// Weights that are one tensor are stored once.",
                "fn tied(name: &str) -> String {",
                "    match name {",
                *arms,
                "        name => name,",
                "    }",
                "    .to_string()",
                "}",
            ]
        )

    # structs

    def _struct(self, group: Group) -> str:
        name, is_root = self._name(group), "" in group.keys
        public = "pub " if is_root else ""
        fields = self._fields(group)
        return "\n".join(
            [
                f"{public}struct {name} {{" if fields else f"{public}struct {name};",
                *(f"    {field}: {type_}," for field, type_, _ in fields),
                "}" if fields else "",
                "",
                f"impl {name} {{",
                *_allow_many(len(self._params(group))),
                f"    {public}fn new({', '.join(self._params(group))}) -> Result<Self> {{",
                *(["        let vb = vb.rename_f(tied);"] if is_root and self._ties() else []),
                *(self._guard() if is_root else []),
                "        Ok(Self {" if fields else "        Ok(Self)",
                *(_init(field, init) for field, _, init in fields),
                "        })" if fields else "",
                "    }",
                *([] if group.struct.is_plain else self._forward(group, public)),
                "}",
                *(self._module_impl(group) if group.struct.is_plain else []),
            ]
        )

    def _guard(self) -> list[str]:
        """Refuses what `new` cannot make a model of, and sizes with which a number changes that nothing explains."""
        config, checks = self.config, []
        for name, value in config.fields.items():
            if isinstance(value, list):
                message = f"`{name}` has {{}} items, and this model has {len(value)}"
                checks.append((f"cfg.{name}.len() != {len(value)}", message, f"cfg.{name}.len()"))
        for name in config.divisors:
            checks.append((f"cfg.{name} == {_literal(type(config.known[name])(0))}", f"`{name}` is 0", ""))
        for name, other in config.unread.items():
            as_it_is = f"cfg.{other}" if isinstance(other, str) else _literal(other)
            checks.append(
                (f"cfg.{name} != {as_it_is}", f"`{name}` must be {_plain(as_it_is)} in this port", "")
            )
        for name, why in config.fixed.items():
            as_it_is = _literal(config.value_of(name))
            unknown = _braced(", ".join(dict.fromkeys(why)))
            message = (
                f"`{name}` is {as_it_is} in this port: nothing says what becomes of {unknown} with another"
            )
            checks.append((f"cfg.{name} != {as_it_is}", message, ""))
        return [line for check in checks for line in _check(*check)]

    def _fields(self, group: Group) -> list[tuple[str, str, str]]:
        """Name, type and initial value of each field."""
        fields = [
            (item.name, self._filled(item.type, group), self._filled(item.init, group))
            for item in group.body.fields
        ]
        fields += [(item.name, item.kind, item.init) for item in group.settled.fields]
        return fields + ([("probe", "Probe", "Probe::new(&vb)")] if self._is_probed(group) else [])

    def _params(self, group: Group) -> list[str]:
        """The parameters of `new`; one that it does not read begins with an underscore."""
        reads_builder = any(Parameter.BUILDER in item.init.parts for item in group.body.fields)
        params = [f"{param.name}: {param.kind}" for param in group.struct.params]
        if group.struct.uses_config:
            params.append("cfg: &Config")
        elif "" in group.keys:
            params.append("_cfg: &Config")
        is_used = reads_builder or self._is_probed(group)
        return [*params, f"{'' if is_used else '_'}vb: VarBuilder"]

    def _is_probed(self, group: Group) -> bool:
        return self.checks != "none" and not group.body.is_layer

    def _module_impl(self, group: Group) -> list[str]:
        return ["", f"impl Module for {self._name(group)} {{", *self._forward(group, ""), "}"]

    def _forward(self, group: Group, public: str) -> list[str]:
        body = group.body
        names = self.input_names[group.struct.name]
        inputs = "".join(f", {name}: &Tensor" for name in names)
        inputs += "".join(f", {size}: usize" for size in body.given_sizes)
        result = rust.tensors_type(body.outputs)
        lines = [self._filled(line, group) for line in body.statements]
        if self._is_probed(group) and names:
            lines.insert(0, f"check!(self.probe => {', '.join(names)});")
        return [
            "",
            *_allow_many(len(names) + 1),
            f"    {public}fn forward(&self{inputs}) -> Result<{result}> {{",
            *(f"        {line}" for line in lines),
            f"        {self._filled(body.result, group)}",
            "    }",
        ]

    # imports

    def _imports(self, text: str) -> Iterable[str]:
        text = _TEXTS.sub("", text)
        candle = [name for name in ("DType", "Device", "Result", "Tensor") if re.search(rf"\b{name}\b", text)]
        if any(group.struct.is_plain or group.body.calls_module_trait for group in self.library.groups):
            candle.append("Module")
        types = [name for name in RUNTIME_TYPES if re.search(rf"\b{name}\b[,>]", text)]
        nn_items = ["self"] * bool(re.search(r"\bnn::", text)) + types
        runtime = [name for name, use in _RUNTIME_USES.items() if re.search(use, text)]
        if nn_items:
            runtime.append(f"nn::{{{', '.join(nn_items)}}}")
        yield f"use candle::{{{', '.join(sorted(candle))}}};"
        yield "use candle_nn::VarBuilder;"
        if re.search(r"\baudio::", text):
            yield "use torchport_audio as audio;"
        if runtime:
            yield f"use torchport_runtime::{{{', '.join(runtime)}}};"


_TEXTS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
"""Strings and comments, in which nothing is used."""
_RUNTIME_USES = {"check": r"\bcheck!", "ensure": r"\bensure!", "ops": r"\bops::", "Probe": r"\bProbe\b"}
"""Item of the runtime crate → pattern of code that uses it, for which it must be imported."""


def _check(condition: str, message: str, argument: str) -> list[str]:
    given = f", {argument}" if argument else ""
    return [f"        if {condition} {{", f'            candle::bail!("{message}"{given});', "        }"]


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _plain(value: str) -> str:
    """A value in Rust as a reader of `config.json` calls it."""
    return f"`{value.removeprefix('cfg.')}`" if value.startswith("cfg.") else value


def _init(name: str, init: str) -> str:
    return f"            {name}," if name == init else f"            {name}: {init},"


def _allow_many(arguments: int) -> list[str]:
    return ["    #[allow(clippy::too_many_arguments)]"] if arguments > 7 else []


def _config_struct(config: Config) -> str:
    lines = [f"    pub {name}: {_type_of(value)}," for name, value in config.fields.items()]
    derive = "#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]\n#[serde(deny_unknown_fields)]"
    notes = [f"/// {line}" for line in _notes(config)]
    if not lines:
        return "\n".join([*notes, derive, "pub struct Config {}"])
    return "\n".join([*notes, derive, "pub struct Config {", *lines, "}"])


def _literal(value: int | float | list[int | float]) -> str:
    if isinstance(value, list):
        return f"vec![{', '.join(map(_literal, value))}]"
    return rust.literal(value, _type_of(value))


def _type_of(value: int | float | list[int | float]) -> str:
    if isinstance(value, list):
        return f"Vec<{_type_of(value[0])}>"
    return "f64" if isinstance(value, float) else "usize"


def _notes(config: Config) -> Iterable[str]:
    """What a reader must know who wants to change a size."""
    if not config.is_proven:
        yield "Sizes that are not here are fixed: what follows from them is not known."
    for item in config.unexplained:
        yield f"{item.value} in `{item.place}` is fixed, and is another at other sizes."
    for name, why in config.fixed.items():
        yield f"`{name}` is fixed: {', '.join(dict.fromkeys(why))} may follow from it."
