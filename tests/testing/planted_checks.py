"""The suites that are to catch planted bugs, each as a function that raises where it finds one."""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from naive.cases import search_case
from naive.driver import play as play_twins
from naive.product import compare
from naive.simulated import simulation_case
from planted_cluster import Rates
from planted_world import World
from test_accounting import test_no_decision_reads_the_future as reads_no_future
from test_journal import test_a_journal_cut_at_any_byte_goes_on_from_its_last_whole_line as goes_on

from simsched import recovery
from simsched.comparison import simulate
from simsched.coordinator import Coordinator
from simsched.errors import SimschedError
from simsched.events import NodeUp
from simsched.ledger import Ledger
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.space import PUBLISHED_GA3C
from simsched.testing import contract_checks as checks
from simsched.testing.contract_simulated import PHASES, TRIALS, check_simulation, curves
from simsched.testing.swarm_run import run_seed

RATES = {
    "calm": Rates(),
    "failing": Rates(failing=0.1),
    "leaving": Rates(leaving=0.15),
    "stale": Rates(failing=0.05, leaving=0.05, stale=0.3),
    "all": Rates(0.05, 0.08, 0.1, 0.05),
}


def contract(scheduler: str) -> None:
    """The contract suite, as far as it does not take Hypothesis."""
    for scores in ("random", "few-levels", "some-diverge"):
        for trials, nodes in checks.SIZES:
            checks.check_runs(scheduler, trials, nodes, scores)
    for seed in range(40):
        checks.check_orders(scheduler, seed)
    checks.check_searcher_runs_out(scheduler)
    checks.check_divergence_at_every_report(scheduler)
    checks.check_same_answers_again(scheduler)
    checks.check_snapshot_at_every_moment(scheduler)
    checks.check_abandonment_at_every_moment(scheduler)


def naive(scheduler: str) -> None:
    """Random events to the scheduler and to its naive twin."""
    for seed in range(60):
        play_twins(search_case(random.Random(seed), scheduler))


def naive_simulation(scheduler: str) -> None:
    """Random simulations, and the same by the naive simulator."""
    for seed in range(25):
        compare(simulation_case(random.Random(seed), scheduler))


def world(scheduler: str, rates: str, seeds: int = 60) -> None:
    """A cluster on which workers and nodes are lost; its invariants, and the books."""
    for seed in range(seeds):
        made = World(
            scheduler, seed, RATES[rates], nodes=1 + seed % 4, delete=seed % 3 > 0,
            save_at=("scheduler", "milestone")[seed % 2],
        )  # fmt: skip
        made.run()
        made.check_books()


def swarm(seeds: int = 100) -> None:
    """Seeds of the swarm."""
    for seed in range(seeds):
        violation = run_seed(seed).violation
        assert violation is None, violation


def future() -> None:
    """Curves whose rows may not be read before they are reached."""
    for seed in range(2):
        reads_no_future("random", seed)


def simulation(scheduler: str) -> None:
    """The contract's whole simulation."""
    with TemporaryDirectory() as folder:
        check_simulation(scheduler, 3, Path(folder))


def journal_cut() -> None:
    """A journal that is cut at every byte."""
    with TemporaryDirectory() as folder:
        goes_on(Path(folder))


def foreign_journal() -> None:
    """A journal that was made with other settings is refused."""
    recorded = curves()
    searcher = Given([trace.hparams for trace in recorded.traces], PUBLISHED_GA3C, 0)
    with TemporaryDirectory() as folder:
        simulate(
            recorded, nodes=3, workers=TRIALS, schedulers=["asha:eta=3"], unit="reports",
            phases=PHASES, phase_length=1, journals=folder,
        )  # fmt: skip
        (journal,) = Path(folder).iterdir()
        other = Coordinator(build("asha", Plan(TRIALS, PHASES, 1), searcher))
        with pytest.raises(SimschedError, match="it was made by other code or settings"):
            recovery.replay(journal, other, Ledger(PHASES))


class _Diary:
    """Stands for journal and workshop: writes down in which order things are done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.folder = Path()

    def append(self, *_: Any) -> None:
        self.done.append("journal")

    def sync(self) -> None:
        self.done.append("sync")

    def decided(self, *_: Any) -> None:
        """The live view is told."""

    def flush(self) -> None:
        """Curves are written."""


def journal_first() -> None:
    """The live world carries nothing out that the disk does not have."""
    pytest.importorskip("psutil")
    from simsched.control import Control
    from simsched.live.feed import Feed

    diary = _Diary()
    searcher = Given([{"x": 1.0}] * 2, PUBLISHED_GA3C, 0)
    coordinator = Coordinator(build("random", Plan(2, 2, 1), searcher))
    control = Control(coordinator, Ledger(2), cast(Any, diary))

    async def two_nodes_come_up() -> None:
        feed = Feed(control, cast(Any, diary), 0)
        feed.begin(lambda command: diary.done.append(type(command).__name__))
        for node in range(2):
            feed.offer(NodeUp(0, node))
        await asyncio.sleep(0.001)

    asyncio.run(two_nodes_come_up())
    in_order = ["journal", "journal", "sync", "Start", "Start"]
    assert diary.done == in_order, f"{diary.done}, not {in_order}"
