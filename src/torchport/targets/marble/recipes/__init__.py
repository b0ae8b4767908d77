"""How operations of torch are expressed as neurons; importing the topics fills the table."""

from torchport.targets.marble.recipes import (  # noqa: F401
    arithmetic,
    functions,
    norms,
    products,
    recurrent,
    reductions,
    selections,
    wiring,
)
from torchport.targets.marble.recipes.registry import RECIPES, recipe

__all__ = ["RECIPES", "recipe"]
