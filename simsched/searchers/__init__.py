"""Where hyperparameters come from: random draws, a grid, or a given list."""

from simsched.searchers.given import Given
from simsched.searchers.grid import Grid
from simsched.searchers.random import RandomSearcher

__all__ = ["Given", "Grid", "RandomSearcher"]
