"""The manifest: what is written is what is read, arguments keep their types, and a broken file is named."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from torchport.capture import arguments
from torchport.capture import graph as g
from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.recorder import record
from torchport.capture.schema import VERSION
from torchport.errors import ManifestError

from . import models

CASES = {
    "stack": lambda: record(models.Stack(), torch.randn(2, 8)),
    "twice": lambda: record(models.Twice(), torch.randn(2, 4)),
    "tied": lambda: record(models.Tied(), torch.randint(0, 11, (2, 5))),
    "in place": lambda: record(models.InPlace(), torch.randn(2, 4)),
    "lstm": lambda: record(nn.LSTM(4, 5, bidirectional=True), torch.randn(3, 2, 4)),
    "attention": lambda: record(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8)),
    "unknown": lambda: record(models.Gated(), torch.randn(2, 4)),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The manifest of a model with a free batch, as JSON."""
    torch.manual_seed(0)
    capture = record(models.Stack(depth=1), torch.randn(2, 8), name="net")
    return json.loads(capture.save(tmp_path_factory.mktemp("capture"))["manifest"].read_text())


def read_back(path: Path, data: Any) -> g.Graph:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_manifest(path)[0]


def refused(path: Path, data: Any, code: str) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        read_back(path, data)
    assert caught.value.code == code, str(caught.value)
    assert str(path) in (caught.value.where or "") and caught.value.fix
    return caught.value


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_what_is_read(tmp_path: Path, case: str) -> None:
    graph = CASES[case]().graph
    write_manifest(tmp_path / "m.json", graph, extra={})
    assert read_manifest(tmp_path / "m.json")[0] == graph


def test_every_node_says_where_it_comes_from(written: dict[str, Any]) -> None:
    modules = {module["key"]: module for module in written["modules"]}
    assert modules["blocks.0"]["type"] == f"{models.__name__}.Block"
    assert modules["blocks.0.norm"]["type"] == "torch.nn.modules.normalization.LayerNorm"
    assert modules["blocks.0.norm"]["attributes"]["eps"] == 1e-3
    add = next(node for node in modules["blocks.0"]["nodes"] if node["op"] == "aten.add.Tensor")
    file, _, line = add["source"].rpartition(":")
    assert file == models.__file__
    assert "return x + torch.nn.functional.gelu" in Path(file).read_text().splitlines()[int(line) - 1]


def test_sizes_are_symbols_and_arguments_have_types(written: dict[str, Any]) -> None:
    root = next(module for module in written["modules"] if module["key"] == "")
    assert root["inputs"] == [{"name": "x", "shape": [{"sym": "batch"}, 8], "dtype": "float32"}]
    assert written["symbols"] == [
        {"name": "batch", "input": "x", "axis": 0, "low": 1, "high": None, "example": 2}
    ]
    norm = next(module for module in written["modules"] if module["key"] == "blocks.0.norm")
    args = norm["nodes"][0]["args"]
    assert args[0] == {"ref": "input_0"} and args[1] == [8] and args[4] == 1e-3


def test_no_argument_is_text_that_was_something_else() -> None:
    class Everything(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.full((x.shape[0], 4), -math.inf, dtype=torch.float64, device=x.device)
            y = torch.nn.functional.gelu(x, approximate="tanh").to(torch.float64)
            return torch.cat([y + mask, y[:, 1:3].expand(x.shape[0], 2)], dim=-1).contiguous()

    nodes = record(Everything(), torch.randn(2, 4)).graph.root.nodes
    leaves: list[Any] = []
    for node in nodes:
        g.map_node(node, lambda leaf: leaves.append(leaf) or leaf)
    assert {leaf for leaf in leaves if isinstance(leaf, str)} <= {"tanh"}
    assert g.Dtype("float64") in leaves and -math.inf in leaves and g.Sym("batch") in leaves


exprs = st.recursive(
    st.integers(-9, 9) | st.sampled_from(["batch", "seq_len"]),
    lambda inner: st.tuples(st.sampled_from(sorted(g.SYM_OPERATIONS)), inner, inner),
    max_leaves=6,
)
any_argument = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.builds(g.Ref, st.text(min_size=1), st.integers(0, 5))
    | exprs.filter(lambda e: not isinstance(e, int)).map(g.Sym)
    | st.sampled_from(["float32", "int64", "bool"]).map(g.Dtype)
    | st.builds(g.Device, st.text())
    | st.builds(g.Layout, st.text())
    | st.builds(g.MemoryFormat, st.text()),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(any_argument)
def test_any_argument_comes_back_from_json(argument: g.Arg) -> None:
    text = json.dumps(arguments.encode(argument), allow_nan=False)
    again = arguments.decode(json.loads(text))
    assert again == argument and type(again) is type(argument)


def test_an_argument_without_a_form_is_never_made_text() -> None:
    with pytest.raises(TypeError, match="bytes"):
        arguments.encode([b"1"])  # type: ignore[list-item]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_manifest_cut_anywhere_is_truncated(
    tmp_path_factory: Any, written: Any, data: st.DataObject
) -> None:
    text = json.dumps(written, indent=1)
    length = data.draw(st.integers(0, len(text) - 1))
    refused(tmp_path_factory.mktemp("cut") / "m.json", text[:length], "TP0303")


@pytest.mark.parametrize(
    "text", ["not json", "{'a': 1}", "[1, 2", "\x00\x01", '{"schema": 1,, }', '{"a": 1} more', "PK\x03\x04"]
)
def test_what_is_not_json_says_so(tmp_path: Path, text: str) -> None:
    refused(tmp_path / "m.json", text, "TP0302")


