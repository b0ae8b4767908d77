"""Puts the generated file together: header, imports, Config, structs innermost first, the model last."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from torchport.capture import graph as g
from torchport.targets.candle import ops, rust
from torchport.targets.candle.config import Config
from torchport.targets.candle.emit import Todo
from torchport.targets.candle.structs import _RUNTIME_TYPES, Group, Library, struct_names

assert ops  # importing it fills the operation table

_INPUT = re.compile("\x03(\\d+)\x04")
_STRUCT = re.compile("\x06\\d+\x07")


@dataclass(frozen=True)
class Generated:
    """A Rust source file, and what belongs to it."""

    source: str
    model: str
    """Name of the root struct."""
    config: dict[str, int | float]
    todos: list[Todo]
    inputs: list[str]
    outputs: int
    structs: dict[str, str]
    """Key of a module of the graph → the name of its struct."""
    is_plain: bool
    """The root takes and gives one tensor, so its `forward` is candle's `Module`."""

    @property
    def config_json(self) -> str:
        return json.dumps(self.config, indent=2) + "\n"


def generate(
    graph: g.Graph, *, checks: str = "layers", hints: dict[str, Any] | None = None, model: str | None = None
) -> Generated:
    """Writes the Rust for a captured graph."""
    config = Config(graph, hints)
    library = Library(graph, config, checks)
    names = struct_names(library)
    root = library.group_of("")
    if model:
        names[root.struct.token] = rust.camel(model)
    writer = _Writer(library, names, checks)
    source = writer.file(config)
    return Generated(
        source=source,
        model=names[root.struct.token],
        config=config.fields,
        todos=library.todos,
        inputs=[rust.snake(item.name) for item in graph.root.inputs],
        outputs=len(graph.root.outputs),
        structs={key: names[placed.struct.token] for key, placed in library.placed.items()},
        is_plain=root.struct.is_plain,
    )


