"""The table of error codes: what `torchport explain CODE` says of each."""

from torchport.codes.compiling import COMPILING
from torchport.codes.explanation import Explanation
from torchport.codes.neurons import NEURONS
from torchport.codes.ports import PORTS

__all__ = ["CODES", "Explanation"]

CODES: dict[str, Explanation] = {**PORTS, **NEURONS, **COMPILING}
