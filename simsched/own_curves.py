"""Trials that go on along curves of their own after an exploit.

`simsched.replay.Neighbours` looks for a recorded curve to go on along, because a recording does
not hold what happens after hyperparameters change. Where the trials' own curves do, as those
that a live search left behind, or as those that a forecast makes up, nothing has to be found.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from simsched.messages import Hparams, TrialId
from simsched.replay import Cursor, Curve


class OwnCurves:
    """Stands in for `Neighbours`: a trial that exploits goes on where its own curve stands.

    A trial that diverged and took a donor's weights has its curve in pieces, one for each
    divergence that it outlived and one more. Each piece but the last ends "diverged"; counts go
    on from piece to piece, times begin anew.

    Args:
        curves: of the trials, as `SimulatedCluster` gets them: the first piece of each.
        later: the other pieces of those that have more, in order.
    """

    def __init__(
        self, curves: Sequence[Curve], later: Mapping[TrialId, Sequence[Curve]] | None = None
    ) -> None:
        self._pieces = [[curve] for curve in curves]
        for trial, pieces in (later or {}).items():
            self._pieces[trial] += pieces
        self._place = [0] * len(curves)

    def enter(
        self, trial: TrialId, hparams: Hparams, step: int, score: float, curve: Curve
    ) -> Cursor:
        """Return the cursor of a trial that has just taken a donor's weights.

        It stands at the first row whose count is `step` or more: the row of the milestone at
        which the trial exploits.

        Args:
            trial: the trial that exploits.
            hparams: its new hyperparameters; its curve was trained with them already.
            step: its own count, which it keeps.
            score: the donor's; it stands until rows of the trial's own follow.
            curve: the donor's, which is not needed.
        """
        del hparams, curve
        pieces, place = self._pieces[trial], self._place[trial]
        own = pieces[place]
        row = min(bisect_left(own.counts, step), len(own.counts) - 1)
        if own.end == "diverged" and row == len(own.counts) - 1 and place + 1 < len(pieces):
            self._place[trial] = place + 1
            own, row = pieces[place + 1], -1
        cursor = Cursor(own, trial)
        cursor.row = row
        cursor.score = score
        cursor.until = step
        return cursor

    def summary(self) -> dict[str, float]:
        """Return nothing: no trial walks a curve that is not its own."""
        return {}
