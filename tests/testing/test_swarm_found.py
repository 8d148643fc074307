"""What the swarm has found in the control plane, each by hand."""

from typing import Any

from test_coordinator import Scripted, report, run

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.events import (
    Command,
    Delete,
    End,
    Ended,
    Event,
    Failed,
    Hold,
    Interrupted,
    Keep,
    NodeDown,
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
    Start,
    TimerFired,
)
from simsched.failures import DEADLINE
from simsched.ledger import Ledger
from simsched.messages import Checkpoint, Continue, Exploit, Pause, Stop, TrialId
from simsched.retries import Policy


class Holding(Scripted):
    """A scheduler that holds on to checkpoints, as PBT does."""

    def held(self) -> set[Checkpoint]:
        return {Checkpoint(0, 1)}


class Alone(Scripted):
    """Nobody retires with a trial that is abandoned."""

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        super().abandon(trial)
        return ()


def failed(node: int, attempt: int, at: int = 0, *, spoilt: bool = False) -> Failed:
    return Failed(at, node, attempt, "it died", 0.0, spoilt=spoilt)


def feed(coordinator: Coordinator, *events: Event) -> list[Command]:
    """Feed events; return what the last of them is answered."""
    commands: list[Command] = []
    for event in events:
        commands = coordinator.handle(event)
    return commands


def timers(commands: list[Command]) -> list[str]:
    return [command.timer for command in commands if isinstance(command, SetTimer)]


def test_a_deadline_is_set_once_when_the_first_node_comes_after_a_recovery() -> None:
    """The coordinator died before its journal had anything but the header."""
    coordinator = Coordinator(Scripted([], [Pause()]), Policy(max_time_us=50))
    assert timers(coordinator.handle(Recovered(10))) == [DEADLINE]
    assert timers(coordinator.handle(NodeUp(10, 0))) == []
    assert timers(coordinator.handle(Recovered(20))) == [DEADLINE]


def test_a_deadline_is_set_once_when_all_nodes_go_and_come_before_work_began() -> None:
    coordinator = Coordinator(Scripted([], [Pause()]), Policy(max_time_us=50))
    assert timers(coordinator.handle(NodeUp(0, 0))) == [DEADLINE]
    assert timers(feed(coordinator, NodeDown(1, 0), NodeUp(2, 0))) == []


def test_a_run_that_is_cut_off_leaves_no_checkpoint_that_the_scheduler_held() -> None:
    scheduler = Holding([run(0)], [Continue(2), Continue(3)], "milestone")
    coordinator = Coordinator(scheduler, Policy(delete=True, keep_best=0, max_time_us=50))
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1), Saved(1, 0, 1))
    commands = coordinator.handle(TimerFired(50, DEADLINE))
    assert commands == [End(0, 1), Over(0, "censored"), Delete(Checkpoint(0, 1))]
    assert coordinator.finished


def lazy(*runs: Any, verdicts: Any, **policy: Any) -> Coordinator:
    return Coordinator(Scripted(list(runs), list(verdicts)), Policy(lazy=True, **policy))


def test_a_trial_that_restarts_is_given_a_node_that_is_kept() -> None:
    """Its own node is gone, and all others are kept by paused trials."""
    coordinator = lazy(run(0), run(1), verdicts=[Pause(), Pause()])
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1))
    assert feed(coordinator, report(0, 1, 1)) == [Keep(0, 1)]
    assert feed(coordinator, NodeDown(1, 1, 2)) == [Save(0, 1, Checkpoint(0, 1))]
    assert feed(coordinator, Saved(2, 0, 1)) == [End(0, 1), Start(0, 3, 1, {}, 1, None)]


def test_each_trial_that_needs_a_node_is_made_room_for_once() -> None:
    coordinator = lazy(run(0), run(1), run(2), verdicts=[Pause(), Pause(), Pause()])
    feed(coordinator, NodeUp(0, 0), NodeUp(0, 1), NodeUp(0, 2))
    feed(coordinator, report(0, 1, 1), report(1, 2, 1))
    assert feed(coordinator, NodeDown(1, 2, 3)) == [Save(0, 1, Checkpoint(0, 1))]
    assert feed(coordinator, TimerFired(2, "retry-9")) == []
    # The trial whose node was to be freed is asked for: it stays, and the next one makes room.
    coordinator.scheduler.runs = [run(0, 2, Checkpoint(0, 1))]  # type: ignore[attr-defined]
    assert feed(coordinator, TimerFired(3, "retry-9")) == []
    assert feed(coordinator, Saved(4, 0, 1)) == [
        End(0, 1),
        Start(0, 4, 0, {}, 2, Checkpoint(0, 1), since=1, count=1),
        Save(1, 2, Checkpoint(1, 1)),
    ]


