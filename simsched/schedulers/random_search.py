"""Random search: every trial is trained to its full length. The baseline.

Rule: nothing is stopped early (Bergstra & Bengio 2012, "Random Search for
Hyper-Parameter Optimization", JMLR 13). A diverged trial ends where it
diverged.
"""

from simsched.messages import TrialId
from simsched.schedulers._in_place import InPlace


class RandomSearch(InPlace):
    """All trials to the end."""

    name = "random"
    summary = "every trial to its full length; no early stopping (the baseline)"

    def goes_on(self, place: int, trial: TrialId, score: float | None) -> bool:  # noqa: ARG002
        """Always."""
        return True
