"""Writes one module as a struct: its children as fields, repeated children as a `Vec`, its nodes as `forward`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from torchport.capture import graph as g
from torchport.capture.hooks import UNKNOWN
from torchport.targets.candle import rust
from torchport.targets.candle.emit import (
    FALLBACK,
    Body,
    Emitter,
    Todo,
    Unsupported,
    Value,
    without_outer_parentheses,
)
from torchport.targets.candle.layers import VB, Layer, field_name, find_layer
from torchport.targets.candle.registry import OPS, Args, Several

INPUT = "\x03{}\x04"
"""Stands for an input's name until all callers are known."""


@dataclass
class Param:
    """A constructor argument of a struct."""

    name: str
    kind: str


@dataclass
class Struct:
    """A struct of the generated file; several modules may share it."""

    token: str
    """Stands for the name, which is chosen when all structs are known."""
    params: list[Param] = field(default_factory=list)
    uses_config: bool = False
    inputs: int = 1
    outputs: int = 1
    sizes: tuple[str, ...] = ()
    """Free sizes that `forward` is given beside its tensors."""

    @property
    def is_plain(self) -> bool:
        """One tensor in, one out: it implements candle's `Module`."""
        return self.inputs == 1 and self.outputs == 1 and not self.sizes


@dataclass
class Placed:
    """A module's struct, and what its constructor is given there."""

    struct: Struct
    values: list[int | float]


@dataclass
class Written:
    body: Body
    calls: list[tuple[str, list[str | None]]]
    """Child key → what each argument is called here."""


