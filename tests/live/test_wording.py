"""Counts, times, sizes, shares and scores of a search that runs, in few characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.live.wording import clock, figure, printable, share, short, size


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (12.345, "12.3"), (999.6, "1.00k"), (12_345, "12.3k"),
     (123_456, "123k"), (1_250_000, "1.25M"), (999_600, "1.00M"), (20_000, "20k"), (3e9, "3G"),
     (0.512, "0.51")],
)  # fmt: skip
def test_counts_are_short(value: float, text: str) -> None:
    assert short(value) == text


@given(st.floats(0, 9.99e11))
def test_short_counts_have_three_digits(value: float) -> None:
    text = short(value)
    assert len(text) <= 5
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    read = float(text.rstrip("kMG")) * units.get(text[-1], 1)
    assert read == pytest.approx(value, rel=0.006, abs=0.006)


def test_words() -> None:
    assert [clock(s) for s in (0, 59.6, 723, 360_000, -3)] == [
        "0:00:00", "0:01:00", "0:12:03", "100:00:00", "0:00:00",
    ]  # fmt: skip
    assert [size(b) for b in (0, 950, 1000, 12_345_678, 1_300_000_000, 2 * 10**12)] == [
        "0 B", "950 B", "1 kB", "12.3 MB", "1.30 GB", "2 TB",
    ]  # fmt: skip
    assert [share(s) for s in (0, 0.004, 0.624, 0.996, 1, 1.3)] == [
        "0 %", "0 %", "62 %", "99 %", "100 %", "100 %",
    ]  # fmt: skip
    scores = (None, 0.001234, -21.0, 340.25, -12345.67, -0.00012345, 123456.0, -1.5e30)
    assert [figure(score) for score in scores] == [
        "–", "0.001234", "-21", "340.2", "-12345.7", "-0.00012", "123k", "-1.5e+30",
    ]  # fmt: skip
    assert printable("a\tb\x1b[0m\n") == "a b [0m"
