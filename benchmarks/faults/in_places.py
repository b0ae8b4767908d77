"""Faults that leave an operation as it is and spoil its operands or its result: repeated, moved, zeroed, scaled."""

from __future__ import annotations

from collections.abc import Callable

from torchport.capture.graph import Arg, Dim, Node, Ref, TensorMeta

from .in_layers import fault, grown
from .rewrite import Place

_LAYERS = ("linear", "conv2d", "addmm", "layer_norm", "embedding")
_ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid", "hardswish")


def _then(place: Place, *nodes: Callable[[Ref], tuple[str, str, tuple[Arg, ...]]]) -> list[Node]:
    """The operation, and then others of the same shape, each of which reads the one before; the last has its name."""
    found = [place.first()]
    for make in nodes[:-1]:
        name, op, args = make(Ref(found[-1].name))
        found.append(place.new(name, op, *args, meta=place.output))
    _, op, args = nodes[-1](Ref(found[-1].name))
    return [*found, *place.instead(op, *args)]


def _is_layer(place: Place, rank: int = 2) -> bool:
    return place.op in _LAYERS and place.output.dtype == "float32" and place.output.rank >= rank


def _pieces(place: Place, axis: int, *ranges: tuple[Dim, Dim, Dim]) -> list[Node]:
    """The operation, and slices of its result along an axis, each by its start, its end and its size."""
    first = place.first()
    made = [first]
    for index, (start, end, size) in enumerate(ranges):
        shape = tuple(size if at == axis else one for at, one in enumerate(place.output.shape))
        meta = TensorMeta(shape, place.output.dtype)
        made.append(
            place.new(f"piece_{index}", "aten.slice.Tensor", Ref(first.name), axis, start, end, meta=meta)
        )
    return made


def _tokens(place: Place) -> tuple[int, Dim] | None:
    """The last axis but one, which is that of tokens or of rows, and its size."""
    axis = place.output.rank - 2
    size = place.output.shape[axis] if _is_layer(place, 3) else 0
    return None if isinstance(size, int) and size < 3 else (axis, size)


def _joined(place: Place, axis: int, pieces: list[Node], *parts: Node) -> list[Node]:
    return [*pieces, *place.instead("aten.cat.default", [Ref(part.name) for part in parts], axis)]


@fault("rolled by one")
def rolled_by_one(place: Place) -> list[Node] | None:
    tokens = _tokens(place)
    if tokens is None:
        return None
    axis, size = tokens
    most = grown(size, -1)
    pieces = _pieces(place, axis, (0, most, most), (most, size, 1))
    return _joined(place, axis, pieces, pieces[2], pieces[1])


@fault("halves exchanged")
def halves_exchanged(place: Place) -> list[Node] | None:
    """The two halves of the last axis in the other order."""
    axis = place.output.rank - 1
    size = place.output.shape[axis] if _is_layer(place) else None
    if not isinstance(size, int) or size < 4 or size % 2:
        return None
    half = size // 2
    pieces = _pieces(place, axis, (0, half, half), (half, size, half))
    return _joined(place, axis, pieces, pieces[2], pieces[1])


@fault("last slice zeroed")
def last_slice_zeroed(place: Place) -> list[Node] | None:
    tokens = _tokens(place)
    if tokens is None:
        return None
    axis, size = tokens
    most = grown(size, -1)
    pieces = _pieces(place, axis, (0, most, most), (most, size, 1))
    last = pieces[2]
    meta = last.outputs[0]
    assert meta is not None
    zero = place.new("zero", "aten.mul.Tensor", Ref(last.name), 0.0, meta=meta)
    return _joined(place, axis, [*pieces, zero], pieces[1], zero)


@fault("first slice dropped")
def first_slice_dropped(place: Place) -> list[Node] | None:
    """All others move up by one, and zeros come in at the end."""
    tokens = _tokens(place)
    if tokens is None:
        return None
    axis, size = tokens
    pieces = _pieces(place, axis, (1, size, grown(size, -1)), (0, 1, 1))
    meta = pieces[2].outputs[0]
    assert meta is not None
    zero = place.new("zero", "aten.mul.Tensor", Ref(pieces[2].name), 0.0, meta=meta)
    return _joined(place, axis, [*pieces, zero], pieces[1], zero)


@fault("scale of 1.0005")
def scaled_a_little(place: Place) -> list[Node] | None:
    return _then(place, lambda y: ("scaled", "aten.mul.Tensor", (y, 1.0005))) if _is_layer(place) else None


@fault("value clipped")
def clipped(place: Place) -> list[Node] | None:
    if not _is_layer(place):
        return None
    return _then(place, lambda y: ("clipped", "aten.clamp.default", (y, -0.5, 0.5)))


@fault("activation twice")
def activation_twice(place: Place) -> list[Node] | None:
    if place.op not in _ACTIVATIONS or place.op == "relu":
        return None
    first = place.first()
    return [first, *place.changed(self=Ref(first.name))]


@fault("residual twice")
def residual_twice(place: Place) -> list[Node] | None:
    terms = [place["self"], place["other"]] if place.op == "add" else []
    if not terms or not all(place.is_float(term) for term in terms):
        return None
    if any(place.weight(term) or place.meta(term).shape != place.output.shape for term in terms):
        return None
    return _then(place, lambda y: ("again", "aten.add.Tensor", (y, terms[0])))


@fault("bias twice")
def bias_twice(place: Place) -> list[Node] | None:
    bias = place["bias"] if place.op == "linear" else None
    if bias is None or place.weight(bias) is None:
        return None
    return _then(place, lambda y: ("again", "aten.add.Tensor", (y, bias)))


@fault("number applied twice")
def number_applied_twice(place: Place) -> list[Node] | None:
    """A temperature or a scale."""
    if place.op not in ("mul", "div") or not isinstance(place["other"], float) or not place.output.is_float:
        return None
    first = place.first()
    return [first, *place.changed(self=Ref(first.name))]


@fault("sign")
def other_sign(place: Place) -> list[Node] | None:
    """A sine with the other sign turns the other way."""
    return _then(place, lambda y: ("turned", "aten.neg.default", (y,))) if place.op == "sin" else None


@fault("another operand")
def another_operand(place: Place) -> list[Node] | None:
    """The other operand of a sum or a product is taken twice, or keys for values."""
    if place.op == "scaled_dot_product_attention":
        key, value = place["key"], place["value"]
        same = place.meta(key).shape == place.meta(value).shape and key != value
        return place.changed(value=key) if same else None
    return None


@fault("another operand")
def residual_of_another_place(place: Place) -> list[Node] | None:
    """A sum reads another value of the layer than it should."""
    terms = [place["self"], place["other"]] if place.op == "add" else []
    if not terms or not all(isinstance(t, Ref) and place.is_float(t) and not place.weight(t) for t in terms):
        return None
    at = place.module.nodes.index(place.node)
    values = [Ref(item.name) for item in place.module.inputs]
    values += [Ref(node.name) for node in place.module.nodes[:at] if len(node.outputs) == 1]
    for other in values:
        if other not in terms and place.meta(other) == place.meta(terms[0]) == place.output:
            return place.changed(self=other)
    return None
