"""Random search over the space: trial i's draw depends on the seed and i alone."""

from simsched.draws import keyed
from simsched.messages import Hparams, Key, TrialId
from simsched.space import SearchSpace


class RandomSearcher:
    """Draws every trial from the space; never runs out."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self.space = space
        self.seed = seed

    def suggest(self, trial: TrialId) -> Hparams | None:
        """Return the configuration of `trial`."""
        return self.space.sample(keyed(self.seed, "suggest", trial))

    def perturb(
        self, hparams: Hparams, key: Key, *, factor: float, resample_probability: float
    ) -> Hparams:
        """Return a changed copy; see `SearchSpace.perturb`."""
        rng = keyed(self.seed, "perturb", *key)
        return self.space.perturb(hparams, rng, factor, resample_probability)
