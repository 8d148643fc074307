"""What the coordinator does when nodes leave, saves are lost, and runs are interrupted."""

from test_coordinator import Scripted, report, run
from test_survivors_coordinator import DONOR, adopted, to_exploit, with_donor
from test_swarm_found import Alone, Holding, failed, feed, lazy

from simsched.coordinator import Coordinator
from simsched.events import (
    Adopt,
    Delete,
    End,
    Hold,
    Interrupted,
    Keep,
    NodeDown,
    NodeLeaving,
    NodeUp,
    Over,
    Park,
    Recovered,
    Save,
    Saved,
    SetTimer,
    Start,
    TimerFired,
    Train,
    Withdraw,
)
from simsched.messages import Checkpoint, Continue, Exploit, Pause, Stop
from simsched.retries import Policy

# A node is to leave.


def test_a_held_trial_is_saved_when_its_node_is_to_leave() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()])
    assert feed(coordinator, NodeUp(0, 0), report(0, 1, 1)) == [Keep(0, 1)]
    assert feed(coordinator, NodeLeaving(1, 0)) == [Save(0, 1, Checkpoint(0, 1))]
    assert feed(coordinator, Saved(2, 0, 1)) == [End(0, 1)]
    coordinator.scheduler.runs = [run(0, 2, Checkpoint(0, 1))]  # type: ignore[attr-defined]
    assert feed(coordinator, TimerFired(3, "retry-9")) == [], "the node gets no more work"
    (start,) = feed(coordinator, NodeUp(3, 1))
    assert start == Start(1, 2, 0, {}, 2, Checkpoint(0, 1), since=1, count=1)


def test_a_trial_that_is_being_saved_is_not_held_on_a_node_that_is_to_leave() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()], save_at="milestone")
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1))
    assert feed(coordinator, NodeLeaving(1, 0)) == [], "it is being saved anyway"
    assert feed(coordinator, Saved(2, 0, 1)) == [End(0, 1)]


def test_who_waits_for_a_donor_on_a_node_that_is_to_leave_waits_for_another_node() -> None:
    coordinator = with_donor(3, to_exploit())
    assert feed(coordinator, report(0, 1, 1)) == []
    assert feed(coordinator, NodeLeaving(1, 0)) == [End(0, 1)]
    assert feed(coordinator, Saved(2, 1, 2)) == [Train(1, 2, 2), adopted(2, 3)]


def test_an_exploit_decided_on_a_node_that_is_to_leave_begins_on_another() -> None:
    """The report had been under way when the worker was told to park."""
    coordinator = with_donor(3, to_exploit())
    feed(coordinator, Saved(1, 1, 2))
    assert feed(coordinator, NodeLeaving(2, 0)) == [Park(0, 1)]
    assert feed(coordinator, report(0, 1, 1)) == [End(0, 1), adopted(2, 3)]


def test_a_node_that_was_to_leave_and_is_withdrawn_is_a_new_one_when_it_comes_back() -> None:
    runs = [run(0), run(1)]
    coordinator = Coordinator(Scripted(runs, [Stop(), Stop()]), Policy(node_failures=2))
    feed(coordinator, NodeUp(0, 0), failed(0, 1), NodeLeaving(1, 0))
    assert Withdraw(0) in feed(coordinator, failed(0, 2))
    coordinator.scheduler.runs = [run(2), run(3)]  # type: ignore[attr-defined]
    assert feed(coordinator, NodeUp(2, 0)) == [Start(0, 3, 2, {}, 1, None)]
    assert feed(coordinator, report(0, 3, 1)) == [End(0, 3), Start(0, 4, 3, {}, 1, None)]


def test_a_trial_that_was_saved_on_a_node_that_is_to_leave_goes_on_elsewhere() -> None:
    coordinator = with_donor(3)
    assert feed(coordinator, NodeLeaving(1, 1)) == [], "it is being saved anyway"
    assert feed(coordinator, Saved(2, 1, 2)) == [
        End(1, 2), Start(2, 3, 1, {}, 2, DONOR, since=1, count=1),
    ]  # fmt: skip


def test_a_trial_asked_for_while_saved_on_a_node_that_is_to_leave_goes_on_elsewhere() -> None:
    coordinator = Coordinator(Alone([run(0)], [Pause()]))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1))
    coordinator.scheduler.runs = [run(0, 2, Checkpoint(0, 1))]  # type: ignore[attr-defined]
    assert feed(coordinator, NodeLeaving(1, 0)) == []
    assert feed(coordinator, Saved(2, 0, 1)) == [
        End(0, 1), Start(1, 2, 0, {}, 2, Checkpoint(0, 1), since=1, count=1),
    ]  # fmt: skip


