"""What schedulers do at the edges: default settings, seeded draws, errors by name, snapshots."""

from typing import Any

import pytest

from simsched.errors import SimschedError
from simsched.messages import Checkpoint, Continue, Exploit, Pause, Report, Stop
from simsched.schedulers import REGISTRY, Plan, Scheduler, build, parse
from simsched.testing.contract_values import Configurations


def settings(scheduler: Scheduler) -> dict[str, Any]:
    """Return what a scheduler was set to, as far as that is plain numbers."""
    kept = {k: v for k, v in vars(scheduler).items() if isinstance(v, int | float | tuple)}
    brackets = [(one.sizes, one.ends) for one in getattr(scheduler, "brackets", ())]
    return kept | {"brackets": brackets}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_what_is_left_out_is_as_declared(name: str) -> None:
    declared = [p for p in REGISTRY[name].parameters if p.default is not None]
    text = ",".join(f"{parameter.name}={parameter.default}" for parameter in declared)
    plan = Plan(16, 9, 10)
    short, long = (build(one, plan, Configurations(16)) for one in (name, f"{name}:{text}"))
    assert settings(short) == settings(long)


def test_as_many_brackets_as_fit_are_allowed() -> None:
    plan, searcher = Plan(8, 4, 5), Configurations(8)
    assert len(build("hyperband:brackets=3", plan, searcher).brackets) == 3  # type: ignore[attr-defined]
    with pytest.raises(SimschedError) as error:
        build("hyperband:brackets=4", plan, searcher)
    assert str(error.value) == ("hyperband: brackets=4 must be from 1 to 3 with 4 phases and eta=2")


@pytest.mark.parametrize("name", ["successive-halving", "asha", "asha-stop", "hyperband"])
def test_an_error_of_rungs_too_close_names_the_scheduler(name: str) -> None:
    with pytest.raises(SimschedError) as error:
        build(f"{name}:eta=1.2", Plan(20, 9, 1), Configurations(20))
    assert str(error.value).startswith(f"{name}: rungs at 1")


def test_a_value_begins_after_the_first_equals_sign() -> None:
    with pytest.raises(SimschedError) as error:
        parse("asha:eta=2=3")
    assert str(error.value) == "asha: eta=2=3 must be a number above 1"


def test_a_snapshot_of_another_number_of_brackets_is_refused() -> None:
    made = build("hyperband", Plan(8, 4, 5), Configurations(8))
    state = made.snapshot()
    with pytest.raises(ValueError, match="zip"):
        made.restore({"brackets": state["brackets"][:-1]})


def donors(seed: int) -> list[int]:
    """Let the weak half of eight members copy; return whom they copy."""
    made = build("pbt:quantile=0.5", Plan(8, 3, 5, seed), Configurations(8))
    for _ in range(8):
        made.ask()
    for trial in range(8):
        made.tell(Report(trial, 5, float(trial)))
    copied = []
    for trial in range(4):
        verdict = made.tell(Report(trial, 10, trial / 10)).verdict
        assert isinstance(verdict, Exploit)
        copied.append(verdict.donor.trial)
    return copied


def test_the_same_seed_draws_the_same_donors_in_every_version() -> None:
    """What was journalled by one version is repeated by the next."""
    assert donors(0) == [6, 4, 4, 5]
    assert donors(1) == [6, 5, 7, 7]


@pytest.mark.parametrize("seed", range(4))
def test_a_diverged_member_copies_the_best_though_its_share_is_nobody(seed: int) -> None:
    made = build("pbt", Plan(3, 3, 5, seed), Configurations(3))
    for _ in range(3):
        made.ask()
    made.tell(Report(0, 5, 1.0))
    made.tell(Report(1, 5, 0.5))
    verdict = made.tell(Report(2, 5, None)).verdict
    assert isinstance(verdict, Exploit)
    assert verdict.donor == Checkpoint(0, 5)


def test_a_member_does_not_yield_to_one_that_is_as_far() -> None:
    made = build("pbt", Plan(2, 3, 5), Configurations(2))
    made.ask()
    assert made.tell(Report(0, 5, 1.0)).verdict == Pause(), "trial 1 has not begun"
    made.ask()
    assert made.tell(Report(1, 5, 2.0)).verdict == Continue(10)


def test_of_two_reports_asha_stop_keeps_one() -> None:
    made = build("asha-stop", Plan(4, 4, 5), Configurations(4))
    made.ask()
    made.ask()
    assert made.tell(Report(0, 5, 2.0)).verdict == Continue(10)
    assert made.tell(Report(1, 5, 1.0)).verdict == Stop()


def test_median_stopping_forgets_who_is_over() -> None:
    made = build("median-stopping:grace=0", Plan(3, 2, 5), Configurations(3))
    for _ in range(3):
        made.ask()
    made.tell(Report(0, 5, 2.0))
    made.tell(Report(1, 5, 1.0))
    assert [trial for trial, _, _ in made.snapshot()["history"]] == [0], "trial 1 was stopped"
    made.tell(Report(0, 10, 2.0))
    assert made.snapshot()["history"] == []