def test_a_paused_trial_whose_save_failed_while_it_kept_its_node_can_be_asked_for() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()], save_at="milestone")
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1))
    coordinator.scheduler.runs = [run(0, 2, Checkpoint(0, 1))]  # type: ignore[attr-defined]
    assert timers(feed(coordinator, failed(0, 1))) == ["retry-0"]
    assert feed(coordinator, TimerFired(1, "retry-0")) == [
        Start(0, 2, 0, {}, 1, None, redo_until=1)
    ]
    assert feed(coordinator, report(0, 2, 1)) == [Save(0, 2, Checkpoint(0, 1))]
    assert feed(coordinator, Saved(2, 0, 2)) == [
        End(0, 2),
        Start(0, 3, 0, {}, 2, Checkpoint(0, 1), since=1, count=1),
    ]


def test_a_worker_that_dies_while_its_trial_is_paused_and_safe_costs_no_retry() -> None:
    coordinator = lazy(run(0), verdicts=[Pause()], save_at="milestone", retries=0)
    feed(coordinator, NodeUp(0, 0), report(0, 1, 1))
    assert feed(coordinator, Saved(1, 0, 1)) == [Keep(0, 1)]
    assert feed(coordinator, failed(0, 1)) == [End(0, 1)]
    assert coordinator.members[0].failures == 0
    coordinator.scheduler.runs = [run(0, 2, Checkpoint(0, 1))]  # type: ignore[attr-defined]
    (start,) = feed(coordinator, TimerFired(2, "retry-9"))
    assert isinstance(start, Start)
    assert start.source == Checkpoint(0, 1)


def test_a_trial_that_was_to_take_a_node_over_is_not_over_when_time_is_up() -> None:
    """It never began, so the books have nothing of it."""
    coordinator = lazy(run(0), run(1), verdicts=[Pause()], max_time_us=50)
    control = Control(coordinator, Ledger(1), None)
    control.feed(NodeUp(0, 0))
    assert control.feed(report(0, 1, 1)) == [Keep(0, 1), Save(0, 1, Checkpoint(0, 1))]
    commands = control.feed(TimerFired(50, DEADLINE))
    assert commands == [End(0, 1), Over(0, "censored")]
    assert set(control.ledger.trials) == {0}
    assert coordinator.finished


def donor_is_awaited() -> tuple[Coordinator, Ledger, Control]:
    """Trial 0 holds node 0, waiting for the checkpoint that trial 1 makes up for on node 1."""
    donor = Checkpoint(1, 1)
    verdicts = [Continue(2), Exploit(donor, {"x": 1}, 2)]
    coordinator = Coordinator(Alone([run(0), run(1)], verdicts, "milestone"))
    control = Control(coordinator, Ledger(1), None)
    for event in (
        NodeUp(0, 0), NodeUp(0, 1), report(1, 2, 1), report(0, 1, 1), Recovered(0),
    ):  # fmt: skip
        commands = control.feed(event)
    assert commands == [Hold(0, 3, 0), Start(1, 4, 1, {}, 1, None, redo_until=1)]
    return coordinator, control.ledger, control


def test_whoever_waits_for_a_save_goes_on_when_its_trials_curve_has_ended() -> None:
    coordinator, _, control = donor_is_awaited()
    commands = control.feed(Ended(5, 1, 4, 0.5, 0, 0))
    assert commands == [End(1, 4), End(0, 3), Over(0, "lost")]
    assert coordinator.slots == {}


def test_a_node_that_was_held_in_vain_is_idle_in_the_books_too() -> None:
    _, ledger, control = donor_is_awaited()
    control.feed(Ended(5, 1, 4, 0.5, 0, 0))
    assert ledger.close(10).intervals[-1].kind == "idle"
    assert {(i.node, i.kind, i.start_us, i.end_us) for i in ledger.intervals} == {
        (0, "wait", 0, 5), (0, "idle", 5, 10), (1, "train", 0, 5), (1, "idle", 5, 10),
    }  # fmt: skip


