"""What mutants of the control plane showed that nothing had tested word for word."""

from typing import Any

import pytest

from simsched.coordinator import Coordinator, ProtocolError
from simsched.events import (
    CancelTimer,
    End,
    Ended,
    Failed,
    Interrupted,
    Keep,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Over,
    Park,
    Parked,
    Recovered,
    Reported,
    Save,
    Saved,
    SetTimer,
    Snapped,
    Snapshot,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.messages import Checkpoint
from simsched.retries import Health, Policy
from simsched.schedulers import Plan, build
from simsched.shelf import Shelf
from simsched.testing.contract_values import Configurations


def coordinator(scheduler: str = "random", nodes: int = 1, **policy: Any) -> Coordinator:
    made = Coordinator(build(scheduler, Plan(4, 2, 5), Configurations(4)), Policy(**policy))
    for node in range(nodes):
        made.handle(NodeUp(0, node))
    return made


def reported(node: int, attempt: int, step: int, score: float | None = 1.0) -> Reported:
    return Reported(7, node, attempt, step, score, step, 0, 0)


def start(node: int, attempt: int, trial: int, until: int = 5, **more: Any) -> Start:
    hparams = {"x": float(trial), "how": "drawn"}
    return Start(node, attempt, trial, hparams, until, more.pop("source", None), **more)


# The policy and what is known of nodes.


def test_back_off_doubles_up_to_the_longest() -> None:
    policy = Policy(backoff_us=10, longest_backoff_us=75)
    assert [policy.backoff(failures) for failures in (1, 2, 3, 4, 5, 400)] == [
        10, 20, 40, 75, 75, 75,
    ]  # fmt: skip


def test_a_node_is_ill_after_failures_in_a_row_of_two_trials() -> None:
    health = Health(3)
    assert [health.failed(0, trial) for trial in (1, 1, 1, 1)] == [False] * 4  # it is the trial
    assert health.failed(0, 2)
    assert not health.failed(1, 1)
    assert not health.failed(1, 2)
    health.well(1)
    assert not health.failed(1, 2), "what went well between them was forgotten"
    health.well(5)
    assert [health.failed(1, trial) for trial in (1, 3)] == [False, True]
    health.forget(1)
    assert not health.failed(1, 2)


# Durable checkpoints.


def test_the_shelf_knows_the_newest_and_forgets_what_is_damaged() -> None:
    shelf = Shelf(1)
    first, second = Checkpoint(0, 5), Checkpoint(0, 10)
    shelf.add(first)
    shelf.add(second)
    assert shelf.newest(0) == second
    shelf.spoilt(first)
    assert (shelf.newest(0), first in shelf, second in shelf) == (second, False, True)
    shelf.spoilt(second)
    assert (shelf.newest(0), shelf.durable) == (None, set())


def test_the_shelf_keeps_the_best_and_what_is_needed() -> None:
    shelf = Shelf(2)
    for trial, score in enumerate((1.0, 3.0, 3.0, 2.0)):
        shelf.scored(trial, 5, score)
        shelf.add(Checkpoint(trial, 5))
    shelf.scored(1, 10, 3.0)  # no better: the earlier one stays the best
    shelf.add(Checkpoint(1, 10))
    assert shelf.best() == [(1, 3.0, Checkpoint(1, 5)), (2, 3.0, Checkpoint(2, 5))]
    assert shelf.clear_out([Checkpoint(0, 5)], keep_newest=False) == [
        Checkpoint(1, 10), Checkpoint(3, 5),
    ]  # fmt: skip
    assert shelf.durable == {Checkpoint(0, 5), Checkpoint(1, 5), Checkpoint(2, 5)}
    shelf.add(Checkpoint(0, 10))
    assert shelf.clear_out([], keep_newest=True) == [Checkpoint(0, 5)]


# The coordinator: what is commanded, word for word.


def test_the_time_of_a_run_is_up() -> None:
    made = Coordinator(
        build("random", Plan(4, 2, 5), Configurations(4)), Policy(max_time_us=100, backoff_us=9)
    )
    assert made.handle(NodeUp(30, 0)) == [SetTimer("deadline", 70), start(0, 1, 0)]
    assert made.handle(NodeUp(40, 1)) == [start(1, 2, 1)]
    failed = made.handle(Failed(50, 0, 1, "gone", 2.0))
    assert failed == [End(0, 1), SetTimer("retry-0", 9), start(0, 3, 2)]
    assert not made.finished
    assert made.handle(TimerFired(100, "deadline")) == [
        End(0, 3), End(1, 2), CancelTimer("retry-0"),
        Over(0, "censored"), Over(1, "censored"), Over(2, "censored"),
    ]  # fmt: skip
    assert made.finished


def test_a_run_that_goes_on_has_the_time_that_is_left() -> None:
    made = coordinator(max_time_us=100)
    assert made.handle(Recovered(60)) == [start(0, 2, 0), SetTimer("deadline", 40)]
    made = coordinator(max_time_us=100)
    assert SetTimer("deadline", 0) in made.handle(Recovered(160))


def test_a_node_on_which_trials_keep_failing_is_withdrawn() -> None:
    made = coordinator(nodes=2, node_failures=2, backoff_us=5)
    made.handle(Failed(1, 0, 1, "gone", 1.0))
    assert made.handle(Failed(2, 0, 3, "gone", 1.0)) == [
        End(0, 3), Withdraw(0), SetTimer("retry-2", 5),
    ]  # fmt: skip
    assert made.nodes == {1}
    assert made.failures == 2


def test_a_restart_goes_on_from_the_newest_checkpoint() -> None:
    made = coordinator("random", save_at="milestone", backoff_us=5)
    assert made.handle(reported(0, 1, 5)) == [Save(0, 1, Checkpoint(0, 5))]
    assert made.handle(Saved(8, 0, 1)) == [Train(0, 1, 10)]
    assert made.handle(Failed(9, 0, 1, "gone", 7.5)) == [
        End(0, 1), SetTimer("retry-0", 5), start(0, 2, 1),
    ]  # fmt: skip
    made.handle(Ended(10, 0, 2, 1.0, 0, 0))
    made.handle(Ended(11, 0, 3, 1.0, 0, 0))
    assert made.handle(TimerFired(14, "retry-0")) == []
    again = start(0, 5, 0, 10, source=Checkpoint(0, 5), since=5, count=5.0, redo_until=7.5)
    assert made.handle(Ended(15, 0, 4, 1.0, 0, 0)) == [End(0, 4), again]


def test_an_interrupted_run_is_parked_and_goes_on() -> None:
    made = coordinator(nodes=2)
    assert made.handle(Interrupted(3)) == [Park(0, 1), Park(1, 2)]
    assert made.handle(Parked(4, 0, 1, 3, 3.0)) == [End(0, 1)]
    assert not made.parked
    assert made.handle(Parked(4, 1, 2, -1, 0.5)) == [End(1, 2)]
    assert made.parked
    assert made.handle(Recovered(9)) == [
        start(0, 3, 0, source=Checkpoint(0, 3), count=3.0),
        start(1, 4, 1, redo_until=0.5),
    ]
    assert not made.parked


def test_a_node_that_leaves_is_parked_and_its_trial_goes_on_elsewhere() -> None:
    made = coordinator()
    assert made.handle(NodeLeaving(1, 0)) == [Park(0, 1)]
    assert made.handle(NodeLeaving(1, 0)) == []
    assert made.handle(NodeLeaving(1, 9)) == []
    assert made.handle(Parked(2, 0, 1, 3, 3.0)) == [End(0, 1)]
    assert made.handle(NodeUp(3, 1)) == [start(1, 2, 0, source=Checkpoint(0, 3), count=3.0)]
    assert made.handle(NodeDown(4, 0)) == []
    assert made.handle(NodeDown(5, 1, 2, 4.0)) == []
    assert made.nodes == set()
    source = Checkpoint(0, 3)
    assert made.handle(NodeUp(6, 0)) == [
        start(0, 3, 0, source=source, count=3.0, redo_until=4.0)
    ]  # fmt: skip
    assert made.failures == 0


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (NodeUp(0, 0), "node 0 came up twice"),
        (Saved(0, 0, 1), "node 0 saved what nobody asked for"),
        (Parked(0, 0, 1, 5, 5.0), "node 0 parked what nobody asked for"),
        (reported(0, 1, 10), "trial 0 reports 10, not 5"),
    ],
)
def test_a_breach_names_what_and_where(event: Any, says: str) -> None:
    with pytest.raises(ProtocolError) as error:
        coordinator().handle(event)
    assert str(error.value) == says


