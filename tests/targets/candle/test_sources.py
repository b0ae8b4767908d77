"""Where in the generated Rust the code of a module is found."""

import pytest

from torchport.capture.graph import Graph, Input, Module, Node, Ref, TensorMeta
from torchport.targets.candle import sources

META = TensorMeta((2, 4), "float32")


def block(*children: str) -> tuple[Module, Graph]:
    nodes = tuple(Node(name, "call", (Ref("x"),), {}, (META,), target=f"b.{name}") for name in children)
    module = Module("b", "net.Block", (Input("x", META),), nodes, (Ref("x"),))
    inner = {
        f"b.{name}": Module(f"b.{name}", "net.Linear", (Input("x", META),), (), (Ref("x"),))
        for name in children
    }
    return module, Graph("net", {"b": module, **inner}, {}, (), ())


@pytest.mark.parametrize(
    "children, structs, found",
    [
        (["fc"], ["Block"], "Block"),
        (["fc"], ["Block", "BlockWithDownsample"], "Block"),
        (["fc", "downsample"], ["Block", "BlockWithDownsample"], "BlockWithDownsample"),
        (["fc"], ["Block", "Block2"], None),
        (["fc"], ["Blocks", "Other"], None),
        (["fc"], ["Block", "BlockList"], "Block"),
    ],
)
def test_rust_is_shown_only_where_its_struct_is_certain(
    children: list[str], structs: list[str], found: str | None
) -> None:
    assert sources._struct_of(*block(*children), structs) == found


def test_structs_have_their_impls_and_attributes() -> None:
    rust = (
        "use a;\n\n#[derive(Debug)]\npub struct A {\n    x: B,\n}\n\nimpl A {\n    fn f() {\n    }\n}\n\n"
        "struct Unit;\n\nimpl Module for A {\n}\n"
    )
    found = sources._units(rust, "rust/src/model.rs")
    assert [(one.first, len(one.lines)) for one in found["A"]] == [(3, 4), (8, 4), (15, 2)]
    assert [(one.first, len(one.lines)) for one in found["Unit"]] == [(13, 1)]
