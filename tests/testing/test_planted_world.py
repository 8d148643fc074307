"""Every scheduler under the coordinator, on a small cluster that fails in every way."""

import planted_checks as checks
import pytest
from naive.cases import SCHEDULERS


@pytest.mark.parametrize("rates", checks.RATES)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_whatever_fails_the_invariants_hold_and_the_books_balance(
    scheduler: str, rates: str
) -> None:
    checks.world(scheduler, rates, seeds=15)


@pytest.mark.long
@pytest.mark.parametrize("rates", checks.RATES)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_same_on_many_seeds(scheduler: str, rates: str) -> None:
    checks.world(scheduler, rates, seeds=3000)
