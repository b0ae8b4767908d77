"""From "it differs" to the cause: the operation, hypotheses that are computed, and the smallest thing that fails."""

from torchport.explain.explanation import explained

__all__ = ["explained"]
