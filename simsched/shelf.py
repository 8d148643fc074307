"""Which checkpoints are durable, and which of them nothing needs any more."""

from collections.abc import Collection

from simsched.messages import Checkpoint, TrialId


class Shelf:
    """The durable checkpoints of a run. `keep_best`: see `Policy`."""

    def __init__(self, keep_best: int) -> None:
        self.keep_best = keep_best
        self._durable: set[Checkpoint] = set()
        self._newest: dict[TrialId, Checkpoint] = {}
        self._best: dict[TrialId, tuple[float, Checkpoint]] = {}
        """By trial: its best score at a milestone, and the checkpoint there, durable or not."""

    def __contains__(self, checkpoint: Checkpoint) -> bool:
        return checkpoint in self._durable

    @property
    def durable(self) -> set[Checkpoint]:
        """The durable checkpoints."""
        return set(self._durable)

    def scored(self, trial: TrialId, step: int, score: float) -> None:
        """A trial reported a score at a milestone."""
        if trial not in self._best or score > self._best[trial][0]:
            self._best[trial] = score, Checkpoint(trial, step)

    def add(self, checkpoint: Checkpoint) -> None:
        """A checkpoint has become durable."""
        self._durable.add(checkpoint)
        self._newest[checkpoint.trial] = checkpoint

    def spoilt(self, checkpoint: Checkpoint) -> None:
        """A checkpoint has turned out to be damaged."""
        self._durable.discard(checkpoint)
        if self._newest.get(checkpoint.trial) == checkpoint:
            del self._newest[checkpoint.trial]

    def newest(self, trial: TrialId) -> Checkpoint | None:
        """Return the trial's newest durable checkpoint."""
        return self._newest.get(trial)

    def best(self) -> list[tuple[TrialId, float, Checkpoint]]:
        """Return the best trials with their best scores, best first, where it is durable."""
        ranked = sorted(self._best.items(), key=lambda item: (-item[1][0], item[0]))
        kept = [(t, score, c) for t, (score, c) in ranked if c in self._durable]
        return kept[: self.keep_best]

    def clear_out(self, needed: Collection[Checkpoint], *, keep_newest: bool) -> list[Checkpoint]:
        """Forget what nothing needs, and return it in order.

        Args:
            needed: what trials go on from, or may.
            keep_newest: whether the newest of every trial is needed.
        """
        keep = {*needed, *(checkpoint for _, _, checkpoint in self.best())}
        if keep_newest:
            keep.update(self._newest.values())
        gone = sorted(self._durable - keep, key=lambda each: (each.trial, each.step))
        for checkpoint in gone:
            self.spoilt(checkpoint)
        return gone