def test_bytes_that_are_not_text_are_not_json(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(ManifestError, match="TP0302"):
        read_manifest(path)


def test_json_of_another_kind_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "m.json", [1, 2], "TP0305")


def test_json_without_end_of_depth_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "m.json", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "TP0302")


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="TP0301.*nowhere.json"):
        read_manifest(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("version", "code"),
    [(VERSION + 1, "TP0304"), (0, "TP0305"), ("1", "TP0305"), (True, "TP0305"), (None, "TP0305")],
)
def test_a_version_that_is_not_ours(tmp_path: Path, written: dict, version: Any, code: str) -> None:
    refused(tmp_path / "m.json", {**written, "schema": version}, code)


FIELDS = ["name", "root", "config", "symbols", "outputs", "weights", "modules", "calls", "events", "aliases"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_missing_field_is_named(tmp_path: Path, written: dict, field: str) -> None:
    data = {name: value for name, value in written.items() if name != field}
    assert f"at {field}: Field required" in refused(tmp_path / "m.json", data, "TP0305").message


def test_a_missing_field_inside_is_named_with_its_place(tmp_path: Path, written: dict) -> None:
    data = copy.deepcopy(written)
    del data["modules"][0]["nodes"][0]["op"]
    assert "modules.0.nodes.0.op" in refused(tmp_path / "m.json", data, "TP0305").message


def test_fields_that_a_later_minor_version_adds_are_read_over(tmp_path: Path, written: dict) -> None:
    data = copy.deepcopy(written)
    data["news"] = data["modules"][0]["news"] = {"a": 1}
    assert read_back(tmp_path / "m.json", data).name == "net"


def _module(data: dict, key: str) -> dict:
    return next(module for module in data["modules"] if module["key"] == key)


FAULTS = {
    "no root": lambda d: d.update(modules=[m for m in d["modules"] if m["key"]]),
    "call of nothing": lambda d: _module(d, "")["nodes"][0].update(target="nowhere"),
    "call without a target": lambda d: _module(d, "")["nodes"][0].pop("target"),
    "call with too much": lambda d: _module(d, "")["nodes"][0]["args"].append({"ref": "x"}),
    "a module in itself": lambda d: _module(d, "blocks.0")["nodes"][0].update(target="blocks.0"),
    "value from nowhere": lambda d: _module(d, "blocks.0")["nodes"][-1].update(args=[{"ref": "nobody"}]),
    "second of one value": lambda d: _module(d, "")["nodes"][0].update(args=[{"ref": ["x", 1]}]),
    "output from nowhere": lambda d: _module(d, "").update(outputs=[{"ref": "nobody"}]),
    "output that is a number": lambda d: _module(d, "").update(outputs=[3]),
    "weight from nowhere": lambda d: d["weights"].pop("head.weight"),
    "tie to nothing": lambda d: d["weights"]["head.weight"].update(tied_to="nowhere"),
    "kind of weight": lambda d: d["weights"]["head.weight"].update(kind="feather"),
    "dtype": lambda d: d["weights"]["head.weight"].update(dtype="float33"),
    "shape": lambda d: d["weights"]["head.weight"].update(shape="8x3"),
    "free weight": lambda d: d["weights"]["head.weight"].update(shape=[{"sym": "batch"}, 8]),
    "unknown size": lambda d: _module(d, "")["inputs"][0].update(shape=[{"sym": "other"}, 8]),
    "size of two kinds": lambda d: _module(d, "")["inputs"][0].update(
        shape=[{"sym": "batch", "ref": "x"}, 8]
    ),
    "size operation": lambda d: _module(d, "")["inputs"][0].update(shape=[{"sym": ["root", "batch", 2]}, 8]),
    "symbol of nothing": lambda d: d["symbols"][0].update(input="y"),
    "symbol out of range": lambda d: d["symbols"][0].update(axis=2),
    "argument of two kinds": lambda d: _module(d, "head")["nodes"][0]["args"].append(
        {"ref": "a", "sym": "b"}
    ),
    "argument of no kind": lambda d: _module(d, "head")["nodes"][0]["args"].append({"tensor": "a"}),
    "argument of a wrong kind": lambda d: _module(d, "head")["nodes"][0]["args"].append({"dtype": 5}),
    "operation": lambda d: _module(d, "head")["nodes"][0].update(op="linear"),
    "a name twice": lambda d: _module(d, "")["nodes"][1].update(name=_module(d, "")["nodes"][0]["name"]),
    "names of outputs": lambda d: d.update(outputs=[]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path: Path, written: dict, fault: str) -> None:
    data = copy.deepcopy(written)
    FAULTS[fault](data)
    refused(tmp_path / "m.json", data, "TP0305")


def _places(data: Any, path: tuple = ()) -> list[tuple]:
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inside for place in _places(value, (*path, key)))]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_change_to_a_manifest_is_anything_but_read_or_refused(
    tmp_path_factory: Any, written: Any, data: st.DataObject
) -> None:
    broken = copy.deepcopy(written)
    place = data.draw(st.sampled_from(_places(written)[1:]))
    inner = broken
    for key in place[:-1]:
        inner = inner[key]
    junk = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.just([]) | st.just({})
    if data.draw(st.booleans()):
        inner[place[-1]] = data.draw(junk)
    else:
        del inner[place[-1]]
    path = tmp_path_factory.mktemp("changed") / "m.json"
    try:
        read_back(path, broken)
    except ManifestError as error:
        assert error.code in ("TP0305", "TP0304")
