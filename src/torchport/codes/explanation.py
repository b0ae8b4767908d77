"""What is said of an error code."""

from typing import NamedTuple

from torchport.spelling import spelled


class Explanation(NamedTuple):
    """What a code stands for: its title, what it means, and what to do next."""

    title: str
    meaning: str
    fix: str

    def spelled(self) -> "Explanation":
        """The same with arguments as they are given here: by flags or from Python."""
        return Explanation(*map(spelled, self))
