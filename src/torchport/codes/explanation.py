"""What is said of an error code."""

from typing import NamedTuple


class Explanation(NamedTuple):
    """What a code stands for: its title, what it means, and what to do next."""

    title: str
    meaning: str
    fix: str
