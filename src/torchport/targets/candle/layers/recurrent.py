"""Recurrent layers."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, code, joined
from torchport.targets.candle.layers.table import LeafModule, NotALayer, RuntimeLayer, constructor, layer

_KINDS = {
    "LSTM": ("aten.lstm.input", "Lstm", "lstm"),
    "GRU": ("aten.gru.input", "Gru", "gru"),
}
_ZEROS = ("aten.zeros.default", "aten.new_zeros.default")


@layer("rnn.LSTM", "rnn.GRU")
def recurrent(leaf: LeafModule) -> RuntimeLayer:
    op, type_, function = _KINDS[leaf.module.class_name]
    node = leaf.module.nodes[-1]
    if node.op != op:
        raise NotALayer
    a = Args(node)
    method = "forward_with_state" if _is_given_a_state(leaf, a) else "forward"
    if a["dropout"] and a["train"]:
        raise NotALayer
    _must_have_usual_weights(leaf, a)
    options = _options(leaf, a)
    own = leaf.module.attributes
    sizes = [leaf.number(own["input_size"], "input_size"), leaf.number(own["hidden_size"], "hidden_size")]
    return RuntimeLayer(type_, constructor(function, *sizes, options), method)


def _is_given_a_state(leaf: LeafModule, a: Args) -> bool:
    """Whether the state at the start is an input; otherwise it must be zeros that the module makes."""
    states = a["hx"] if isinstance(a["hx"], list) else [a["hx"]]
    inputs = [g.Ref(item.name) for item in leaf.module.inputs]
    zeros = {node.name for node in leaf.module.nodes if node.op in _ZEROS}
    if any(node.name not in zeros for node in leaf.module.nodes[:-1]):
        raise NotALayer
    if states != [] and [a["input"], *states] == inputs:
        return True
    if inputs == [a["input"]] and all(state.name in zeros for state in states):
        return False
    raise NotALayer


def _options(leaf: LeafModule, a: Args) -> Code:
    items = [code("num_layers: {}", leaf.number(a["num_layers"], "num_layers"))]
    items += [code("{}: true", name) for name in ("bidirectional", "batch_first") if a[name]]
    items += [] if a["has_biases"] else [code("bias: false")]
    projection = int(leaf.module.attributes.get("proj_size", 0) or 0)
    items += [code("proj_size: {}", leaf.number(projection, "proj_size"))] if projection else []
    return code("nn::RnnConfig {{ {}, ..Default::default() }}", joined(", ", items))


def _must_have_usual_weights(leaf: LeafModule, a: Args) -> None:
    """Raises unless the weights come in torch's order, under torch's names, in the dtype that constructors read."""
    names = [leaf.module.params[ref.name] for ref in a["params"]]
    if any(leaf.emitter.graph.weights[name].meta.dtype != "float32" for name in names):
        raise NotALayer
    kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if a["has_biases"] else [])]
    kinds += ["weight_hr"] if leaf.module.attributes.get("proj_size") else []
    prefix = f"{leaf.module.path}." if leaf.module.path else ""
    expected = [
        f"{prefix}{kind}_l{index}{suffix}"
        for index in range(a["num_layers"])
        for suffix in ("", "_reverse")[: 2 if a["bidirectional"] else 1]
        for kind in kinds
    ]
    if names != expected:
        raise NotALayer
