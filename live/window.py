"""When a trial reaches its milestone, and with what score: the rule that replays follow, too.

A milestone falls on the first row whose count is `until` or more. Its score is the mean of the
rows since the row of the milestone before; later rows count for the next one.
"""

import math
from collections import deque
from typing import Any, NamedTuple

import msgspec

from simsched.live.protocol import Welcome
from simsched.messages import Unit


class Score(NamedTuple):
    """A finished episode, epoch or report; the first three are cumulative in the trial."""

    seconds: float
    steps: int
    episodes: int
    score: float


class Reached(msgspec.Struct, frozen=True):
    """A milestone that is reached."""

    score: float
    count: float
    """The row's, in the run's unit."""


class WindowState(msgspec.Struct, frozen=True):
    """What a checkpoint has to keep of a window."""

    rows: list[tuple[float, int, int, float]] = []
    """Rows that may belong to the next milestone, or to the one after it."""
    summed: int = 0
    """Rows before those that do belong to the next milestone."""
    total: list[float] = []
    """Their scores' sum, exactly: floats that add up to it."""
    reports: int = 0
    last_count: float = -1.0
    last_score: float | None = None


class Window:
    """The rows of a trial since its last milestone."""

    def __init__(
        self,
        unit: Unit,
        until: int,
        state: dict[str, Any] | None = None,
        *,
        since: int = 0,
        count: float = 0.0,
    ) -> None:
        """Begin, or go on from what `state()` gave.

        Args:
            unit: what progress is counted in.
            until: the milestone to come.
            state: of the checkpoint that the trial goes on from, if that is its own.
            since: the milestone told last. Where the trial begins before it, because training was
                lost, the rows up to it were told already and do not count.
            count: the trial's own count where it begins, if it has no state.

        Raises:
            msgspec.ValidationError: `state` is none that a window gave.
        """
        fresh = WindowState(reports=int(count), last_count=count)
        kept = msgspec.convert(state, WindowState) if state else fresh
        self.unit = unit
        self.until = until
        self._rows = deque(Score(*row) for row in kept.rows)
        self._summed, self._total = kept.summed, list(kept.total)
        self._reports = kept.reports
        """Rows before those of `_rows`: the count in the unit `reports`."""
        self._last_count = kept.last_count
        self._last_score = kept.last_score
        self._told = since if max(kept.last_count, count) < since else None
        """A milestone to pass by in silence."""

    def add(self, rows: list[Score]) -> None:
        """Take in rows, in order."""
        self._rows.extend(rows)

    def milestone(self) -> Reached | None:
        """Return the milestone if its row is there; the rows up to it are used up then."""
        if self._told is not None:
            if self._use(self._told) is None:
                return None
            self._told = None
        if self._last_score is not None and self._last_count >= self.until:
            return Reached(self._last_score, self._last_count)  # one row can serve several
        return self._use(self.until)

    def _use(self, until: int) -> Reached | None:
        while self._rows:
            row = self._rows.popleft()
            self._reports += 1
            self._summed += 1
            self._total = _plus(self._total, row.score)
            count = self._count(row)
            if count >= until:
                score = math.fsum(self._total) / self._summed
                self._summed, self._total = 0, []
                self._last_count, self._last_score = count, score
                return Reached(score, count)
        return None

    def _count(self, row: Score) -> float:
        return float(self._reports if self.unit == "reports" else getattr(row, self.unit))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has to keep, as JSON values: small, however many rows."""
        rows = [(row.seconds, row.steps, row.episodes, row.score) for row in self._rows]
        state: dict[str, Any] = msgspec.to_builtins(
            WindowState(
                rows, self._summed, self._total,
                self._reports, self._last_count, self._last_score,
            )
        )  # fmt: skip
        return state


def _plus(total: list[float], number: float) -> list[float]:
    """Add a number to an exact sum.

    Both sums are floats that do not overlap, the smallest first; each step's rounding error is
    a float, too, and is kept (Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic,
    Grow-Expansion).
    """
    grown = []
    for part in total:
        large = number + part
        of_part = large - number
        error = (number - (large - of_part)) + (part - of_part)
        if error:
            grown.append(error)
        number = large
    return [*grown, number]


def window_of(welcome: Welcome) -> Window:
    """Return the window that a trial goes on with. Raises msgspec.ValidationError."""
    source = welcome.source
    if source is not None and source.trial == welcome.trial:
        state = source.state.get("window")
        return Window(welcome.unit, welcome.until, state, since=welcome.since)
    name = "episodes" if welcome.unit == "reports" else welcome.unit  # one row an episode
    count = float(getattr(welcome, name))
    return Window(welcome.unit, welcome.until, since=welcome.since, count=count)