def test_a_trial_is_saved_every_so_often() -> None:
    policy = Policy(save_every_us=50, backoff_us=5)
    made = Coordinator(build("random", Plan(1, 2, 5), Configurations(1)), policy)
    assert made.handle(NodeUp(0, 0)) == [start(0, 1, 0), SetTimer("save-0-1", 50)]
    assert made.handle(TimerFired(50, "save-0-1")) == [Snapshot(0, 1)]
    assert made.handle(Snapped(53, 0, 1, 3, 3.5)) == [SetTimer("save-0-1", 50)]
    assert made.handle(TimerFired(99, "save-0-7")) == []
    assert made.handle(TimerFired(99, "save-4-1")) == []
    with pytest.raises(ProtocolError, match="node 0 snapped what nobody asked for"):
        made.handle(Snapped(99, 0, 1, 4, 4.0))
    assert made.handle(Failed(99, 0, 1, "gone", 4.5)) == [End(0, 1), SetTimer("retry-0", 5)]
    assert made.handle(TimerFired(104, "retry-0")) == [
        start(0, 2, 0, source=Checkpoint(0, 3), count=3.5, redo_until=4.5),
        SetTimer("save-0-2", 50),
    ]
    assert made.handle(TimerFired(105, "save-0-1")) == [], "that worker is gone"