class _Writer:
    def __init__(self, library: Library, names: dict[str, str], checks: str):
        self.library, self.names, self.checks = library, names, checks
        self.graph = library.graph
        self.input_names: dict[str, list[str]] = {}
        """Struct token → names of the inputs of `forward`."""

    def file(self, config: Config) -> str:
        self._name_inputs(self.library.group_of(""), [rust.snake(i.name) for i in self.graph.root.inputs])
        order = self._order()
        structs = "\n\n".join(self._struct(group) for group in order)
        structs = _STRUCT.sub(lambda match: self.names[match.group()], structs)
        if self._ties():
            structs += "\n\n" + self._tied_function()
        head = [f"//! {self._title()}", "", *self._imports(structs), "", _config_struct(config), ""]
        return "\n".join(head) + "\n" + structs + "\n"

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

    def _title(self) -> str:
        return f"{self.names[self.library.group_of('').struct.token]}, ported from `{self.graph.root.type}`."

    def _order(self) -> list[Group]:
        """Innermost first, in the order of use."""
        done: dict[str, Group] = {}

        def visit(group: Group) -> None:
            for key, _ in group.written.calls:
                if key in self.library.placed:
                    child = self.library.group_of(key)
                    if child.struct.token not in done:
                        visit(child)
            done.setdefault(group.struct.token, group)

        visit(self.library.group_of(""))
        return list(done.values())

    # names of inputs

    def _name_inputs(self, group: Group, names: list[str]) -> None:
        """Inputs are called what the first caller calls them; the first tensor of a plain layer is `xs`."""
        if group.struct.token in self.input_names:
            return
        declared = set(re.findall(r"\blet (?:mut )?(\w+)", " ".join(group.written.body.statements)))
        for pattern in re.findall(r"\blet \(([^)]*)\)", " ".join(group.written.body.statements)):
            declared |= {word.strip() for word in pattern.split(",")}
        module = self.graph.modules[group.keys[0]]
        chosen: list[str] = []
        for item, name in zip(module.inputs, names, strict=True):
            if module.key and (len(names) == 1 or not name) and item.meta.is_float:
                name = "xs"
            name = rust.snake(name or "xs")
            unique, number = name, 2
            while unique in chosen or unique in declared:
                unique = "xs" if "xs" not in chosen and "xs" not in declared else f"{name}_{number}"
                number += 1
            chosen.append(unique)
        self.input_names[group.struct.token] = chosen
        for key, arguments in group.written.calls:
            if key in self.library.placed:
                words = [self._filled(a or "", group) for a in arguments]
                plain = [w if re.fullmatch(r"\w+", w) else "" for w in words]
                self._name_inputs(self.library.group_of(key), plain)

    def _filled(self, text: str, group: Group) -> str:
        names = self.input_names[group.struct.token]
        text = _INPUT.sub(lambda match: names[int(match.group(1))], text)
        return rust.fill(text, group.words)

    # text

    def _struct(self, group: Group) -> str:
        name, body = group.struct.token, group.written.body
        public = "pub " if "" in group.keys else ""
        fields = [*body.fields, *group.numbers]
        lines = [f"    {f.name}: {f.type}," for f in fields]
        inits = [self._init(f.name, self._filled(f.init, group)) for f in body.fields]
        inits += [self._init(f.name, f.init) for f in group.numbers]
        if self._is_probed(group):
            lines.append("    probe: Probe,")
            inits.append("            probe: Probe::new(&vb),")
        params = [f"{p.name}: {p.kind}" for p in group.struct.params]
        params += ["cfg: &Config"] if group.struct.uses_config or public else []
        unused = not any("vb" in f.init for f in body.fields) and not self._is_probed(group)
        params.append(f"{'_' if unused else ''}vb: VarBuilder")
        if public and not group.struct.uses_config:
            params = [p.replace("cfg:", "_cfg:") for p in params]
        return "\n".join(
            [
                f"{public}struct {name} {{" if lines else f"{public}struct {name};",
                *lines,
                "}" if lines else "",
                "",
                f"impl {name} {{",
                *_many(len(params)),
                f"    {public}fn new({', '.join(params)}) -> Result<Self> {{",
                *(["        let vb = vb.rename_f(tied);"] if public and self._ties() else []),
                "        Ok(Self {" if lines else "        Ok(Self)",
                *inits,
                "        })" if lines else "",
                "    }",
                *([] if group.struct.is_plain else self._forward(group, public)),
                "}",
                *(self._module_impl(group) if group.struct.is_plain else []),
            ]
        )

    def _is_probed(self, group: Group) -> bool:
        return self.checks != "none" and not group.written.body.is_layer

    def _init(self, name: str, init: str) -> str:
        return f"            {name}," if name == init else f"            {name}: {init},"

    def _module_impl(self, group: Group) -> list[str]:
        return ["", f"impl Module for {group.struct.token} {{", *self._forward(group, ""), "}"]

    def _forward(self, group: Group, public: str) -> list[str]:
        body = group.written.body
        names = self.input_names[group.struct.token]
        inputs = "".join(f", {name}: &Tensor" for name in names)
        inputs += "".join(f", {size}: usize" for size in body.given_sizes)
        result = "Tensor" if body.outputs == 1 else f"({', '.join(['Tensor'] * body.outputs)})"
        lines = [self._filled(line, group) for line in body.statements]
        if self._is_probed(group) and names:
            lines.insert(0, f"check!(self.probe => {', '.join(names)});")
        return [
            "",
            *_many(len(names) + 1),
            f"    {public}fn forward(&self{inputs}) -> Result<{result}> {{",
            *(f"        {line}" for line in lines),
            f"        {self._filled(body.result, group)}",
            "    }",
        ]

    def _imports(self, text: str) -> list[str]:
        candle = [name for name in ("DType", "Device", "Result", "Tensor") if re.search(rf"\b{name}\b", text)]
        if any(g.struct.is_plain or g.written.body.calls_module_trait for g in self.library.groups):
            candle.append("Module")
        types = [name for name in _RUNTIME_TYPES if re.search(rf"\b{name}\b[,>]", text)]
        nn_items = ["self"] * bool(re.search(r"\bnn::", text)) + types
        runtime = [name for name in ("check", "ops", "Probe") if re.search(_USES[name], text)]
        if nn_items:
            runtime.append(f"nn::{{{', '.join(nn_items)}}}")
        lines = [f"use candle::{{{', '.join(sorted(candle))}}};", "use candle_nn::VarBuilder;"]
        if runtime:
            lines.append(f"use torchport_runtime::{{{', '.join(runtime)}}};")
        return lines


def _many(arguments: int) -> list[str]:
    return ["    #[allow(clippy::too_many_arguments)]"] if arguments > 7 else []


_USES = {"check": r"\bcheck!", "ops": r"\bops::", "Probe": r"\bProbe\b"}


def _config_struct(config: Config) -> str:
    fields = sorted(config.fields.items(), key=lambda item: list(config.known).index(item[0]))
    lines = [f"    pub {name}: {'f64' if isinstance(v, float) else 'usize'}," for name, v in fields]
    derive = "#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]"
    if not lines:
        return f"{derive}\npub struct Config {{}}"
    return "\n".join([derive, "pub struct Config {", *lines, "}"])
