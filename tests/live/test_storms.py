"""Workers and coordinators are killed at random moments; the search must come out the same.

Every seed is a storm of its own: what is killed, and when, is drawn from it, and so is the search.
"""

import os
import random
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, check_end
from fast_runs import Coordinator, Server, lines, make_settings, processes_of, run_of, worker

from simsched.traces import read as read_traces

SCHEDULERS = ("hypertrick", "successive-halving", "hyperband", "asha", "pbt", "random")
IN_ANY_ORDER = ("successive-halving", "hyperband", "random")
"""Schedulers whose decisions do not depend on the order in which reports arrive."""
VICTIMS = ("worker", "two workers", "coordinator", "all")
ALL = range(50)
OFTEN = [seed for seed in ALL if seed % 5 in (0, 2)]


def seeds(all_of_them: range, often: Collection[int]) -> list[Any]:
    """Return seeds, marked `long` but for some."""
    return [pytest.param(k, marks=[] if k in often else [pytest.mark.long]) for k in all_of_them]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


class Storm:
    """One search, and what happens to it."""

    def __init__(self, seed: int, server: Server, folder: Path) -> None:
        self.dice = random.Random(f"storm {seed}")
        self.server, self.place = server, folder
        self.folder = folder / "run"
        self.scheduler = SCHEDULERS[seed % len(SCHEDULERS)]
        self.nodes = 1 + seed // len(SCHEDULERS) % 3
        self.settings = make_settings(
            worker("--pace", "0.002"), scheduler=self.scheduler, nodes=self.nodes, workers=8,
            retries=10, seed=seed, checkpoints=self.dice.choice(["milestone", "scheduler"]),
        )  # fmt: skip
        order_matters = self.scheduler not in IN_ANY_ORDER
        self.decided = not order_matters or self.nodes == 1
        """Whether the storm must not change any decision."""
        self.victims = VICTIMS
        if order_matters and self.nodes == 1:
            # A worker that fails waits for its restart, and others overtake it.
            self.victims = ("coordinator", "all")
        self.killed: list[str] = []

    def run(self) -> None:
        """Until it strikes: on a busy machine a search can be over before this process sees it."""
        for attempt in range(20):
            self.folder = self.place / f"run-{attempt}"
            self.strike()
            if self.killed:
                return
        raise AssertionError("20 searches were over before anything was killed")

    def strike(self) -> None:
        coordinator = self.start(resume=False)
        for _ in range(self.dice.randint(2, 3)):
            victim = self.dice.choice(self.victims)
            if not self.moment_comes(coordinator):
                break
            self.kill(victim, coordinator)
            if victim in ("coordinator", "all"):
                if self.is_over(coordinator):
                    break
                coordinator = self.start(resume=True)
        assert coordinator.wait() == 0, coordinator.output

    def is_over(self, coordinator: Coordinator) -> bool:
        """Whether the search was over when its coordinator was to be killed."""
        code = coordinator.wait()
        assert code in (0, -signal.SIGKILL), coordinator.output
        if code == 0 and self.killed:
            self.killed.pop()
        return code == 0

    def start(self, *, resume: bool) -> Coordinator:
        return self.server.start(self.folder, self.settings, self.nodes, resume=resume)

    def moment_comes(self, coordinator: Coordinator) -> bool:
        """Wait until the journal has grown a little, and then a little; False at the end."""
        enough = lines(self.folder) + self.dice.randint(0, 9)
        wait_s = self.dice.uniform(0, 0.03)
        while lines(self.folder) < enough:
            if coordinator.is_over(0.003):
                return False
        return not coordinator.is_over(wait_s)

    def kill(self, victim: str, coordinator: Coordinator) -> None:
        while not (pids := children(coordinator.pid)) and victim != "coordinator":
            if coordinator.is_over(0.003):
                return
        self.dice.shuffle(pids)
        if victim == "worker":
            pids = pids[:1]
        elif victim == "two workers":
            pids = pids[:2]
        elif victim == "coordinator":
            pids = [coordinator.pid]
        elif self.dice.random() < 0.5 or not self.decided or self.nodes == 1:
            pids = [coordinator.pid, *pids]
        else:
            pids = [*pids, coordinator.pid]
        for pid in pids:
            with suppress(ProcessLookupError):  # it was just ending
                os.kill(pid, signal.SIGKILL)
        self.killed.append(victim)


def children(pid: int) -> list[int]:
    """Return the children of a coordinator; they stay its own until it has ended them."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("seed", seeds(ALL, OFTEN))
def test_a_storm_changes_nothing(seed: int, server: Server, tmp_path: Path) -> None:
    storm = Storm(seed, server, tmp_path)
    storm.run()
    past = check_end(storm.folder, storm.settings)
    fates = {course.fate for course in past.courses.values()}
    assert fates <= {"finished", "stopped"}  # nobody is lost
    if storm.decided:
        assert past.courses == Naive(storm.settings).courses()


def strike_the_completion(storm: Storm) -> None:
    coordinator = storm.start(resume=False)
    second = storm.folder / "completion.jsonl"
    for _ in range(3):
        enough = lines(second) + storm.dice.randint(1, 4)
        while lines(second) < enough and not coordinator.is_over(0.003):
            pass
        if coordinator.is_over():
            break
        storm.kill(storm.dice.choice(("coordinator", "all")), coordinator)
        if storm.is_over(coordinator):
            break
        coordinator = storm.start(resume=True)
    assert coordinator.wait() == 0, coordinator.output


@pytest.mark.parametrize("seed", seeds(range(6), range(1)))
def test_training_on_what_was_stopped_survives_too(
    seed: int, server: Server, tmp_path: Path
) -> None:
    """With --complete the rest of every trial follows the search, in a journal of its own."""
    storm = Storm(seed, server, tmp_path)
    scheduler = ("hypertrick", "successive-halving")[seed % 2]
    storm.settings = msgspec.structs.replace(
        storm.settings, scheduler=scheduler, complete=True, checkpoints="milestone"
    )
    for attempt in range(20):
        storm.folder = tmp_path / f"run-{attempt}"
        strike_the_completion(storm)
        if storm.killed:
            break
    assert storm.killed
    traces = read_traces(storm.folder / "curves.parquet").traces
    assert [trace.end for trace in traces] == ["complete"] * 8
    assert {int(trace.steps[-1]) for trace in traces} == {30}
    for trace in traces:
        assert trace.episodes[:-1].tolist() == list(range(1, 11))
    assert len(list((storm.folder / "checkpoints").iterdir())) <= 6
    assert processes_of(run_of(storm.folder)) == []
