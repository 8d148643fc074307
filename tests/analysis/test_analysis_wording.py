"""Durations and numbers as people read them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.analysis.wording import (
    MISSING,
    count,
    duration,
    listing,
    number,
    plural,
    rough_duration,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0000034, "3 µs"),
        (0.0012, "1.20 ms"),
        (0.25, "0.25 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 m 00 s"),
        (2470, "41 m 10 s"),
        (3599.6, "1 h 00 m"),
        (3780, "1 h 03 m"),
        (51 * 3600, "51 h 00 m"),
        (102 * 3600, "4 d 06 h"),
        (2000 * 86400, "2000 d"),
        (-90, "-1 m 30 s"),
        (float("inf"), MISSING),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


UNIT_S = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}


def parsed(text: str) -> float:
    return sum(float(n) * UNIT_S[unit] for n, unit in re.findall(r"([\d.]+) (µs|ms|[dhms])", text))


@given(st.floats(1e-5, 1e7))
def test_a_duration_reads_back_within_its_last_digit(seconds: float) -> None:
    text = duration(seconds)
    assert parsed(text) == pytest.approx(seconds, rel=0.06)
    # Rounding carries over: sixty seconds are a minute.
    assert not re.search(r"(?<![\d.])60(\.0)? [sm]\b", text)


@given(st.floats(1e-4, 1e7))
def test_a_rough_duration_has_two_digits(seconds: float) -> None:
    assert parsed(rough_duration(seconds)) == pytest.approx(seconds, rel=0.06)
    assert len(rough_duration(seconds)) <= 8


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (19.6, "20 s"), (185, "3.1 m"), (3599.99, "1.0 h")]
)
def test_rough_durations(seconds: float, text: str) -> None:
    assert rough_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2456.3, "2456"),
        (142.66, "142.7"),
        (17.8, "17.80"),
        (0.01234, "0.0123"),
        (0.0, "0.00"),
        (-21.0, "-21.00"),
        (1.5e8, "1.50e8"),
        (3e-7, "3.00e-7"),
        (float("nan"), MISSING),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_a_spread_is_written_as_its_mean_is() -> None:
    assert number(12.345, like=2456.0) == "12"
    assert number(0.25, like=17.8) == "0.25"


def test_words() -> None:
    assert count(27000) == "27\u00a0000"
    assert plural(1, "node") == "1 node"
    assert plural(1000, "trial") == "1\u00a0000 trials"
    assert [listing(["a", "b", "c"][:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
