"""Grid search: every combination, in the space's order, the last parameter fastest."""

from simsched.messages import Hparams, TrialId
from simsched.searchers.random import RandomSearcher
from simsched.space import SearchSpace


class Grid(RandomSearcher):
    """The full grid with `points` values for each number; it runs out at its end."""

    def __init__(self, space: SearchSpace, seed: int, points: int = 3) -> None:
        super().__init__(space, seed)
        self.configurations = list(space.grid(points))

    def suggest(self, trial: TrialId) -> Hparams | None:
        """Return the configuration of `trial`, or None past the end of the grid."""
        return self.configurations[trial] if trial < len(self.configurations) else None
