"""Ways to damage a file: bits flipped, parts cut, repeated, spliced from another file, tokens and opcodes inserted."""

from __future__ import annotations

import json
import random
from typing import Any

from benchmarks.fuzzing.formats import Format


def damaged(rng: random.Random, format_: Format) -> bytes:
    content = rng.choice(format_.wholes)
    damages = DAMAGES if not format_.is_tree else (*DAMAGES, *(change_a_node,) * 4 * len(DAMAGES))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        content = rng.choice(damages)(rng, content, format_)
    return content


def _place(rng: random.Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def _slice(rng: random.Random, content: bytes) -> tuple[int, int]:
    first = _place(rng, content)
    return first, min(len(content), first + rng.choice((1, 2, 8, 40, 300)))


def flip_a_bit(rng: random.Random, content: bytes, _: Format) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def set_a_byte(rng: random.Random, content: bytes, _: Format) -> bytes:
    place = _place(rng, content)
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]


def cut(rng: random.Random, content: bytes, _: Format) -> bytes:
    return content[: _place(rng, content)]


def drop(rng: random.Random, content: bytes, _: Format) -> bytes:
    first, last = _slice(rng, content)
    return content[:first] + content[last:]


def repeat(rng: random.Random, content: bytes, _: Format) -> bytes:
    first, last = _slice(rng, content)
    return content[:last] + content[first:last] * rng.choice((1, 2, 50)) + content[last:]


def splice(rng: random.Random, content: bytes, format_: Format) -> bytes:
    other = rng.choice(format_.wholes)
    first, last = _slice(rng, other)
    place = _place(rng, content)
    return rng.choice(
        (content[:place] + other[first:], content[:place] + other[first:last] + content[place:])
    )


def overwrite(rng: random.Random, content: bytes, format_: Format) -> bytes:
    place, inserted = _place(rng, content), rng.choice(format_.worth_inserting)
    return content[:place] + inserted + content[place + len(inserted) :]


def insert(rng: random.Random, content: bytes, format_: Format) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.choice(format_.worth_inserting) + content[place:]


def replace_a_token(rng: random.Random, content: bytes, format_: Format) -> bytes:
    """Puts something else in place of something that is worth inserting, at one of the places that have it."""
    found = [token for token in format_.worth_inserting if token in content]
    if not found:
        return content
    token = rng.choice(found)
    parts = content.split(token)
    place = rng.randrange(1, len(parts))
    return token.join(parts[:place]) + rng.choice(format_.worth_inserting) + token.join(parts[place:])


def change_a_node(rng: random.Random, content: bytes, format_: Format) -> bytes:
    """Puts something else in place of one node of a tree, or takes it out, or puts it in twice."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return content
    places = list(_places(tree))
    if not places:
        return content
    holder, key = rng.choice(places)
    other_holder, other_key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, other_holder[other_key])
        case 2:
            holder[key], other_holder[other_key] = other_holder[other_key], holder[key]
        case 3:
            holder[key] = other_holder[other_key]
        case _:
            holder[key] = _another(rng, holder[key])
    try:
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):
        return content


def _places(tree: Any) -> Any:
    """Every list or object with every key that it has."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _another(rng: random.Random, value: Any) -> Any:
    """Something like a value, or something else."""
    if isinstance(value, bool) or rng.random() < 0.2:
        return rng.choice((None, True, False, 0, -1, 1.5, "", "x", [], {}, [1, 2], {"value": "x"}))
    if isinstance(value, int | float):
        return rng.choice(
            (value + 1, value - 1, -value, 0, 2**31, 2**40, 2**63, 2**80, 10**15, 1e300, float("inf"))
        )
    return rng.choice(WORDS) if isinstance(value, str) else value


WORDS = (
    *(
        "aten.split.Tensor",
        "aten.unbind.int",
        "aten.zeros.default",
        "aten.full.default",
        "aten.arange.start_step",
    ),
    *("aten.expand.default", "aten.repeat.default", "aten.constant_pad_nd.default", "aten.resize_.default"),
    *(
        "aten.add_.Tensor",
        "aten.from_file.default",
        "aten.one_hot.default",
        "aten.nonzero.default",
        "os.system",
    ),
    *(
        "aten.relu.default",
        "aten.linear.default",
        "aten.rand.default",
        "aten.eye.default",
        "aten.chunk.default",
    ),
    *(
        "activation:relu",
        "activation:none",
        "dense",
        "convolution",
        "sparse",
        "aligned",
        "bias",
        "sum",
        "array",
    ),
    *(
        "input",
        "constant",
        "memory",
        "weighted sum",
        "function",
        "product",
        "reduction",
        "selection",
        "wiring",
    ),
    *(
        "float32",
        "float64",
        "bfloat16",
        "bool",
        "int64",
        "complex64",
        "quint8",
        "save",
        "fc1.weight",
        "fc1.bias",
    ),
    *(
        "present",
        "row",
        "added.row",
        "added.number",
        "cpu",
        "cuda",
        "meta",
        "removed",
        "torchport.cond.default",
    ),
)


DAMAGES = (flip_a_bit, set_a_byte, cut, drop, repeat, splice, overwrite, insert, insert, replace_a_token)
