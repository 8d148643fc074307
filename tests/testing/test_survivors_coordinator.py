"""What the coordinator does with paused trials that retire, good signs, and awaited donors."""

from typing import Any

import pytest
from test_coordinator import Scripted, report, run
from test_swarm_found import Alone, failed, feed

from simsched.coordinator import Coordinator, ProtocolError
from simsched.events import (
    End,
    Ended,
    NodeLeaving,
    NodeUp,
    Over,
    Park,
    Save,
    Saved,
    SetTimer,
    Snapped,
    Snapshot,
    Start,
    TimerFired,
    Train,
)
from simsched.failures import DEADLINE
from simsched.messages import Checkpoint, Continue, Decision, Exploit, Pause, Report, Stop
from simsched.retries import Policy

DONOR = Checkpoint(1, 1)


class Retiring(Alone):
    """Whoever is stopped takes trial 0 along, which is paused."""

    def tell(self, report: Report) -> Decision:
        decision = super().tell(report)
        return Decision(decision.verdict, (0,) if decision.verdict == Stop() else ())


def with_donor(nodes: int = 2, *verdicts: Any, **policy: Any) -> Coordinator:
    """Trial 1 on node 1 is being saved at milestone 1; trial 0 on node 0 trains."""
    runs = [run(0), run(1)]
    scheduler = Alone(runs, [Continue(2), *verdicts], "milestone")
    coordinator = Coordinator(scheduler, Policy(**policy))
    feed(coordinator, *[NodeUp(0, node) for node in range(nodes)])
    assert feed(coordinator, report(1, 2, 1)) == [Save(1, 2, DONOR)]
    return coordinator


def to_exploit(until: int = 2) -> Exploit:
    return Exploit(DONOR, {"x": 1}, until)


def adopted(node: int, attempt: int, **more: Any) -> Start:
    """Trial 0 starts with the donor's weights."""
    return Start(node, attempt, 0, {"x": 1}, 2, DONOR, since=1, count=1.0, **more)


# A paused trial retires.


def test_a_trial_that_retires_while_it_parks_is_ended_at_once() -> None:
    scheduler = Retiring([run(0), run(1)], [Pause(), Stop()])
    coordinator = Coordinator(scheduler)
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1))
    assert feed(coordinator, NodeLeaving(1, 0)) == [Park(0, 1)]
    assert feed(coordinator, report(0, 1, 1)) == [], "to park is to save"
    assert feed(coordinator, report(1, 2, 1)) == [End(1, 2), End(0, 1)]
    assert coordinator.slots == {}


def test_a_trial_that_retires_while_it_is_saved_is_saved_and_then_ended() -> None:
    coordinator = Coordinator(Retiring([run(0), run(1)], [Pause(), Stop()]))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1))
    assert feed(coordinator, report(1, 2, 1)) == [End(1, 2)]
    assert feed(coordinator, Saved(2, 0, 1)) == [End(0, 1)]


def test_a_trial_that_retires_while_it_is_trained_again_is_ended_at_once() -> None:
    coordinator = Coordinator(Retiring([run(0), run(1)], [Pause(), Stop()]))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1), failed(0, 1))
    (start,) = feed(coordinator, TimerFired(1, "retry-0"))
    assert start == Start(0, 3, 0, {}, 1, None, redo_until=1)
    assert feed(coordinator, report(1, 2, 1)) == [End(1, 2), End(0, 3)]


# Trials that train, in the usual course of things.


def test_a_trial_that_goes_on_without_a_save_is_told_its_next_milestone() -> None:
    coordinator = Coordinator(Scripted([run(0)], [Continue(2)]))
    assert feed(coordinator, NodeUp(0, 0), report(0, 1, 1)) == [Train(0, 1, 2)]


def test_a_trial_that_is_over_is_saved_if_every_milestone_is() -> None:
    coordinator = Coordinator(Scripted([run(0)], [Stop()]), Policy(save_at="milestone"))
    assert feed(coordinator, NodeUp(0, 0), report(0, 1, 1)) == [Save(0, 1, Checkpoint(0, 1))]
    assert feed(coordinator, Saved(1, 0, 1)) == [End(0, 1)]


def test_a_report_that_nobody_awaits_is_refused() -> None:
    coordinator = with_donor(2, to_exploit())
    with pytest.raises(ProtocolError, match="trial 1 reports 2, not 2"):
        feed(coordinator, report(1, 2, 2))  # it is being saved
    feed(coordinator, report(0, 1, 1))
    with pytest.raises(ProtocolError, match="trial 0 reports 2, not 2"):
        feed(coordinator, report(0, 1, 2))  # it waits for its donor


def test_a_trial_whose_curve_has_ended_is_over_once() -> None:
    coordinator = Coordinator(Alone([run(0), run(1)], []), Policy(max_time_us=50))
    feed(coordinator, NodeUp(0, 0), Ended(1, 0, 1, 0.5, 0, 0))
    assert feed(coordinator, TimerFired(50, DEADLINE)) == [End(0, 2), Over(1, "censored")]


def test_a_diverged_score_is_not_among_the_best() -> None:
    runs = [run(0), run(1)]
    coordinator = Coordinator(Alone(runs, [Stop(), Pause()]), Policy(delete=True))
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1, None), report(0, 2, 1))
    feed(coordinator, Saved(1, 0, 2))
    assert coordinator.shelf.best() == [(1, 1.0, Checkpoint(1, 1))]


# More than one thing at once.


def test_what_is_left_of_the_idle_nodes_after_a_restart_is_given_away_too() -> None:
    coordinator = Coordinator(Scripted([run(0)], [Stop(), Stop()]))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), failed(0, 1))
    coordinator.scheduler.runs = [run(1)]  # type: ignore[attr-defined]
    assert feed(coordinator, TimerFired(1, "retry-0")) == [
        Start(0, 2, 0, {}, 1, None), Start(1, 3, 1, {}, 1, None),
    ]  # fmt: skip


def test_a_snapshot_shows_that_a_node_is_well() -> None:
    policy = Policy(node_failures=2, save_every_us=50, backoff_us=5)
    coordinator = Coordinator(Scripted([run(0), run(1)], [Stop()]), policy)
    feed(coordinator, NodeUp(0, 0), failed(0, 1))
    assert feed(coordinator, TimerFired(50, "save-0-2")) == [Snapshot(0, 2)]
    feed(coordinator, Snapped(51, 0, 2, 0, 0.5))
    assert feed(coordinator, failed(0, 2)) == [End(0, 2), SetTimer("retry-1", 5)]
    (start, _) = feed(coordinator, TimerFired(60, "retry-1"))
    assert start == Start(0, 3, 1, {}, 1, Checkpoint(1, 0), count=0.5)


def test_a_report_shows_that_a_node_is_well() -> None:
    runs, policy = [run(0), run(1)], Policy(node_failures=2, backoff_us=5)
    coordinator = Coordinator(Scripted(runs, [Continue(2)]), policy)
    feed(coordinator, NodeUp(0, 0), failed(0, 1), report(0, 2, 1))
    assert feed(coordinator, failed(0, 2)) == [End(0, 2), SetTimer("retry-1", 5)]


def test_while_a_trial_is_saved_anyway_its_snapshot_is_put_off() -> None:
    coordinator = with_donor(2, to_exploit(), save_every_us=50)
    assert feed(coordinator, TimerFired(50, "save-1-2")) == [SetTimer("save-1-2", 50)]
    feed(coordinator, report(0, 1, 1))
    assert feed(coordinator, TimerFired(50, "save-0-1")) == [SetTimer("save-0-1", 50)]
