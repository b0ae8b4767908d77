"""Ways to damage a file: bits flipped, parts cut, repeated, spliced from another file, tokens and opcodes inserted."""

from __future__ import annotations

import random

from benchmarks.fuzzing.formats import Format


def damaged(rng: random.Random, format_: Format) -> bytes:
    content = rng.choice(format_.wholes)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        content = rng.choice(DAMAGES)(rng, content, format_)
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


DAMAGES = (flip_a_bit, set_a_byte, cut, drop, repeat, splice, overwrite, insert, insert, replace_a_token)
