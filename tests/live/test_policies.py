"""Live searches with lazy preemption and saves in mid-phase: the same courses, fewer losses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, Past, check_end
from fast_runs import Server, lines, make_settings, until, worker

from simsched.events import Failed, Interrupted, Keep, Save, Snapped, Snapshot, Start, Train
from simsched.live.settings import LiveSettings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


def commands(past: Past, kind: type) -> list[Any]:
    return [c for record in past.records for c in record.commands if isinstance(c, kind)]


def begun_again(past: Past) -> list[tuple[Start, int]]:
    """Each start after a crash, and the step up to which the trial was saved by then."""
    trial_of: dict[int, int] = {}
    saved: dict[int, int] = {}
    crashed: set[int] = set()
    found = []
    for record in past.records:
        event = record.event
        if isinstance(event, Snapped) and event.step > 0:
            saved[trial_of[event.attempt]] = event.step
        elif isinstance(event, Failed):
            crashed.add(trial_of[event.attempt])
        for start in record.commands:
            if isinstance(start, Start):
                trial_of[start.attempt] = start.trial
                if start.trial in crashed:
                    crashed.remove(start.trial)
                    found.append((start, saved.get(start.trial, 0)))
    return found


def source_step(start: Start) -> int:
    return 0 if start.source is None else start.source.step


def run(server: Server, folder: Path, settings: LiveSettings) -> Past:
    coordinator = server.start(folder, settings, settings.nodes, resume=False)
    assert coordinator.wait() == 0, coordinator.output
    return check_end(folder, settings)


@pytest.mark.parametrize("scheduler", ["successive-halving", "hyperband", "asha", "pbt"])
@pytest.mark.parametrize("checkpoints", ["scheduler", "milestone"])
def test_a_held_trial_goes_on_where_it_stands(
    scheduler: str, checkpoints: str, server: Server, tmp_path: Path
) -> None:
    """Each trial has a node of its own, so none is ever needed by another."""
    settings = make_settings(
        worker(), scheduler=scheduler, workers=4, nodes=1 if scheduler == "asha" else 4,
        preemption="lazy", checkpoints=checkpoints,
    )  # fmt: skip
    past = run(server, tmp_path / "run", settings)
    if scheduler in ("successive-halving", "hyperband"):
        assert past.courses == Naive(settings).courses()  # which do not depend on the order
        if checkpoints == "scheduler":  # one that is saved first may be asked for meanwhile
            assert commands(past, Keep)
        assert past.ledger.loads == 0
        # A trial that goes on was started once.
        assert len(commands(past, Start)) == 4
    if scheduler == "successive-halving" and checkpoints == "scheduler":
        assert not commands(past, Save)
        assert past.ledger.preemptions == 0


def test_with_one_node_each_that_is_saved_is_held_first(server: Server, tmp_path: Path) -> None:
    settings = make_settings(
        worker(), scheduler="successive-halving", workers=4, nodes=1, preemption="lazy",
        checkpoints="milestone",
    )  # fmt: skip
    past = run(server, tmp_path / "run", settings)
    assert past.courses == Naive(settings).courses()
    assert commands(past, Keep)


def test_a_held_trial_gives_its_node_to_another(server: Server, tmp_path: Path) -> None:
    settings = make_settings(
        worker(), scheduler="successive-halving", workers=6, nodes=1, preemption="lazy",
        checkpoints="scheduler",
    )  # fmt: skip
    past = run(server, tmp_path / "run", settings)
    assert past.courses == Naive(settings).courses()
    eager = run(
        server, tmp_path / "eager",
        make_settings(worker(), scheduler="successive-halving", workers=6, nodes=1,
                      checkpoints="scheduler"),
    )  # fmt: skip
    assert past.courses == eager.courses
    assert past.ledger.saves <= eager.ledger.saves
    assert past.ledger.loads <= eager.ledger.loads
    assert past.ledger.preemptions <= eager.ledger.preemptions
    assert past.ledger.preemptions == past.ledger.saves  # each was saved when it was taken


@pytest.mark.parametrize("scheduler", ["random", "successive-halving", "hypertrick", "pbt"])
def test_what_was_saved_in_mid_phase_is_not_trained_again(
    scheduler: str, server: Server, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    # It waits for four saves, at 22 to 25. When the last is asked for, that at 24 is there.
    faults = ["hold,step=22,times=4", "crash,step=27,times=1"]
    settings = make_settings(
        worker("--pace", "0.01", faults=faults, marks=marks), scheduler=scheduler, workers=3,
        phases=2, phase_length=30, nodes=1, checkpoints="every:0.06s",
    )  # fmt: skip
    past = run(server, tmp_path / "run", settings)
    assert past.courses == Naive(settings).courses()
    snapped = [event for event in past.events(Snapped) if event.step >= 0]
    assert len(snapped) > 6
    assert len(past.failures) == 3
    restarts = begun_again(past)
    assert len(restarts) == 3
    for start, saved in restarts:
        assert 24 <= source_step(start) == saved < 27
    told = {(s.node, s.attempt) for s in commands(past, Snapshot)}
    assert {(event.node, event.attempt) for event in snapped} <= told


def test_later_phases_are_saved_in_mid_phase_too(server: Server, tmp_path: Path) -> None:
    """A worker that was told to go on at a milestone says nothing before it trains."""
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = ["hold,step=52,times=3", "crash,step=57,times=1"]
    settings = make_settings(
        worker("--pace", "0.01", faults=faults, marks=marks), scheduler="random", workers=1,
        phases=2, phase_length=30, nodes=1, checkpoints="every:0.06s",
    )  # fmt: skip
    past = run(server, tmp_path / "run", settings)
    assert past.courses == Naive(settings).courses()
    ((again, saved),) = begun_again(past)
    assert 53 <= source_step(again) == saved < 57


def test_interrupted_while_held_and_saving_it_goes_on(server: Server, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    settings = make_settings(
        worker("--pace", "0.005", faults=["gate,step=50"], marks=marks),
        scheduler="successive-halving", workers=6, phases=3,
        phase_length=20, nodes=3, preemption="lazy", checkpoints="every:0.05s",
    )  # fmt: skip
    folder = tmp_path / "run"
    for _ in range(3):
        before = lines(folder)
        coordinator = server.start(folder, settings, 3, resume=folder.exists())
        until(lambda before=before: lines(folder) > before + 1)  # type: ignore[misc]
        assert not coordinator.is_over(0.35)
        coordinator.signal(2)
        assert coordinator.wait() == 130, coordinator.output
    (marks / "open").touch()
    coordinator = server.start(folder, settings, 3, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    past = check_end(folder, settings)
    assert past.courses == Naive(settings).courses()
    assert len(past.events(Interrupted)) == 3
    assert commands(past, Train)


@pytest.mark.parametrize("seed", range(4))
def test_killed_while_held_and_saving_it_goes_on(seed: int, server: Server, tmp_path: Path) -> None:
    settings = make_settings(
        worker("--pace", "0.005"), scheduler="hyperband", workers=6, phases=3,
        phase_length=20, nodes=2, preemption="lazy", checkpoints="milestone+every:0.05s",
    )  # fmt: skip
    folder = tmp_path / "run"
    for part in range(3):
        coordinator = server.start(folder, settings, 2, resume=folder.exists())
        if not coordinator.is_over(0.2 + 0.07 * seed + 0.05 * part):
            coordinator.signal(9)
        coordinator.wait()
    coordinator = server.start(folder, settings, 2, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    assert check_end(folder, settings).courses == Naive(settings).courses()