def test_the_books_drop_a_snapshot_of_an_older_attempt() -> None:
    coordinator = Coordinator(Scripted([run(0), run(1)], [Pause(save=False)]))
    control = Control(coordinator, Ledger(1), None)
    control.feed(NodeUp(0, 0))
    control.feed(Reported(10, 0, 1, 1, 5.0, 1, 0, 0))
    assert control.feed(Snapped(20, 0, 1, 1, 1.0, save_us=5)) == []
    assert control.ledger.saves == 0
    assert [(i.trial, i.kind) for i in control.ledger.close(30).intervals] == [
        (0, "train"),
        (1, "train"),
    ]


def test_a_trial_that_cannot_be_started_again_after_a_crash_leaves_its_node() -> None:
    """The donor's weights, all that it has, were found damaged by another trial meanwhile."""
    donor = Checkpoint(0, 1)
    runs = [run(0), run(1, 1, donor), run(2, 1, donor)]
    coordinator = Coordinator(Alone(runs, [Pause(), Pause()]))
    ledger = Ledger(1)
    control = Control(coordinator, ledger, None)
    control.feed(NodeUp(0, 0))
    control.feed(report(0, 1, 1))
    assert control.feed(Saved(1, 0, 1))[1] == Start(0, 2, 1, {}, 1, donor)
    (start,) = control.feed(NodeUp(1, 1))
    assert isinstance(start, Start)
    control.feed(Failed(2, 1, start.attempt, "damaged", 0.0, spoilt=True))
    commands = control.feed(Recovered(3))
    assert commands[:2] == [End(0, 4), Over(1, "lost")]
    assert coordinator.slots == {}
    assert {i.kind for i in ledger.close(9).intervals if i.start_us >= 3} == {"idle"}


def interrupted_at_its_last_milestone() -> Control:
    """A worker reports, is stopped for good, and learns only then that it is to park."""
    coordinator = Coordinator(Scripted([run(0)], [Stop()]), Policy(save_at="milestone"))
    control = Control(coordinator, Ledger(1), None)
    control.feed(NodeUp(0, 0))
    assert control.feed(Interrupted(10)) == [Park(0, 1)]
    assert control.feed(Reported(10, 0, 1, 1, 1.0, 1, 4, 3)) == []
    return control


def test_a_trial_that_was_stopped_while_it_parked_is_not_started_again() -> None:
    control = interrupted_at_its_last_milestone()
    assert control.feed(Parked(15, 0, 1, 1, 1.0, 4, 3, 0, 5)) == [End(0, 1)]
    assert control.coordinator.slots == {}
    assert Checkpoint(0, 1) in control.coordinator.shelf
    assert control.feed(Recovered(20)) == []
    assert control.coordinator.finished


def test_what_a_worker_says_twice_when_it_parks_is_booked_once() -> None:
    """A report crossed its order to park; both count from the command before."""
    control = interrupted_at_its_last_milestone()
    control.feed(Parked(18, 0, 1, 1, 1.0, 4, 3, 0, 6))
    timeline = control.ledger.close(20)
    assert [(i.kind, i.start_us, i.end_us) for i in timeline.intervals] == [
        ("start", 0, 4), ("load", 4, 7), ("train", 7, 10), ("wait", 10, 12), ("save", 12, 18),
        ("idle", 18, 20),
    ]  # fmt: skip


def test_a_save_that_is_counted_as_training_again_is_not_booked_twice() -> None:
    control = Control(Coordinator(Scripted([run(0)], [])), Ledger(1), None)
    control.feed(NodeUp(0, 0))
    control.feed(Interrupted(10))
    control.feed(Parked(16, 0, 1, 0, 0.5, redo_us=16, save_us=6))
    assert [(i.kind, i.start_us, i.end_us) for i in control.ledger.close(16).intervals] == [
        ("redo", 0, 10),
        ("save", 10, 16),
    ]


def test_a_worker_that_dies_while_it_parks_was_saving_then() -> None:
    control = Control(Coordinator(Scripted([run(0)], [])), Ledger(1), None)
    control.feed(NodeUp(0, 0))
    assert control.feed(Interrupted(10)) == [Park(0, 1)]
    control.feed(Failed(16, 0, 1, "it died", 0.5, start_us=4, save_us=6))
    assert [(i.kind, i.start_us, i.end_us) for i in control.ledger.close(16).intervals] == [
        ("start", 0, 4),
        ("train", 4, 10),
        ("save", 10, 16),
    ]
