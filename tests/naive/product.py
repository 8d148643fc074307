"""The program under test, run through its public face and put into the naive result's shape."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from naive.engine import KINDS, NaiveResult, Told, naive_run
from naive.rules import NoSuchRungsError
from naive.simulated import SimulationCase, TraceSearcher
from simsched import simulate
from simsched.errors import SimschedError
from simsched.events import Ended, Reported, Start
from simsched.journal import Record, read_journal
from simsched.traces import Metadata, TraceSet

SPACE = {"x": {"type": "real", "low": 0.0, "high": 100.0}}


def us(seconds: float) -> int:
    return round(seconds * 1e6)


def run_naive(case: SimulationCase) -> NaiveResult:
    search, searcher = case.search, TraceSearcher(case.traces)
    return naive_run(
        search.scheduler, search.params, case.traces, search.trials, search.phases,
        search.phase_length, case.unit, case.nodes, case.speeds, us(case.start_s),
        us(case.save_s), us(case.load_s), search.seed, searcher.suggest,
        lambda hparams, key, factor, probability: searcher.perturb(
            hparams, key, factor=factor, resample_probability=probability
        ),
        mode=case.mode,
    )  # fmt: skip


def run_product(case: SimulationCase, folder: Path) -> NaiveResult:
    """Simulate the case; the journal is written into `folder`, which should be empty."""
    ends: dict[str, str] = {str(trace.trial): trace.end for trace in case.traces}
    metadata = Metadata(mode=case.mode, space=SPACE, ends=ends)
    comparison = simulate(
        TraceSet("case", None, metadata, tuple(case.traces)),
        nodes=case.nodes, workers=case.search.trials, schedulers=[case.search.text],
        phases=case.search.phases, phase_length=case.search.phase_length, unit=case.unit,
        start_s=case.start_s, save_s=case.save_s, load_s=case.load_s,
        node_speeds=case.speeds, seed=case.search.seed, journals=folder,
    )  # fmt: skip
    (run,) = comparison.runs
    decisions, abandoned = read_decisions(folder)
    return NaiveResult(
        decisions=decisions,
        wall_us=us(run.wall_time_s),
        node_us={kind: us(s) for kind, s in run.node_seconds.items() if s or kind in KINDS},
        saves=run.saves,
        loads=run.loads,
        fates={trial.trial: trial.fate for trial in run.trials},
        abandoned=abandoned,
    )


def read_decisions(
    folder: Path,
) -> tuple[list[Told], list[tuple[int, int, int, tuple[int, ...]]]]:
    """All reports with their answers, and the trials that were given up, from the journal."""
    (path,) = folder.glob("*.jsonl")
    trial_of: dict[int, int] = {}
    decisions: list[Told] = []
    abandoned: list[tuple[int, int, int, tuple[int, ...]]] = []
    for record in read_journal(path):
        if not isinstance(record, Record):
            continue
        event = record.event
        if isinstance(event, Reported):
            assert record.decision is not None
            decisions.append(
                Told(
                    event.at,
                    event.node,
                    trial_of[event.attempt],
                    event.step,
                    event.score,
                    type(record.decision.verdict).__name__.lower(),
                    record.decision.retired,
                )
            )
        elif isinstance(event, Ended):
            trial = trial_of[event.attempt]
            abandoned.append((event.at, event.node, trial, record.abandoned))
        for command in record.commands:
            if isinstance(command, Start):
                trial_of[command.attempt] = command.trial
    return decisions, abandoned


def compare(case: SimulationCase) -> int:
    """Simulate with both, compare all they give; return the number of decisions."""
    with TemporaryDirectory() as folder:
        try:
            expected = run_naive(case)
        except NoSuchRungsError:
            with pytest.raises(SimschedError, match="less than one resource unit"):
                run_product(case, Path(folder))
            return 0
        given = run_product(case, Path(folder))
    for number, pair in enumerate(zip(given.decisions, expected.decisions, strict=False)):
        assert pair[0] == pair[1], f"{case}\ndecision {number}: got {pair[0]}, not {pair[1]}"
    for name in ("decisions", "abandoned", "wall_us", "node_us", "saves", "loads", "fates"):
        assert getattr(given, name) == getattr(expected, name), f"{case}\n{name}"
    return len(expected.decisions)
