"""What must hold of a live search with fast workers, whatever happened to it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from fast_runs import Server, processes_of, run_of
from fast_worker import SECONDS_A_STEP, advance, score_of

from simsched.coordinator import Coordinator
from simsched.events import Reported
from simsched.journal import Record, read_journal
from simsched.ledger import Ledger
from simsched.live.search import make_scheduler, policy_of
from simsched.live.settings import LiveSettings
from simsched.live.storage import Store
from simsched.live.world import socket_folder
from simsched.messages import Checkpoint, Continue, Exploit, Hparams, Pause, Report, Stop, TrialId
from simsched.recovery import replay

EVERY = 3
"""Steps between two rows of the fast worker."""


class Course(NamedTuple):
    """What a search told and decided about a trial."""

    milestones: list[tuple[int, float | None]]
    """Steps and scores."""
    fate: str | None


class Naive:
    """Trains a search's trials one after another, in a plain loop: what an only node would do."""

    def __init__(self, settings: LiveSettings) -> None:
        self.scheduler = make_scheduler(settings)
        self.maximum = settings.plan.maximum
        self.skills: dict[Checkpoint, float] = {}
        self.told: dict[TrialId, list[tuple[int, float | None]]] = defaultdict(list)
        self.fates: dict[TrialId, str] = {}
        self.steps: dict[TrialId, int] = defaultdict(int)
        self.exploits = 0

    def courses(self) -> dict[TrialId, Course]:
        """Run the search, return what became of each trial."""
        while (run := self.scheduler.ask()) is not None:
            skill = 0.0 if run.source is None else self.skills[run.source]
            self.train(run.trial, run.hparams, run.until, skill)
        assert self.scheduler.done()
        return {trial: Course(self.told[trial], self.fates.get(trial)) for trial in self.told}

    def train(self, trial: TrialId, hparams: Hparams, until: int, skill: float) -> None:
        while True:
            scores = []
            while self.steps[trial] < until or self.steps[trial] % EVERY:
                self.steps[trial] += 1
                skill = advance(skill, hparams)
                if self.steps[trial] % EVERY == 0:
                    scores.append(score_of(skill, hparams, self.steps[trial]))
            score = sum(scores) / len(scores)
            self.told[trial].append((until, score))
            decision = self.scheduler.tell(Report(trial, until, score))
            self.skills[Checkpoint(trial, until)] = skill
            for other in decision.retired:
                self.fates[other] = "stopped"
            verdict = decision.verdict
            if isinstance(verdict, Stop):
                self.fates[trial] = "finished" if until == self.maximum else "stopped"
            if isinstance(verdict, Stop | Pause):
                return
            if isinstance(verdict, Exploit):
                self.exploits += 1
                hparams, skill = verdict.hparams, self.skills[verdict.donor]
            assert isinstance(verdict, Continue | Exploit)
            until = verdict.until


class Past(NamedTuple):
    """A search, from its journal alone."""

    coordinator: Coordinator
    ledger: Ledger
    records: list[Record]

    @property
    def courses(self) -> dict[TrialId, Course]:
        return {
            trial: Course([(m.step, m.score) for m in record.curve], record.fate)
            for trial, record in self.ledger.trials.items()
        }

    def events(self, kind: type) -> list[Any]:
        return [record.event for record in self.records if isinstance(record.event, kind)]

    @property
    def failures(self) -> list[str]:
        from simsched.events import Failed

        return [event.reason for event in self.events(Failed)]


def read(folder: Path, settings: LiveSettings) -> Past:
    """Feed a run's journal to a fresh scheduler; every answer must be the journal's."""
    coordinator = Coordinator(make_scheduler(settings), policy_of(settings))
    ledger = Ledger(settings.plan.maximum)
    replay(folder / "journal.jsonl", coordinator, ledger)
    records = [each for each in read_journal(folder / "journal.jsonl") if isinstance(each, Record)]
    return Past(coordinator, ledger, records)


def check_end(folder: Path, settings: LiveSettings, *, sound: bool = True) -> Past:
    """Check what must hold of every search that came to its end.

    Args:
        folder: the run's.
        settings: of the search.
        sound: whether no checkpoint that is kept was damaged.
    """
    past = read(folder, settings)
    assert past.coordinator.finished
    assert len(past.ledger.trials) == settings.workers
    assert all(record.fate is not None for record in past.ledger.trials.values())
    _nothing_told_twice(past)
    run_id = run_of(folder)
    assert processes_of(run_id) == []
    assert not socket_folder(run_id).exists()
    _no_checkpoint_leaked(folder, past, sound=sound)
    _curves_are_whole(folder, settings, past)
    (run,) = json.loads((folder / "results.json").read_bytes())["runs"]
    fates = {trial["trial"]: trial["fate"] for trial in run["trials"]}
    assert fates == {trial: record.fate for trial, record in past.ledger.trials.items()}
    return past


def goes_on(server: Server, folder: Path, settings: LiveSettings) -> None:
    """Resume a search on one node, and compare with what should have come of it."""
    coordinator = server.start(folder, settings, 1, resume=True)
    assert coordinator.wait() == 0, coordinator.output
    assert check_end(folder, settings).courses == Naive(settings).courses()


def _nothing_told_twice(past: Past) -> None:
    for trial, course in past.courses.items():
        steps = [step for step, _ in course.milestones]
        assert steps == sorted(set(steps)), f"trial {trial} told a milestone twice"
    decided = [each for each in past.records if each.decision is not None]
    assert len(decided) == sum(len(course.milestones) for course in past.courses.values())
    assert all(isinstance(record.event, Reported) for record in decided)


def _no_checkpoint_leaked(folder: Path, past: Past, *, sound: bool) -> None:
    store = Store(folder / "checkpoints")
    best = {checkpoint for _, _, checkpoint in past.coordinator.shelf.best()}
    assert len(best) <= 3
    assert {path.name for path in store.folder.iterdir()} == {store.path(c).name for c in best}
    for checkpoint in best if sound else ():
        store.open(checkpoint)  # raises if it is not what was saved


def _curves_are_whole(folder: Path, settings: LiveSettings, past: Past) -> None:
    """No row is lost or doubled where training was; only copied weights give other scores."""
    from simsched.traces import read as read_traces

    curves = {trace.trial: trace for trace in read_traces(folder / "curves.parquet").traces}
    for trial, record in past.ledger.trials.items():
        trace = curves[trial]
        rows = len(trace.score) - 1  # the last one has the final counters
        assert trace.episodes[:-1].tolist() == list(range(1, rows + 1))
        assert trace.steps[:-1].tolist() == [EVERY * k for k in range(1, rows + 1)]
        seconds = [round(EVERY * k * SECONDS_A_STEP, 6) for k in range(1, rows + 1)]
        assert trace.seconds[:-1].tolist() == seconds
        assert rows * EVERY >= record.step
        if not settings.scheduler.startswith("pbt"):
            skill, expected = 0.0, []
            for step in range(1, EVERY * rows + 1):
                skill = advance(skill, record.hparams)
                expected.append(score_of(skill, record.hparams, step))
            assert trace.score[:-1].tolist() == expected[EVERY - 1 :: EVERY]
