"""Milestones and their scores, beside a window that keeps every row for ever."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.live.protocol import LONGEST_LINE
from simsched.live.window import Reached, Score, Window, _plus
from simsched.messages import Unit

SCORES = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.1, 1e16, -1e16, 1e-300, 3.0, -0.0, 2.5e5])
)


class Naive(NamedTuple):
    """All rows of a trial."""

    rows: Sequence[Score]
    unit: Unit

    def count(self, index: int) -> float:
        row = self.rows[index]
        return {"steps": row.steps, "episodes": row.episodes, "seconds": row.seconds,
                "reports": index + 1}[self.unit]  # fmt: skip

    def milestones(self, lengths: Sequence[int]) -> list[Reached]:
        """Return what falls on each milestone, until the rows end."""
        found: list[Reached] = []
        begin = 0
        for until in lengths:
            hits = [k for k in range(len(self.rows)) if self.count(k) >= until]
            if not hits:
                break
            if hits[0] < begin:  # the row of the milestone before serves this one, too
                found.append(found[-1])
                continue
            scores = [row.score for row in self.rows[begin : hits[0] + 1]]
            # The exact sum, rounded once: what math.fsum promises.
            mean = float(sum(map(Fraction, scores))) / len(scores)
            found.append(Reached(mean, self.count(hits[0])))
            begin = hits[0] + 1
        return found


@st.composite
def trials(draw: st.DrawFn) -> list[Score]:
    rows = []
    seconds, steps = 0.0, 0
    for episode in range(1, draw(st.integers(1, 40)) + 1):
        seconds += draw(st.floats(0.0, 3.0))
        steps += draw(st.integers(1, 30))
        rows.append(Score(seconds, steps, episode, draw(SCORES)))
    return rows


@given(trials(), st.sampled_from(["steps", "episodes", "reports", "seconds"]), st.data())
def test_a_window_saved_at_any_moment_tells_what_all_rows_tell(
    rows: list[Score], unit: Unit, data: st.DataObject
) -> None:
    lengths = sorted(data.draw(st.sets(st.integers(1, 60), min_size=1, max_size=5)))
    lengths.append(10_000)  # which is never reached
    window, found, told = Window(unit, lengths[0]), list[Reached](), 0
    waiting = list(rows)
    while True:
        some = data.draw(st.integers(1, 6), label="rows at once")
        window.add(waiting[:some])
        waiting = waiting[some:]
        while (reached := window.milestone()) is not None:
            found.append(reached)
            told += 1
            window.until = lengths[told]
            if data.draw(st.booleans(), label="saved at the milestone"):
                since = lengths[told - 1]
                window = Window(unit, lengths[told], _as_json(window), since=since)
        if data.draw(st.booleans(), label="parked on the way"):
            since = lengths[told - 1] if told else 0
            window = Window(unit, lengths[told], _as_json(window), since=since)
        if not waiting:
            break
    assert found == Naive(rows, unit).milestones(lengths)


def _as_json(window: Window) -> dict[str, object]:
    state: dict[str, object] = msgspec.json.decode(msgspec.json.encode(window.state()))
    return state


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=60))
def test_the_sum_that_is_kept_is_exact(numbers: list[float]) -> None:
    total: list[float] = []
    for number in numbers:
        total = _plus(total, number)
    assert sum(map(Fraction, total)) == sum(map(Fraction, numbers))
    assert math.fsum(total) == math.fsum(numbers)


@pytest.mark.parametrize("unit", ["steps", "episodes", "reports"])
def test_the_state_of_a_hundred_thousand_episodes_fits_in_a_line(unit: Unit) -> None:
    window = Window(unit, 10**9)
    for k in range(0, 100_000, 1000):
        window.add(
            [Score(j / 7, j * 9, j, math.sin(j) * 1e3) for j in range(k * 1000 - 999, k * 1000 + 1)]
        )
        assert window.milestone() is None
    assert len(msgspec.json.encode(window.state())) < 2000 < LONGEST_LINE
