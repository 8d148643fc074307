"""The coordinator's rules one by one, with a scheduler that says what it is told to say."""

from typing import Any, ClassVar

import pytest

from simsched.control import Control
from simsched.coordinator import Coordinator, ProtocolError
from simsched.events import Adopt, End, Ended, Hold, NodeUp, Reported, Save, Saved, Start, Train
from simsched.ledger import Ledger
from simsched.messages import (
    Checkpoint,
    Continue,
    Decision,
    Exploit,
    Pause,
    Report,
    Run,
    Stop,
    TrialId,
    Verdict,
)
from simsched.schedulers import Parameter


class Scripted:
    """Answers `ask` from a list and `tell` from another."""

    name: ClassVar[str] = "scripted"
    summary: ClassVar[str] = "for tests"
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    notes: tuple[str, ...] = ()

    def __init__(
        self, runs: list[Run], verdicts: list[Verdict], checkpoints: Any = "pause"
    ) -> None:
        self.checkpoints = checkpoints
        self.runs, self.verdicts = runs, verdicts
        self.told: list[Report] = []
        self.abandoned: list[TrialId] = []

    def ask(self) -> Run | None:
        return self.runs.pop(0) if self.runs else None

    def tell(self, report: Report) -> Decision:
        self.told.append(report)
        return Decision(self.verdicts.pop(0))

    def abandon(self, trial: TrialId) -> tuple[TrialId, ...]:
        self.abandoned.append(trial)
        return (9,)

    def done(self) -> bool:
        return not self.runs and not self.verdicts

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        del state


def report(node: int, attempt: int, step: int, score: float | None = 1.0) -> Reported:
    return Reported(0, node, attempt, step, score, step, 0, 0)


def run(trial: int, until: int = 1, source: Checkpoint | None = None) -> Run:
    return Run(trial, {}, until, source)


def test_idle_nodes_are_served_in_the_order_of_their_numbers() -> None:
    scheduler = Scripted([], [Stop()])
    coordinator = Coordinator(scheduler)
    for node in (2, 0, 1):
        assert coordinator.handle(NodeUp(0, node)) == []
    scheduler.runs = [run(0), run(1)]
    assert coordinator.handle(NodeUp(0, 3)) == [
        Start(0, 1, 0, {}, 1, None),
        Start(1, 2, 1, {}, 1, None),
    ]
    scheduler.runs = [run(2), run(3), run(4)]
    commands = coordinator.handle(report(1, 2, 1))
    assert commands[0] == End(1, 2)
    assert [(c.node, c.trial) for c in commands if isinstance(c, Start)] == [(1, 2), (2, 3), (3, 4)]


def test_messages_of_an_older_attempt_are_dropped() -> None:
    scheduler = Scripted([run(0), run(1)], [Stop(), Stop()])
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    coordinator.handle(report(0, 1, 1))
    assert coordinator.handle(report(0, 1, 1)) == []
    assert coordinator.handle(Saved(0, 0, 1)) == []
    assert coordinator.handle(Ended(0, 0, 1, 1, 0, 0)) == []
    assert len(scheduler.told) == 1
    assert scheduler.abandoned == []


def test_a_trial_asked_for_while_it_is_saved_comes_back_on_its_own_node() -> None:
    scheduler = Scripted([run(0), run(1)], [Pause(), Stop()])
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    coordinator.handle(NodeUp(0, 1))
    assert coordinator.handle(report(1, 2, 1)) == [Save(1, 2, Checkpoint(1, 1))]
    # Node 0 comes free and the scheduler asks for trial 1: node 0 stays idle, node 1 gets it.
    scheduler.runs = [run(1, 2, Checkpoint(1, 1))]
    assert coordinator.handle(report(0, 1, 1)) == [End(0, 1)]
    assert coordinator.handle(Saved(5, 1, 2)) == [
        End(1, 2),
        Start(1, 3, 1, {}, 2, Checkpoint(1, 1), since=1, count=1),
    ]