def test_a_held_trial_resumes_in_place_for_nothing() -> None:
    scheduler = build("successive-halving", Plan(2, 2, 5), Configurations(2))
    made = Coordinator(scheduler, Policy(lazy=True))
    made.handle(NodeUp(0, 0))
    made.handle(NodeUp(0, 1))
    assert made.handle(reported(0, 1, 5, 2.0)) == [Keep(0, 1)]
    assert made.handle(reported(1, 2, 5, 1.0)) == [End(1, 2), Train(0, 1, 10)]


def test_a_held_trial_is_saved_when_another_needs_its_node() -> None:
    scheduler = build("successive-halving", Plan(2, 2, 5), Configurations(2))
    made = Coordinator(scheduler, Policy(lazy=True))
    made.handle(NodeUp(0, 0))
    assert made.handle(reported(0, 1, 5, 2.0)) == [
        Keep(0, 1), Save(0, 1, Checkpoint(0, 5)),
    ]  # fmt: skip
    assert made.handle(Saved(9, 0, 1)) == [End(0, 1), start(0, 2, 1)]


def test_with_a_held_trial_that_is_saved_nothing_is_lost() -> None:
    scheduler = build("successive-halving", Plan(2, 2, 5), Configurations(2))
    made = Coordinator(scheduler, Policy(lazy=True, save_at="milestone", backoff_us=5))
    made.handle(NodeUp(0, 0))
    made.handle(NodeUp(0, 1))
    assert made.handle(reported(0, 1, 5, 2.0)) == [Save(0, 1, Checkpoint(0, 5))]
    assert made.handle(Saved(8, 0, 1)) == [Keep(0, 1)]
    assert made.handle(Failed(9, 0, 1, "gone", 5.0)) == [End(0, 1)], "it was saved"


def test_with_a_held_trial_that_is_not_saved_its_phase_is_lost() -> None:
    scheduler = build("successive-halving", Plan(2, 2, 5), Configurations(2))
    made = Coordinator(scheduler, Policy(lazy=True, backoff_us=5))
    made.handle(NodeUp(0, 0))
    made.handle(NodeUp(0, 1))
    assert made.handle(reported(0, 1, 5, 2.0)) == [Keep(0, 1)]
    assert made.handle(Failed(9, 0, 1, "gone", 5.0)) == [End(0, 1), SetTimer("retry-0", 5)]
    assert made.handle(TimerFired(14, "retry-0")) == [start(0, 3, 0, redo_until=5.0)]
    assert made.handle(reported(0, 3, 5, 2.5)) == [Save(0, 3, Checkpoint(0, 5))]
    assert made.decision is None, "it was told before"
