"""Linear layers and embeddings."""

from __future__ import annotations

from torchport.targets.candle.layers.table import LeafModule, RuntimeLayer, constructor, layer


@layer("linear.Linear")
def linear(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten.linear.default")
    leaf.must_read_input(a, "input")
    out_features, in_features = leaf.weight(a, "weight")
    suffix = "" if leaf.has_weight(a, "bias") else "_no_bias"
    sizes = [
        leaf.number(in_features, "in_features", axis_of=("weight", 1)),
        leaf.number(out_features, "out_features", axis_of=("weight", 0)),
    ]
    return RuntimeLayer("Linear", constructor(f"linear{suffix}", *sizes))


@layer("sparse.Embedding")
def embedding(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten.embedding.default")
    leaf.must_read_input(a, "indices")
    count, size = leaf.weight(a, "weight")
    sizes = [
        leaf.number(count, "num_embeddings", axis_of=("weight", 0)),
        leaf.number(size, "embedding_dim", axis_of=("weight", 1)),
    ]
    return RuntimeLayer("Embedding", constructor("embedding", *sizes))
