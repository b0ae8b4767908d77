"""The graph minifier: from a graph that fails to a script of a few operations that fails in the same way."""

from torchport.debug.minifier.failure import Failure
from torchport.debug.minifier.minifier import Minifier
from torchport.debug.minifier.result import MinifiedGraph

__all__ = ["Failure", "MinifiedGraph", "Minifier"]
