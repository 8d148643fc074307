"""What mutants of the schedulers showed that nothing had tested: settings, notes, registry."""

import pytest

from simsched.errors import SimschedError
from simsched.messages import Report
from simsched.schedulers import (
    REGISTRY,
    InPlace,
    Parameter,
    Plan,
    build,
    lookup,
    parse,
    register,
    registered,
)
from simsched.schedulers._base import available
from simsched.schedulers.hyperband import deepest
from simsched.testing.contract_values import Configurations


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("asha:etta=3", "asha: unknown parameter 'etta' (did you mean 'eta'?); it has: eta, base"),
        ("random:eta=3", "random: unknown parameter 'eta'; it has: none"),
        ("asha:eta", "asha: 'eta' must read key=value"),
        ("asha:eta=2,eta=3", "asha: eta is given twice"),
        ("asha:base=0", "asha: base=0 must be a number above 0"),
        ("pbt:quantile=x", "pbt: quantile=x must be a number above 0 and at most 0.5"),
        ("pbt:resample_probability=2",
         "pbt: resample_probability=2 must be a number of at least 0 and at most 1"),
        ("hyperband:brackets=0", "hyperband: brackets=0 must be a whole number of at least 1"),
    ],
)  # fmt: skip
def test_bad_parameters_word_for_word(text: str, says: str) -> None:
    with pytest.raises(SimschedError) as error:
        parse(text)
    assert str(error.value) == says


def test_parameters_are_read_with_blanks_and_auto() -> None:
    assert parse("asha: eta = 3 ,, base=2,")[1] == {"eta": 3.0, "base": 2.0}
    assert parse("hyperband:brackets=auto")[1] == {"brackets": None}
    assert parse("pbt:interval=2")[1] == {"interval": 2}
    whole = Parameter("k", int, 1, "", at_least=0, at_most=5)
    assert [whole.parse("s", value) for value in (2, 2.0, "5", 0)] == [2, 2, 5, 0]
    for bad in (2.5, "2.5", float("inf"), None, "auto", 6, -1):
        with pytest.raises(SimschedError, match="must be a whole number of at least 0 and at mo"):
            whole.parse("s", bad)


def test_a_name_is_registered_once() -> None:
    class Mine(InPlace):
        name, summary = "only-here", "for tests"

    try:
        assert register(Mine) is Mine
        assert register(Mine) is Mine
        assert Mine in registered()
        assert lookup("only-here") is Mine
        other = type("Other", (InPlace,), {"name": "only-here", "summary": ""})
        with pytest.raises(SimschedError) as error:
            register(other)
        assert str(error.value) == "a scheduler named 'only-here' is registered already"
    finally:
        del REGISTRY["only-here"]
    with pytest.raises(SimschedError) as error:
        lookup("only-here")
    assert str(error.value).startswith(
        "unknown scheduler 'only-here'; there are: successive-halving, h"
    )


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("asha:base=4", "asha: base=4 is not below the 4 phases, so nothing is stopped early"),
        ("asha-stop:base=9",
         "asha-stop: base=9 is not below the 4 phases, so nothing is stopped early"),
        ("successive-halving:base=4.5",
         "successive-halving: base=4.5 is not below the 4 phases, so nothing is stopped early"),
        ("median-stopping:grace=4",
         "median-stopping: grace=4 is not below the 4 phases, so nothing is stopped early"),
        ("pbt:interval=4",
         "pbt: interval=4 is not below the 4 phases, so nothing is stopped early"),
        ("hyperband:eta=1.4",
         "3 of 5 brackets, the least exploratory, as there are 3 trials"),
        ("asha:base=3", None), ("asha-stop", None), ("successive-halving", None),
        ("median-stopping:grace=3", None), ("pbt:interval=3", None), ("hyperband:eta=2", None),
    ],
)  # fmt: skip
def test_notes_say_what_the_plan_leaves_nothing_to_do_for(text: str, note: str | None) -> None:
    made = build(text, Plan(3, 4, 10), Configurations(3))
    assert made.notes == (() if note is None else (note,))


def test_rungs_too_close_are_refused_word_for_word() -> None:
    with pytest.raises(SimschedError) as error:
        build("asha:eta=1.5", Plan(3, 9, 1), Configurations(3))
    assert str(error.value) == (
        "asha: rungs at 1, 1.5, … phases of 1 (eta=1.5) round to less than one resource unit "
        "apart; make phases or eta larger"
    )
    with pytest.raises(SimschedError, match=r"rungs at 0\.4, 0\.8, … phases of 1 \(eta=2\)"):
        build("asha:base=0.4", Plan(3, 9, 1), Configurations(3))


def test_brackets_have_a_limit() -> None:
    with pytest.raises(SimschedError) as error:
        deepest(10_000, 1.01)
    assert str(error.value) == (
        "hyperband: eta=1.01 gives more than 200 brackets with 10000 phases; make eta larger"
    )
    assert [deepest(phases, 3) for phases in (1, 2, 3, 8, 9, 243)] == [0, 0, 1, 1, 2, 5]
    assert [deepest(phases, 2.5) for phases in (6, 7, 15, 16)] == [1, 2, 2, 3]


def test_a_searcher_that_lies_is_found_out() -> None:
    searcher = Configurations(2)
    made = build("random", Plan(2, 1, 1), searcher)
    searcher.count = 1
    made.ask()
    with pytest.raises(LookupError) as error:
        made.ask()
    assert error.value.args == ("the searcher has no trial 1 any more",)


@pytest.mark.parametrize("scheduler", sorted(REGISTRY))
def test_a_snapshot_has_every_field_by_its_name(scheduler: str) -> None:
    made = build(scheduler, Plan(3, 2, 5), Configurations(3))
    made.ask()
    made.tell(Report(0, 5, 1.5))
    fields = {
        "successive-halving": {"brackets"}, "hyperband": {"brackets"},
        "hypertrick": {"started", "running", "scores"},
        "pbt": {"started", "members", "running", "waiting"},
        "asha": {"started", "running", "reports", "paused"},
        "asha-stop": {"started", "running", "reports"},
        "median-stopping": {"started", "running", "means", "history"},
        "random": {"started", "running"},
    }  # fmt: skip
    assert set(made.snapshot()) == fields[scheduler]


@pytest.mark.parametrize("trials", range(1, 12))
def test_a_searcher_is_counted_out_exactly(trials: int) -> None:
    for configurations in range(trials + 1):
        assert available(Configurations(configurations), trials) == configurations
