"""Configurations that are given: recorded trials to replay, or a user's own list."""

from collections.abc import Sequence

from simsched.messages import Hparams, TrialId
from simsched.searchers.random import RandomSearcher
from simsched.space import SearchSpace


class Given(RandomSearcher):
    """Hands out `configurations` in their order; it runs out at their end."""

    def __init__(self, configurations: Sequence[Hparams], space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self.configurations = configurations

    def suggest(self, trial: TrialId) -> Hparams | None:
        """Return the configuration of `trial`, or None past the end of the list."""
        return self.configurations[trial] if trial < len(self.configurations) else None
