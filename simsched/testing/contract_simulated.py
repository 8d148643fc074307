"""A scheduler in a whole simulation: books that balance, a journal that repeats it."""

from collections import Counter
from pathlib import Path

import numpy as np

from simsched.comparison import simulate
from simsched.coordinator import Coordinator
from simsched.ledger import Ledger
from simsched.recovery import replay
from simsched.results import RunResult
from simsched.schedulers import Plan, build
from simsched.searchers import Given
from simsched.space import PUBLISHED_GA3C
from simsched.testing.contract_values import ContractError
from simsched.timeline import KINDS
from simsched.traces import Metadata, Trace, TraceSet

TRIALS, PHASES = 14, 8
ENDS = ("complete", "complete", "diverged", "complete", "censored")


def curves(trials: int = TRIALS, rows: int = PHASES, seed: int = 0) -> TraceSet:
    """Make curves of `rows` reports whose ends are of every kind; scores tie now and then."""
    made = []
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        end = ENDS[trial % len(ENDS)]
        length = rows if end == "complete" else int(rng.integers(1, rows + 1))
        made.append(
            Trace(
                trial=trial,
                hparams=PUBLISHED_GA3C.sample(rng),
                end=end,  # type: ignore[arg-type]
                seconds=rng.integers(1, 4, length).cumsum().astype(float),
                steps=np.arange(1, length + 1) * 10,
                episodes=np.arange(1, length + 1),
                score=rng.integers(0, 9, length).astype(float),
            )
        )
    meta = Metadata(
        game="made up", space=PUBLISHED_GA3C.to_json(), synthetic=True,
        ends={str(trace.trial): trace.end for trace in made},
    )  # fmt: skip
    return TraceSet("made-up", None, meta, tuple(made))


def check_simulation(scheduler: str, nodes: int, folder: Path) -> None:
    """Simulate it, balance the books, and repeat its journal with a fresh coordinator.

    Args:
        scheduler: as the command line names it.
        nodes: of the cluster.
        folder: an empty one, for the journal.

    Raises:
        ContractError: what does not fit.
        SimschedError: the scheduler refused the plan, or answered its journal otherwise.
    """
    recorded = curves()
    (run,) = simulate(
        recorded, nodes=nodes, workers=TRIALS, schedulers=[scheduler], unit="reports",
        phases=PHASES, phase_length=1, start_s=0.5, save_s=1.0, load_s=1.5,
        node_speeds=(1.0, 2.0), journals=folder,
    ).runs  # fmt: skip
    check_books(run)
    (journal,) = folder.iterdir()
    searcher = Given([trace.hparams for trace in recorded.traces], PUBLISHED_GA3C, 0)
    coordinator = Coordinator(build(scheduler, Plan(TRIALS, PHASES, 1), searcher))
    replay(journal, coordinator, Ledger(PHASES))
    if not coordinator.finished:
        raise ContractError("the journal is repeated, and the run has not come to its end")


def check_books(run: RunResult) -> None:
    """Each moment of each node is in one place, each trial has a fate. Raises ContractError."""
    spent = Counter[str]()
    clock = dict.fromkeys(range(run.nodes), 0)
    for interval in run.timeline.intervals:
        if interval.start_us != clock[interval.node] or interval.end_us <= interval.start_us:
            raise ContractError(f"{interval} does not follow on {clock[interval.node]}")
        clock[interval.node] = interval.end_us
        spent[interval.kind] += interval.end_us - interval.start_us
    if set(clock.values()) != {run.timeline.end_us}:
        raise ContractError(f"nodes' books end at {clock}, not {run.timeline.end_us}")
    told = {kind: round(seconds * 1e6) for kind, seconds in run.node_seconds.items()}
    if told != {kind: spent[kind] for kind in KINDS}:
        raise ContractError(f"node seconds {told} are not those of the timeline {spent}")
    for trial in run.trials:
        steps = [milestone.step for milestone in trial.curve]
        if trial.fate is None or steps != sorted(set(steps)) or trial.milestones != len(steps):
            raise ContractError(f"trial {trial.trial}: fate {trial.fate}, milestones {steps}")
