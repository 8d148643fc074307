"""Rung and bracket sizes against the papers' tables and brute force."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsched.errors import SimschedError
from simsched.schedulers import Plan, build
from simsched.schedulers.hyperband import HyperBand, allotted
from simsched.schedulers.successive_halving import SuccessiveHalving, rung_sizes
from simsched.searchers import RandomSearcher
from simsched.space import PUBLISHED_GA3C

SEARCHER = RandomSearcher(PUBLISHED_GA3C, 0)


def test_hyperband_table_of_the_paper() -> None:
    """R = 81, eta = 3 (Li et al. 2018, table 1): B = 5 R."""
    made = HyperBand(Plan(143, 81, 1), SEARCHER, eta=3)
    sizes = [bracket.sizes for bracket in made.brackets]
    ends = [bracket.ends for bracket in made.brackets]
    assert [size[0] for size in sizes] == [81, 34, 15, 8, 5]
    assert [end[0] for end in ends] == [1, 3, 9, 27, 81]
    assert sizes == [(81, 27, 9, 3, 1), (34, 11, 3, 1), (15, 5, 1), (8, 2), (5,)]
    assert ends[0] == (1, 3, 9, 27, 81)
    assert made.notes == ()


@given(st.integers(1, 300), st.integers(1, 10), st.sampled_from([1.5, 2.0, 3.0, 4.0]))
def test_rung_sizes_are_repeated_floors(trials: int, rungs: int, eta: float) -> None:
    sizes = rung_sizes(trials, rungs, eta)
    assert sizes[0] == trials
    assert len(sizes) == rungs
    for before, after in pairwise(sizes):
        assert after == max(1, int(Fraction(before) / Fraction(eta)))


@given(st.integers(1, 5), st.sampled_from([1.5, 2.0, 3.0]), st.integers(0, 120))
def test_allotment_is_the_largest_budget_that_fits(brackets: int, eta: float, extra: int) -> None:
    """Against all budgets at which any bracket's size changes."""
    trials = brackets + extra
    factors = [Fraction(eta) ** s / (s + 1) for s in range(brackets - 1, -1, -1)]
    budgets = {Fraction(n) / factor for factor in factors for n in range(1, trials + 2)}
    fitting = [
        counts
        for counts in ([math.ceil(budget * factor) for factor in factors] for budget in budgets)
        if sum(counts) <= trials
    ]
    best = max(fitting, key=sum, default=[1] * brackets)
    got = allotted(trials, brackets, eta)
    assert sum(got) == trials
    assert got[1:] == best[1:]
    assert got[0] >= best[0]


def test_fewer_trials_than_brackets_drops_the_most_exploratory() -> None:
    made = HyperBand(Plan(3, 81, 1), SEARCHER, eta=3)
    assert [bracket.ends for bracket in made.brackets] == [(9, 27, 81), (27, 81), (81,)]
    assert [bracket.sizes[0] for bracket in made.brackets] == [1, 1, 1]
    assert made.notes == ("3 of 5 brackets, the least exploratory, as there are 3 trials",)


def test_lengths_that_are_not_whole_are_rounded() -> None:
    made = HyperBand(Plan(20, 10, 10), SEARCHER, eta=3)  # R = 100 units; 11.1, 33.3, 100
    assert made.brackets[0].ends == (11, 33, 100)


def test_halving_of_the_published_figure() -> None:
    """16 trials, up to 4 phases: 16 to phase 1, 8 to phase 2, 4 to phase 4."""
    made = SuccessiveHalving(Plan(16, 4, 100), SEARCHER)
    assert made.brackets[0].sizes == (16, 8, 4)
    assert made.brackets[0].ends == (100, 200, 400)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("asha:eta=1", "asha: eta=1 must be a number above 1"),
        ("hyperband:eta=0.5", "hyperband: eta=0.5 must be a number above 1"),
        ("hyperband:eta=nan", "hyperband: eta=nan must be a number above 1"),
        ("hypertrick:eviction_rate=1", "eviction_rate=1 must be a number above 0 and below 1"),
        ("hypertrick:eviction_rate=0", "eviction_rate=0 must be a number above 0 and below 1"),
        ("hypertrick:eviction_rate=a", "eviction_rate=a must be a number above 0 and below 1"),
        ("hyperband:brackets=9", "brackets=9 must be from 1 to 3 with 4 phases and eta=2"),
        ("pbt:quantile=0.6", "pbt: quantile=0.6 must be a number above 0 and at most 0.5"),
        ("pbt:interval=1.5", "pbt: interval=1.5 must be a whole number of at least 1"),
        ("median-stopping:grace=-1", "grace=-1 must be a whole number of at least 0"),
        ("asha:etta=3", "asha: unknown parameter 'etta' (did you mean 'eta'?); it has: eta, base"),
        ("asha:eta", "asha: 'eta' must read key=value"),
        ("asha:eta=2,eta=3", "asha: eta is given twice"),
        ("hypertrik", "unknown scheduler 'hypertrik' (did you mean 'hypertrick'?)"),
    ],
)
def test_bad_parameters_are_refused_with_the_allowed_range(text: str, message: str) -> None:
    with pytest.raises(SimschedError) as error:
        build(text, Plan(16, 4, 1), SEARCHER)
    assert message in str(error.value)


def test_rungs_that_round_to_one_place_are_refused() -> None:
    with pytest.raises(SimschedError, match="round to less than one resource unit apart"):
        build("asha:eta=1.1", Plan(16, 9, 1), SEARCHER)
