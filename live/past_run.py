"""A live search, over or as far as it got, read from its folder; nothing there is touched."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from simsched.coordinator import Coordinator, ProtocolError
from simsched.events import Command, Delete
from simsched.journal import Header, Record, read_journal
from simsched.ledger import Ledger
from simsched.live.curves import RowTuple
from simsched.live.errors import LiveError
from simsched.live.protocol import Counters
from simsched.live.search import JOURNAL, configurations, make_scheduler, policy_of
from simsched.live.settings import LiveSettings
from simsched.messages import Hparams, TrialId, Unit
from simsched.replay import Curve
from simsched.results import RunResult
from simsched.run_result import make_result

ROWS = "rows.jsonl"
Ended: TypeAlias = Literal["done", "max-time", "unfinished"]


class Checked(NamedTuple):
    """What a fresh coordinator answers that is fed the journal."""

    decisions: int
    """Decisions of the scheduler that the journal has."""
    equal: int
    """Those that are the same now."""
    difference: str | None
    """The line of the first answer that is not, be it a decision or a command, and both answers."""


class PastRun(NamedTuple):
    """What a live search left behind."""

    folder: Path
    settings: LiveSettings
    """As the journal has them: those that it was run with."""
    records: list[Record]
    ledger: Ledger
    """Closed."""
    result: RunResult
    """What really happened, to the end or to the last event."""
    ended: Ended
    checked: Checked
    curves: list[list[Curve]]
    """By trial: its curve, in pieces that end where it diverged. Trials that never began have one
    that is empty."""
    retrained: frozenset[tuple[TrialId, int]]
    """Milestones whose rows were lost and trained again, so that they are not those told."""

    @property
    def up_us(self) -> int:
        """When the first node was up."""
        return self.records[0].event.at

    @property
    def sign(self) -> float:
        """What turns the metric into scores of which larger are better."""
        return sign_of(self.settings)


def sign_of(settings: LiveSettings) -> float:
    """Return what turns a search's metric into scores of which larger are better."""
    return -1.0 if settings.mode == "min" else 1.0


def read_run(folder: Path) -> PastRun:
    """Read a live search's folder, whether the search is over or not.

    Raises:
        LiveError: it is no such folder, or no trial reached a milestone.
        SimschedError: the journal is damaged, with its line.
    """
    settings, records = _journal(folder)
    ledger = Ledger(settings.plan.maximum)
    for record in records:
        ledger.observe(record.event, record.decision, record.abandoned, record.commands)
    if not ledger.milestones:
        raise LiveError(
            f"{folder}: no trial has reached a milestone, so there is nothing to replay"
        )
    checked, ended = _check(folder / JOURNAL, settings, records)
    for each in ledger.trials.values():
        each.fate = each.fate or "censored"  # it was under way when the journal ends
    plan, sign = settings.plan, sign_of(settings)
    timeline = ledger.close(max(ledger.last_us, 1))
    result = make_result(
        settings.scheduler, 0, plan, ledger, timeline, sign,
        [None] * plan.trials, {}, make_scheduler(settings).notes,
    )  # fmt: skip
    curves: list[list[Curve]] = []
    retrained: set[tuple[TrialId, int]] = set()
    for trial, hparams in enumerate(configurations(settings)):
        told = _Told(folder / "trials" / f"{trial:04d}" / ROWS)
        curves.append(list(_curves(told, trial, hparams, settings.unit, plan.maximum, sign)))
        retrained.update((trial, step) for step in told.retrained)
    return PastRun(
        folder, settings, records, ledger, result, ended, checked, curves, frozenset(retrained)
    )


def _journal(folder: Path) -> tuple[LiveSettings, list[Record]]:
    path = folder / JOURNAL
    if not path.is_file():
        raise LiveError(
            f"{folder}: not the folder of a live search, {JOURNAL} is missing; "
            "name one such as runs/live-1"
        )
    header, *records = read_journal(path)
    assert isinstance(header, Header)  # noqa: S101 - read_journal has seen to it
    if "settings" not in header.run:
        raise LiveError(f"{path}: line 1: this is the journal of a simulation, of no live search")
    try:
        settings = msgspec.convert(header.run["settings"], LiveSettings)
    except msgspec.ValidationError as error:
        raise LiveError(
            f"{path}: line 1: these are no settings of a live search: {error}"
        ) from None
    return settings, [record for record in records if isinstance(record, Record)]