def test_an_exploit_waits_until_the_donor_is_durable() -> None:
    donor = Checkpoint(1, 1)
    scheduler = Scripted([run(0), run(1)], [Continue(2), Exploit(donor, {"x": 1}, 2)], "milestone")
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    coordinator.handle(NodeUp(0, 1))
    assert coordinator.handle(report(1, 2, 1)) == [Save(1, 2, donor)]
    assert coordinator.handle(report(0, 1, 1)) == []
    assert coordinator.handle(Saved(3, 1, 2)) == [
        Train(1, 2, 2),
        Adopt(0, 1, donor, {"x": 1}, 2),
    ]


def test_a_run_from_another_trials_weights_holds_its_node_until_they_are_durable() -> None:
    donor = Checkpoint(1, 1)
    scheduler = Scripted([run(0), run(1)], [Continue(2), Stop()], "milestone")
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    coordinator.handle(NodeUp(0, 1))
    coordinator.handle(report(1, 2, 1))
    scheduler.runs = [run(2, 2, donor)]
    assert coordinator.handle(report(0, 1, 1)) == [End(0, 1), Hold(0, 3, 2)]
    assert coordinator.handle(Saved(3, 1, 2))[1] == Start(0, 3, 2, {}, 2, donor)


def test_a_pause_without_saving_frees_the_node_at_once() -> None:
    scheduler = Scripted([run(0), run(1)], [Pause(save=False)])
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    assert coordinator.handle(report(0, 1, 1)) == [End(0, 1), Start(0, 2, 1, {}, 1, None)]


def test_a_curve_that_ends_is_abandoned_and_who_retires_is_known() -> None:
    scheduler = Scripted([run(0)], [])
    coordinator = Coordinator(scheduler)
    coordinator.handle(NodeUp(0, 0))
    assert coordinator.handle(Ended(1, 0, 1, 0.5, 0, 0)) == [End(0, 1)]
    assert scheduler.abandoned == [0]
    assert coordinator.abandoned == (9,)
    assert coordinator.finished


@pytest.mark.parametrize("verdict", [Continue(2), Pause()])
def test_a_diverged_trial_must_not_go_on(verdict: Verdict) -> None:
    coordinator = Coordinator(Scripted([run(0)], [verdict]))
    coordinator.handle(NodeUp(0, 0))
    with pytest.raises(ProtocolError, match="diverged"):
        coordinator.handle(report(0, 1, 1, None))


def test_what_breaks_the_rules_is_refused() -> None:
    coordinator = Coordinator(Scripted([run(0)], [Continue(1)]))
    coordinator.handle(NodeUp(0, 0))
    with pytest.raises(ProtocolError, match="came up twice"):
        coordinator.handle(NodeUp(0, 0))
    with pytest.raises(ProtocolError, match="reports 2, not 1"):
        coordinator.handle(report(0, 1, 2))
    with pytest.raises(ProtocolError, match="saved what nobody asked for"):
        coordinator.handle(Saved(0, 0, 1))
    with pytest.raises(ProtocolError, match="not ahead"):
        coordinator.handle(report(0, 1, 1))


def test_a_trial_is_never_started_twice() -> None:
    coordinator = Coordinator(Scripted([run(0), run(0)], []))
    coordinator.handle(NodeUp(0, 0))
    with pytest.raises(ProtocolError, match="trial 0 is to run, but is on node 0 already"):
        coordinator.handle(NodeUp(0, 1))


def test_the_books_drop_what_the_coordinator_drops() -> None:
    """A zombie's report, save or end must not be booked on the trial that has the node now."""
    control = Control(Coordinator(Scripted([run(0), run(1)], [Stop(), Stop()])), Ledger(1), None)
    control.feed(NodeUp(0, 0))
    control.feed(Reported(10, 0, 1, 1, 5.0, 1, 0, 0))
    control.feed(Reported(20, 0, 1, 1, 9.0, 1, 0, 0))
    control.feed(Saved(21, 0, 1))
    control.feed(Ended(22, 0, 1, 1, 0, 0))
    control.feed(Reported(30, 0, 2, 1, 7.0, 1, 0, 0))
    timeline = control.ledger.close(30)
    assert [(i.trial, i.kind, i.start_us, i.end_us) for i in timeline.intervals] == [
        (0, "train", 0, 10),
        (1, "train", 10, 30),
    ]
    assert control.ledger.best == (7.0, 1, 30)
    assert control.ledger.trials[1].fate == "finished"