class ModuleWriter:
    def __init__(self, graph: g.Graph, module: g.Module, placed: dict[str, Placed], checks: str):
        self.graph, self.module, self.placed, self.checks = graph, module, placed, checks
        self.e = Emitter(graph, module, checks)
        self.homes: dict[str, str] = {}
        """Child key → the expression that holds it (`self.dense`, `self.layers[1]`)."""
        self.layers: dict[str, Layer] = {}
        self.vectors: dict[str, str] = {}
        """Child key → name of the Vec that it is in."""
        self.calls: list[tuple[str, list[str | None]]] = []

    def write(self) -> Written:
        self._inputs()
        layer = find_layer(self.e, self.module) if self.module.key == "" else None
        if layer is not None:
            return self._only_layer(layer)
        self._children()
        self._weights()
        nodes = list(self.module.nodes)
        index = 0
        while index < len(nodes):
            run = self._loop_at(nodes, index)
            if run > 0:
                self._loop(nodes[index : index + run])
                index += run
            else:
                self._node(nodes[index])
                index += 1
        self._result()
        self._size_header()
        return Written(self.e.body, self.calls)

    def _only_layer(self, layer: Layer) -> Written:
        """The whole model is one layer: a struct that holds it."""
        body = self.e.body
        body.is_layer = True
        body.outputs = len(self.module.outputs)
        body.calls_module_trait = layer.method == "forward" and body.outputs == 1
        name = self.e.add_field(field_name(self.module), layer.type, layer.constructor.replace(VB, "vb"))
        body.result = f"self.{name}.{layer.method}({', '.join(body.inputs)})"
        return Written(body, [])

    # what comes in

    def _inputs(self) -> None:
        for index, item in enumerate(self.module.inputs):
            name = INPUT.format(index)
            ref = g.Ref(item.name)
            self.e.values[ref] = Value(name, "ref")
            self.e.metas[ref] = item.meta
            self.e.body.inputs.append(name)

    def _weights(self) -> None:
        path = self.module.path
        for node_name, weight_name in self.module.params.items():
            weight = self.graph.weights[weight_name]
            local = weight_name.removeprefix(f"{path}.") if path else weight_name
            shape = [self.e.slot(int(d), "size", new=True) for d in weight.meta.shape]  # type: ignore[arg-type]
            words = "()" if not shape else shape[0] if len(shape) == 1 else f"({', '.join(shape)})"
            if weight.meta.dtype == "float32":
                init = f'vb.get({words}, "{local}")?'
            else:
                dtype = rust.STORED.get(weight.meta.dtype)
                init = f'vb.get_with_hints_dtype({words}, "{local}", Default::default(), DType::{dtype})?'
                if dtype is None:
                    reason = f"{weight_name} has dtype {weight.meta.dtype}, which candle does not have"
                    self.e.body.todos.append(Todo("weight", path, self.module.source, reason))
                    init = f'torchport_runtime::todo("{reason}")?'
            name = self.e.add_field(local.replace("parametrizations.", ""), "Tensor", init)
            self.e.values[g.Ref(node_name)] = Value(f"self.{name}", "owned")
            self.e.metas[g.Ref(node_name)] = weight.meta

    # children

    def _children(self) -> None:
        keys = list(dict.fromkeys(n.target for n in self.module.nodes if n.op == g.CALL and n.target))
        for family in self._families(keys):
            if (len(family) > 1 or self._is_list_item(family[0])) and self._vector(family):
                continue
            for key in family:
                self._single(key)

    def _local(self, key: str) -> str:
        return key.removeprefix(f"{self.module.key}.") if self.module.key else key

    def _is_list_item(self, key: str) -> bool:
        """`layers.0`: an item of a ModuleList, which stays a list even with one item."""
        container, _, last = self._local(key).rpartition(".")
        return last.isdigit() and container != ""

    def _families(self, keys: list[str]) -> list[list[str]]:
        """Children that are items of one list together, the others alone."""
        families: dict[str, list[str]] = {}
        for key in keys:
            container, _, last = self._local(key).rpartition(".")
            families.setdefault(container if last.isdigit() else f"={key}", []).append(key)
        return list(families.values())

    def _kind(self, key: str) -> str:
        """Two children with the same kind can be items of one Vec."""
        if key in self.placed:
            return f"struct {id(self.placed[key].struct)}"
        probe = Emitter(self.graph, self.module, "none")
        layer = find_layer(probe, self.graph.modules[key])
        assert layer is not None
        return layer.constructor + layer.method

    def _vector(self, keys: list[str]) -> bool:
        locals_ = [self._local(key) for key in keys]
        numbers = [int(name.rpartition(".")[2]) for name in locals_]
        if numbers != list(range(len(keys))) or len({self._kind(key) for key in keys}) != 1:
            return False
        container = locals_[0].rpartition(".")[0]
        prefix = f'vb.pp(format!("{container}.{{i}}"))' if container else "vb.pp(i)"
        type_, item, varying = self._item_constructor(keys, prefix)
        count = self.e.slot(len(keys), f"count {container}", new=True)
        if varying:
            rows = ", ".join(f"({', '.join(row)})" if len(row) > 1 else row[0] for row in varying[1])
            names = varying[0]
            pattern = f"({', '.join(names)})" if len(names) > 1 else names[0]
            head = f"[{rows}].into_iter().enumerate().map(|(i, {pattern})|"
        else:
            head = f"(0..{count}).map(|i|"
        body = item.removesuffix("?") if item.endswith("?") else f"Ok({item})"
        name = self.e.add_field(
            container or "layers", f"Vec<{type_}>", f"{head} {body}).collect::<Result<Vec<_>>>()?"
        )
        for index, key in enumerate(keys):
            self.homes[key] = f"self.{name}[{index}]"
            self.vectors[key] = name
        return True

    def _item_constructor(
        self, keys: list[str], vb: str
    ) -> tuple[str, str, tuple[list[str], list[list[str]]] | None]:
        """The constructor of a Vec's items; what varies between them comes as columns of a table."""
        if keys[0] not in self.placed:
            columns = []
            for key in keys:
                before = len(self.e.body.slots)
                layer = find_layer(self.e, self.graph.modules[key])
                assert layer is not None
                self.layers[key] = layer
                columns.append(list(self.e.body.slots[before:]))
                if key != keys[0]:
                    del self.e.body.slots[before:]
            first = self.layers[keys[0]]
            base = len(self.e.body.slots) - len(columns[0])
            varying = [i for i in range(len(columns[0])) if len({c[i].value for c in columns}) > 1]
            words = {base + i: f"{columns[0][i].role or 'size'}_{i}" for i in varying}
            text = first.constructor
            for position, word in words.items():
                text = text.replace(rust.token(position), word)
            rows = [
                [self.e.slot(c[i].value, c[i].role, c[i].kind, new=True) for i in varying] for c in columns
            ]
            table = (list(words.values()), rows) if varying else None
            return first.type, text.replace(VB, vb), table
        struct = self.placed[keys[0]].struct
        values = [self.placed[key].values for key in keys]
        words_list, names, used = [], [], []
        for i, param in enumerate(struct.params):
            if len({v[i] for v in values}) == 1:
                words_list.append(self.e.slot(values[0][i], param.name, param.kind, new=True))
            else:
                words_list.append(param.name)
                names.append(param.name)
                used.append(i)
        rows = [
            [self.e.slot(v[i], struct.params[i].name, struct.params[i].kind, new=True) for i in used]
            for v in values
        ]
        item = self._struct_call(struct, words_list, vb)
        return struct.token, item, (names, rows) if names else None

    def _single(self, key: str) -> None:
        local = self._local(key)
        path = local.partition("@")[0]
        module = self.graph.modules[key]
        vb = f'vb.pp("{path}")'
        if key in self.placed:
            place = self.placed[key]
            words = [
                self.e.slot(value, param.name, param.kind, new=True)
                for value, param in zip(place.values, place.struct.params, strict=True)
            ]
            type_, init = place.struct.token, self._struct_call(place.struct, words, vb)
        else:
            layer = find_layer(self.e, module)
            assert layer is not None
            self.layers[key] = layer
            type_, init = layer.type, layer.constructor.replace(VB, vb)
        name = field_name(module) if path.isdigit() else path
        self.homes[key] = f"self.{self.e.add_field(name, type_, init)}"

    def _struct_call(self, struct: Struct, words: list[str], vb: str) -> str:
        args = [*words, *(["cfg"] if struct.uses_config else []), vb]
        return f"{struct.token}::new({', '.join(args)})?"

    # nodes

    def _node(self, node: g.Node) -> None:
        self.e.current = node
        for i, meta in enumerate(node.outputs):
            if meta is not None:
                self.e.metas[g.Ref(node.name, i)] = meta
        refs = list(g.refs([node.args, node.kwargs]))
        texts = self._call(node) if node.op == g.CALL else self._operation(node)
        reads = self.e.reads_of(refs)
        if isinstance(texts, Several):
            self._destructure(node, texts.text)
        else:
            for i, text in enumerate(texts):
                ref = g.Ref(node.name, i)
                self.e.values[ref] = Value(text, "expr", reads, node.hint)
        for ref in refs:
            self.e.uses[ref.name] -= 1
        if not isinstance(texts, Several):
            self._share(node, len(texts))

    def _share(self, node: g.Node, count: int) -> None:
        """A value that is read more than once gets a name now."""
        total = self.e.uses[node.name]
        if count == 1 and (total > 1 or self._feeds_a_loop(g.Ref(node.name))):
            self.e.name_it(g.Ref(node.name))
        elif count > 1:
            for i in range(count):
                if self._uses_of(g.Ref(node.name, i)) > 1:
                    self.e.name_it(g.Ref(node.name, i))

    def _feeds_a_loop(self, ref: g.Ref) -> bool:
        """Whether items of a Vec read the value beside what they hand to each other; also when there is one item."""
        return any(ref in node.args[1:] for node in self.module.nodes if node.target in self.vectors)

    def _uses_of(self, ref: g.Ref) -> int:
        everything = [[n.args, n.kwargs] for n in self.module.nodes] + [list(self.module.outputs)]
        return sum(found == ref for found in g.refs(everything))

    def _destructure(self, node: g.Node, text: str) -> None:
        names = []
        for i in range(len(node.outputs)):
            ref = g.Ref(node.name, i)
            if self._uses_of(ref) == 0:
                names.append("_")
                continue
            name, reads = self.e.declare(_output_name(node, i))
            self.e.values[ref] = Value(name, "owned", reads)
            names.append(name)
        self.e.statements(f"let ({', '.join(names)}) = {text};")

    def _operation(self, node: g.Node) -> list[str] | Several:
        try:
            function = OPS.get(node.op)
            if function is None:
                raise Unsupported(_no_row(node))
            for meta in node.outputs:
                if meta is not None and meta.dtype not in rust.DTYPES:
                    raise Unsupported(f"candle has no dtype {meta.dtype}")
            args = Args(node)
            result = function(self.e, args)
            args.check_all_read()
        except Unsupported as reason:
            return self._todo(node, str(reason))
        if isinstance(result, Several):
            return result
        texts = [result] if isinstance(result, str) else result
        if self.checks == "ops" and len(texts) == 1:
            texts = [f'check!(self.probe, "{node.name}", {texts[0]})?']
        return texts

    def _todo(self, node: g.Node, reason: str) -> list[str]:
        for ref in dict.fromkeys(g.refs([node.args, node.kwargs])):
            # What only feeds the missing operation is still computed, so that it can be checked.
            if self.e.values[ref].form == "expr":
                self.e.name_it(ref)
        layer = self.module.path or self.graph.root.class_name
        self.e.body.todos.append(Todo(node.op, layer, node.source, reason))
        place = f" at {node.source}" if node.source else ""
        message = f"{node.op} in {self.module.class_name}{place}: {reason}".replace('"', "'")
        self.e.statements(f"// TODO(torchport): {message}")
        return [f'torchport_runtime::todo("{message}")?'] * max(1, len(node.outputs))

    def _call(self, node: g.Node) -> list[str] | Several:
        assert node.target is not None
        self._note_call(node)
        home = self.homes[node.target]
        layer = self.layers.get(node.target)
        if self._is_plain(node.target):
            value = self.e.values[node.args[0]]
            if value.form == "expr":
                return [f"{self.e.receiver(node.args[0])}.apply(&{home})?"]
            self.e.body.calls_module_trait = True
            return [f"{home}.forward({value.reference})?"]
        method = layer.method if layer else "forward"
        args = ", ".join([*(self.e.ref(arg) for arg in node.args), *self._given_sizes(node.target)])
        text = f"{home}.{method}({args})?"
        return [text] if len(node.outputs) == 1 else Several(text)

    def _given_sizes(self, key: str) -> list[str]:
        sizes = self.placed[key].struct.sizes if key in self.placed else ()
        return [self.e.size(g.Sym(symbol)) for symbol in sizes]

    def _is_plain(self, key: str) -> bool:
        """Whether a child is called by candle's `Module`: one tensor in, one out."""
        if key in self.placed:
            return self.placed[key].struct.is_plain
        return self.layers[key].method == "forward" and len(self.graph.modules[key].outputs) == 1

    def _note_call(self, node: g.Node) -> None:
        assert node.target is not None
        names = []
        for arg in node.args:
            value = self.e.values[arg]
            text = value.text if value.form in ("ref", "owned") else value.hint
            names.append(text.removeprefix("self.") if text else None)
        self.calls.append((node.target, names))

    # loops

    def _loop_at(self, nodes: list[g.Node], start: int) -> int:
        """How many calls from here are one walk over a whole Vec, each fed by the one before."""
        first = nodes[start]
        vector = self.vectors.get(first.target or "")
        if vector is None or not self.homes[first.target or ""].endswith("[0]"):
            return 0
        members = [key for key, name in self.vectors.items() if name == vector]
        run = nodes[start : start + len(members)]
        if [n.target for n in run] != members or any(len(n.outputs) != 1 for n in run):
            return 0
        if len(run) == 1:
            carried = 0 if first.args else -1
        else:
            fed = [i for i, arg in enumerate(run[1].args) if arg == g.Ref(first.name)]
            carried = fed[0] if len(fed) == 1 else -1
        if carried < 0:
            return 0
        for before, after in itertools.pairwise(run):
            rest = [a for i, a in enumerate(after.args) if i != carried]
            if after.args[carried] != g.Ref(before.name) or self._uses_of(g.Ref(before.name)) != 1:
                return 0
            if rest != [a for i, a in enumerate(first.args) if i != carried]:
                return 0
        return len(run)

    def _loop(self, run: list[g.Node]) -> None:
        first, last = run[0], run[-1]
        carried = 0
        if len(run) > 1:
            carried = run[1].args.index(g.Ref(first.name))
        for i, arg in enumerate(first.args):
            if i != carried and self.e.values[arg].form == "expr":
                self.e.name_it(arg)
        self._note_call(first)
        start = self.e.values[first.args[carried]]
        begin = start.text if start.form == "expr" else f"{start.text}.clone()"
        for node in run:
            for ref in g.refs(node.args):
                self.e.uses[ref.name] -= 1
        if start.form == "owned" and self.e.uses[first.args[carried].name] == 0:
            begin = start.text
        for arg in first.args:
            self.e.uses[arg.name] += 1
        name, reads = self.e.declare(last.hint or start.hint or FALLBACK)
        for arg in first.args:
            self.e.uses[arg.name] -= 1
        others = [name if i == carried else self.e.values[a].reference for i, a in enumerate(first.args)]
        others[carried] = f"&{name}"
        others += self._given_sizes(first.target or "")
        self.e.body.calls_module_trait |= self._is_plain(first.target or "")
        item = _item_name(self.vectors[first.target or ""])
        vector = self.vectors[first.target or ""]
        self.e.statements(
            f"let mut {name} = {begin};",
            f"for {item} in &self.{vector} {{",
            f"{name} = {item}.forward({', '.join(others)})?;",
            "}",
        )
        self.e.values[g.Ref(last.name)] = Value(name, "owned", reads)
        for node in run:
            if node.outputs[0] is not None:
                self.e.metas[g.Ref(node.name)] = node.outputs[0]

    # what goes out

    def _result(self) -> None:
        outputs = list(self.module.outputs)
        self.e.body.outputs = len(outputs)
        words = []
        if len(outputs) > 1:
            for ref in outputs:
                if self.e.values[ref].form == "expr":
                    self.e.name_it(ref)
        for ref in outputs:
            value = self.e.values[ref]
            if (
                (value.form == "owned" and value.text.startswith("self."))
                or value.form == "ref"
                or (value.form == "owned" and outputs.count(ref) > 1)
            ):
                words.append(f"{value.text}.clone()")
            else:
                words.append(value.text)
        text = words[0] if len(words) == 1 else f"({', '.join(words)})"
        if self.checks != "none":
            self.e.body.result = f"check!(self.probe, {text})"
        elif len(words) == 1 and text.endswith("?"):
            self.e.body.result = without_outer_parentheses(text[:-1])
        else:
            self.e.body.result = f"Ok({text})"

    def _size_header(self) -> None:
        """Takes the sizes that the body reads from the inputs, at the top of `forward`."""
        needed = set(self.e.sizes)
        lines = []
        for item in self.module.inputs:
            name = self.e.values[g.Ref(item.name)].text
            found = {
                dim.expr: axis
                for axis, dim in reversed(list(enumerate(item.meta.shape)))
                if isinstance(dim, g.Sym) and isinstance(dim.expr, str) and dim.expr in needed
            }
            if len(found) > 1 and 2 <= item.meta.rank <= 5:
                words = [next((s for s, a in found.items() if a == i), "_") for i in range(item.meta.rank)]
                lines.append(f"let ({', '.join(words)}) = {name}.dims{item.meta.rank}()?;")
            else:
                lines += [f"let {symbol} = {name}.dim({axis})?;" for symbol, axis in sorted(found.items())]
            needed -= set(found)
        for symbol in sorted(needed):
            line = self._derived_size(symbol)
            if line is None:
                self.e.body.given_sizes.append(symbol)
            else:
                lines.append(line)
        self.e.body.statements[:0] = lines

    def _derived_size(self, symbol: str) -> str | None:
        """A size that no input shows as it is, but one shows as a multiple."""
        for item in self.module.inputs:
            for axis, dim in enumerate(item.meta.shape):
                expr = dim.expr if isinstance(dim, g.Sym) else None
                if isinstance(expr, tuple) and expr[0] == "mul" and len(expr) == 3 and expr[2] == symbol:
                    name = self.e.values[g.Ref(item.name)].text
                    factor = self.e.slot(expr[1], "factor")
                    return f"let {symbol} = {name}.dim({axis})? / {factor};"
        return None


def _no_row(node: g.Node) -> str:
    if node.op == UNKNOWN:
        said = node.kwargs.get("reason")
        return (
            f"its operations are not known, write them here ({said})"
            if said
            else "its operations are not known"
        )
    return "no row of the operation table maps it; see CONTRIBUTING.md for how to add one"


def _output_name(node: g.Node, index: int) -> str:
    names = {
        "aten.topk.default": ("values", "indices"),
        "aten.sort.default": ("values", "indices"),
        "aten.max.dim": ("values", "indices"),
        "aten.min.dim": ("values", "indices"),
    }.get(node.op)
    if names:
        return names[index]
    base = node.hint or (node.name if node.op == g.CALL else FALLBACK)
    return f"{base}_{index}" if node.op == g.CALL else base


def _item_name(vector: str) -> str:
    if vector.endswith("ies"):
        return vector[:-3] + "y"
    return vector[:-1] if vector.endswith("s") and len(vector) > 2 else "layer"
