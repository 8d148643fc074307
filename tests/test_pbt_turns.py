"""A population larger than the cluster takes turns (16 members, 6 nodes)."""

import numpy as np
import pytest
from worlds import curve, run_curves

from simsched.cluster import Cluster
from simsched.results import RunResult

MEMBERS, NODES, PHASES = 16, 6, 8


def stretches(run: RunResult) -> dict[int, list[tuple[int, int, int]]]:
    """Of each member: (start, end, milestone) of what it trained, in order of time."""
    trained: dict[int, list[tuple[int, int, int]]] = {member: [] for member in range(MEMBERS)}
    for interval in sorted(run.timeline.intervals, key=lambda i: i.start_us):
        if interval.kind == "train":
            trained[interval.trial].append((interval.start_us, interval.end_us, interval.step))
    return trained


def state(trained: list[tuple[int, int, int]], at: int) -> tuple[int, bool]:
    """Return a member's milestones done at `at` and whether it is on a node right after."""
    done = max((step for _, end, step in trained if end <= at), default=0)
    return done, any(start <= at < end for start, end, _ in trained)


def made(seed: int, *, equal: bool) -> RunResult:
    rng = np.random.default_rng(seed)
    curves = []
    for member in range(MEMBERS):
        gaps = np.full(PHASES, 1000) if equal else rng.integers(500, 3000, PHASES)
        scores = rng.normal(size=PHASES).cumsum().tolist()
        curves.append(curve(member, gaps.cumsum().tolist(), scores))
    run, _ = run_curves("pbt", curves, PHASES, Cluster(NODES), seed=seed)
    return run


@pytest.mark.parametrize("seed", range(8))
def test_equal_intervals_nobody_is_more_than_two_ahead_of_one_that_waits(seed: int) -> None:
    run = made(seed, equal=True)
    trained = stretches(run)
    apart = []
    for at in range(0, run.timeline.end_us, 1000):
        states = [state(trained[member], at) for member in range(MEMBERS)]
        waiting = [done for done, on_node in states if not on_node and done < PHASES]
        if waiting:
            apart.append(max(done for done, _ in states) - min(waiting))
    assert max(apart) in (1, 2)
    assert run.preemptions > 0
    assert {trial.fate for trial in run.trials} == {"finished"}


@pytest.mark.parametrize("seed", range(8))
def test_unequal_intervals_nobody_waits_while_a_more_advanced_one_starts(seed: int) -> None:
    run = made(seed, equal=False)
    trained = stretches(run)
    starts = 0
    for member, own in trained.items():
        for start, _, step in own:
            for other in set(trained) - {member}:
                done, on_node = state(trained[other], start)
                waits = not on_node and done < PHASES
                assert not (waits and done < step - 1), (member, other, start)
            starts += 1
    assert starts == MEMBERS * PHASES


def test_every_milestone_saves_but_the_last_and_those_that_are_replaced() -> None:
    run = made(0, equal=False)
    not_last = MEMBERS * (PHASES - 1)
    assert run.saves == not_last - run.approximation["exploits"]
    resumed = sum(interval.kind == "load" for interval in run.timeline.intervals)
    assert resumed == 0  # loading takes no time here
    assert run.loads > run.approximation["exploits"] > 0