def _check(path: Path, settings: LiveSettings, records: list[Record]) -> tuple[Checked, Ended]:
    """Feed the journal to a fresh coordinator; also tell how the journal ends."""
    coordinator = Coordinator(make_scheduler(settings), policy_of(settings))
    total = sum(record.decision is not None for record in records)
    equal, difference = 0, None
    for line, record in enumerate(records, 2):
        try:
            commands = coordinator.handle(record.event)
        except (ProtocolError, LookupError) as error:
            difference = difference or f"{path}: line {line}: the event does not fit: {error}"
            break  # after another answer the coordinator is in another state
        now = (coordinator.decision, coordinator.abandoned, _but_deletes(commands))
        then = (record.decision, record.abandoned, _but_deletes(record.commands))
        equal += record.decision is not None and now[0] == then[0]
        if now != then and difference is None:
            place = 0 if now[0] != then[0] else 1 if now[1] != then[1] else 2
            difference = f"{path}: line {line}: now {now[place]}; the journal has {then[place]}"
    over = coordinator.finished
    ended: Ended = (
        "unfinished" if not over else "done" if coordinator.scheduler.done() else "max-time"
    )
    return Checked(total, equal, difference), ended


def _but_deletes(commands: list[Command]) -> list[Command]:
    """Leave out what decides nothing: which checkpoints go, and when."""
    return [command for command in commands if not isinstance(command, Delete)]


class _Line(msgspec.Struct, frozen=True):
    """A line of a trial's rows; see `simsched.live.curves`."""

    row: RowTuple | None = None
    start: int | None = None
    milestone: int | None = None
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    score: float | None = None


class _Piece:
    """Rows up to a divergence, or to the trial's end."""

    def __init__(self, base_s: float, reports: int) -> None:
        self.base_s = base_s
        """The trial's seconds where it begins."""
        self.reports = reports
        """Rows of the pieces before."""
        self.rows: list[RowTuple] = []
        self.final = Counters()
        self.diverged = False


class _Told:
    """What a trial's workers told, as `TrialCurve` takes it, but read only."""

    def __init__(self, path: Path) -> None:
        self.pieces = [_Piece(0.0, 0)]
        self.retrained: set[int] = set()
        self._milestones: dict[int, int] = {}
        """The episodes that a trial had when it told each."""
        if path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        decoder = msgspec.json.Decoder(_Line)
        with path.open("rb") as file:
            for text in file:
                try:
                    line = decoder.decode(text)
                except msgspec.DecodeError:
                    return  # torn by the coordinator's death: what follows was never acted on
                if text.endswith(b"\n"):
                    self._take(line)

    def _take(self, line: _Line) -> None:
        piece = self.pieces[-1]
        if line.row is not None:
            piece.rows.append(line.row)
            seconds, steps, episodes, _ = line.row
            piece.final = Counters(steps, episodes, seconds)
            return
        piece.final = Counters(line.steps, line.episodes, line.seconds)
        if line.milestone is not None:
            self._milestones[line.milestone] = line.episodes
            if line.score is None:
                piece.diverged = True
                self.pieces.append(_Piece(line.seconds, piece.reports + len(piece.rows)))
            return
        while piece.rows and piece.rows[-1][2] > line.episodes:
            piece.rows.pop()
        if not piece.rows:
            piece.base_s = line.seconds
        self.retrained.update(
            step for step, episodes in self._milestones.items() if episodes > line.episodes
        )


def _curves(
    told: _Told, trial: TrialId, hparams: Hparams, unit: Unit, maximum: int, sign: float
) -> Iterator[Curve]:
    """Yield a trial's pieces as curves; times begin anew in each."""
    column = {"seconds": 0, "steps": 1, "episodes": 2}
    for piece in told.pieces:
        rows, last = piece.rows, piece.final
        if piece is not told.pieces[0] and not rows:
            return  # nothing followed the divergence
        seconds = [row[0] for row in rows]
        counts: list[float] = (
            [piece.reports + i + 1.0 for i in range(len(rows))]
            if unit == "reports"
            else [row[column[unit]] for row in rows]
        )
        whole = bool(counts) and counts[-1] >= maximum
        if piece.diverged or not rows:  # a milestone waits for a row, so others end with one
            seconds.append(max([last.seconds, *seconds[-1:]]))
            reached = counts[-1:] if unit == "reports" else [getattr(last, unit), *counts[-1:]]
            counts.append(max(reached, default=piece.reports))
        yield Curve(
            trial,
            hparams,
            "diverged" if piece.diverged else "complete" if whole else "censored",
            tuple(max(0, round((at - piece.base_s) * 1e6)) for at in seconds),
            tuple(counts),
            tuple(sign * row[3] for row in rows),
        )