def test_a_node_that_is_told_to_leave_before_it_is_there_is_a_node_like_others() -> None:
    coordinator = Coordinator(Scripted([run(0), run(1)], [Stop()]))
    assert feed(coordinator, NodeLeaving(0, 5)) == []
    assert feed(coordinator, NodeUp(1, 5)) == [Start(5, 1, 0, {}, 1, None)]
    assert feed(coordinator, report(5, 1, 1)) == [End(5, 1), Start(5, 2, 1, {}, 1, None)]


def test_a_held_trial_that_was_saved_loses_nothing_with_its_node() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()], save_at="milestone")
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1), Saved(1, 0, 1))
    assert feed(coordinator, NodeDown(2, 0, 1)) == [], "it is paused, and safe"


def test_a_trial_with_a_donors_weights_goes_on_elsewhere_when_its_node_is_gone() -> None:
    coordinator = with_donor(3, to_exploit())
    feed(coordinator, Saved(1, 1, 2), report(0, 1, 1))
    assert feed(coordinator, NodeDown(2, 0, 1)) == [adopted(2, 3)]


# A save is lost, and who waits for it.


def test_who_waits_for_the_last_save_of_a_trial_learns_that_it_is_lost() -> None:
    scheduler = Alone([run(0), run(1)], [Stop(), to_exploit()])
    coordinator = Coordinator(scheduler, Policy(save_at="milestone"))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(1, 2, 1), report(0, 1, 1))
    assert feed(coordinator, NodeDown(1, 1, 2)) == [End(0, 1), Over(0, "lost")]


def test_who_fails_while_it_waits_for_a_donor_goes_on_waiting() -> None:
    coordinator = with_donor(2, to_exploit(), backoff_us=5)
    feed(coordinator, report(0, 1, 1))
    assert feed(coordinator, failed(0, 1)) == [End(0, 1), SetTimer("retry-0", 5)]
    assert feed(coordinator, TimerFired(5, "retry-0")) == []
    assert feed(coordinator, Saved(6, 1, 2)) == [Train(1, 2, 2), adopted(0, 3)]


def test_all_who_retire_in_one_event_are_known() -> None:
    """The donor is abandoned, and with it who waits for it; with each of them trial 9 retires."""
    scheduler = Scripted([run(0), run(1)], [Continue(2), to_exploit()], "milestone")
    coordinator = Coordinator(scheduler, Policy(retries=0))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(1, 2, 1), report(0, 1, 1))
    feed(coordinator, failed(1, 2))
    assert scheduler.abandoned == [1, 0]
    assert coordinator.abandoned == (9, 9)


def test_a_trial_that_diverges_on_its_second_way_to_a_milestone_is_tried_again() -> None:
    coordinator = Coordinator(Alone([run(0)], [Pause()]), Policy(backoff_us=5))
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1), failed(0, 1), TimerFired(5, "retry-0"))
    assert feed(coordinator, report(0, 2, 1, None)) == [End(0, 2), SetTimer("retry-0", 10)]


def test_of_those_who_wait_the_one_on_the_highest_node_makes_room() -> None:
    coordinator = with_donor(2, to_exploit(), to_exploit())
    coordinator.scheduler.runs = [run(2)]  # type: ignore[attr-defined]
    feed(coordinator, NodeUp(0, 2), report(0, 1, 1), report(2, 3, 1))
    assert feed(coordinator, NodeDown(1, 1, 2))[0] == End(2, 3)


def test_a_node_that_is_waited_on_makes_room_for_the_save_that_is_waited_for() -> None:
    coordinator = with_donor(2, to_exploit())
    feed(coordinator, report(0, 1, 1))
    assert feed(coordinator, NodeDown(1, 1, 2)) == [
        End(0, 1), Start(0, 3, 1, {}, 1, None, redo_until=1),
    ]  # fmt: skip
    assert feed(coordinator, report(0, 3, 1)) == [Save(0, 3, DONOR)]
    assert feed(coordinator, Saved(2, 0, 3)) == [Train(0, 3, 2)]
    assert feed(coordinator, NodeUp(3, 1)) == [adopted(1, 4)]


def test_a_donor_whose_newest_checkpoint_is_lost_gives_its_last_but_one() -> None:
    newest = Exploit(Checkpoint(1, 2), {"x": 1}, 2)
    coordinator = with_donor(2, Continue(3), newest, retries=0)
    feed(coordinator, Saved(1, 1, 2), report(1, 2, 2))
    assert feed(coordinator, report(0, 1, 1)) == []
    assert feed(coordinator, failed(1, 2)) == [
        End(1, 2), Over(1, "lost"), Adopt(0, 1, DONOR, {"x": 1}, 2),
    ]  # fmt: skip


def test_a_trial_whose_only_checkpoint_is_damaged_starts_from_scratch() -> None:
    scheduler = Alone([run(0)], [Continue(2)], "milestone")
    coordinator = Coordinator(scheduler, Policy(backoff_us=5))
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1), Saved(1, 0, 1), failed(0, 1))
    (start,) = feed(coordinator, TimerFired(6, "retry-0"))
    assert start == Start(0, 2, 0, {}, 2, Checkpoint(0, 1), since=1, count=1)
    assert feed(coordinator, failed(0, 2, spoilt=True)) == [End(0, 2), SetTimer("retry-0", 10)]
    (start,) = feed(coordinator, TimerFired(16, "retry-0"))
    assert start == Start(0, 3, 0, {}, 2, None, since=1, redo_until=1)


def test_a_donor_whose_checkpoint_is_damaged_gives_its_newest() -> None:
    coordinator = with_donor(2, to_exploit(), Continue(3), backoff_us=5)
    feed(coordinator, Saved(1, 1, 2), report(0, 1, 1), report(1, 2, 2), Saved(2, 1, 2))
    feed(coordinator, failed(0, 1, spoilt=True))
    (start,) = feed(coordinator, TimerFired(7, "retry-0"))
    assert isinstance(start, Start)
    assert start.source == Checkpoint(1, 2)


def test_what_another_trial_has_found_damaged_is_not_started_from() -> None:
    coordinator = with_donor(2, to_exploit(), backoff_us=5)
    feed(coordinator, Saved(1, 1, 2), report(0, 1, 1))
    assert feed(coordinator, failed(0, 1, spoilt=True)) == [End(0, 1), Over(0, "lost")]
    assert feed(coordinator, failed(1, 2)) == [End(1, 2), SetTimer("retry-1", 5)]
    assert feed(coordinator, TimerFired(6, "retry-1")) == [
        Start(0, 3, 1, {}, 2, None, since=1, redo_until=1),
    ]  # fmt: skip


# A run is interrupted.


def test_who_waits_for_a_donor_when_a_run_is_interrupted_begins_when_it_goes_on() -> None:
    coordinator = with_donor(2, to_exploit())
    assert feed(coordinator, report(0, 1, 1)) == []
    assert feed(coordinator, Interrupted(2)) == [End(0, 1), Hold(0, 3, 0)]
    assert not coordinator.parked
    commands = feed(coordinator, Saved(3, 1, 2))
    assert commands[0] == End(1, 2)
    assert Hold(0, 3, 0) in commands, "it waits until the run goes on"
    assert coordinator.parked
    assert feed(coordinator, Recovered(9)) == [
        adopted(0, 4), Start(1, 5, 1, {}, 2, DONOR, since=1, count=1),
    ]  # fmt: skip


def test_what_is_being_saved_at_an_interruption_does_not_keep_others_from_parking() -> None:
    coordinator = Coordinator(Scripted([run(0), run(1)], [Pause()]))
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1))
    assert feed(coordinator, Interrupted(1)) == [Park(1, 2)]


def test_after_a_recovery_a_held_trial_that_was_saved_leaves_and_others_go_on() -> None:
    coordinator = lazy(run(0), run(1), verdicts=[Pause()], save_at="milestone")
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), report(0, 1, 1))
    assert feed(coordinator, Saved(1, 0, 1)) == [Keep(0, 1)]
    assert feed(coordinator, Recovered(2)) == [End(0, 1), Start(1, 3, 1, {}, 1, None)]


def test_after_a_recovery_a_back_off_begins_anew() -> None:
    coordinator = Coordinator(Alone([run(0)], []), Policy(backoff_us=5))
    feed(coordinator, NodeUp(0, 0), failed(0, 1))
    assert feed(coordinator, Recovered(2)) == [SetTimer("retry-0", 5)]


def test_a_held_trial_is_saved_when_a_run_is_interrupted() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()])
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1))
    assert feed(coordinator, Interrupted(1)) == [Save(0, 1, Checkpoint(0, 1))]


def test_what_a_scheduler_may_still_copy_from_is_not_deleted() -> None:
    """It needs every milestone, and does not say which of them it has done with."""
    coordinator = with_donor(2, Continue(3), delete=True, keep_best=0)
    feed(coordinator, Saved(1, 1, 2), report(1, 2, 2))
    assert feed(coordinator, Saved(2, 1, 2)) == [Train(1, 2, 3)]
    assert DONOR in coordinator.shelf


def test_what_a_scheduler_says_that_it_does_not_hold_is_deleted() -> None:
    scheduler = Holding([run(0)], [Continue(2), Continue(3), Continue(4), Stop()], "milestone")
    coordinator = Coordinator(scheduler, Policy(delete=True, keep_best=0))
    feed(coordinator, NodeUp(0, 0))
    for step in (1, 2):
        feed(coordinator, report(0, 1, step))
        assert feed(coordinator, Saved(step, 0, 1)) == [Train(0, 1, step + 1)]
    feed(coordinator, report(0, 1, 3))
    assert feed(coordinator, Saved(3, 0, 1)) == [Train(0, 1, 4), Delete(Checkpoint(0, 2))]
