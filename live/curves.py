"""The learning curves of a live search: what its workers tell, kept by trial.

`trials/0003/rows.jsonl` has a line for each thing that a trial's worker told, in order:

    {"row": [seconds, steps, episodes, score]}
    {"start": attempt, "steps": …, "episodes": …, "seconds": …}    training begins, from there
    {"milestone": step, "reached": count, "steps": …, "episodes": …, "seconds": …, "score": …}

What an attempt trained beyond the checkpoint that the next one starts from is lost: rows after
those counters do not count. So a curve is what the trial's weights have seen. But where the trial
was over before it was back there, they are its curve after all, and stand in the file once more,
after a start of attempt 0.
"""

import math
import os
from pathlib import Path
from typing import IO, Literal, TypeAlias

import msgspec
import numpy as np

from simsched.live.protocol import Counters
from simsched.messages import Hparams, TrialId
from simsched.results import Fate
from simsched.traces import Trace

RowTuple: TypeAlias = tuple[float, int, int, float]
ENDS: dict[Fate, Literal["complete", "diverged", "censored"]] = {
    "finished": "complete",
    "diverged": "diverged",
}
"""How a trial's record ends; whatever else became of it, somebody stopped it early."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    row: RowTuple | None = None
    start: int | None = None
    milestone: int | None = None
    reached: float = 0.0
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    score: float | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


class TrialCurve:
    """One trial's rows, in memory and in its file."""

    def __init__(self, path: Path) -> None:
        """Go on with the file if there is one; a torn last line is dropped."""
        self.rows: list[RowTuple] = []
        self.milestones: dict[int, Counters] = {}
        """The trial's counters when it reported each milestone."""
        self.counts: dict[int, float] = {}
        """The count that was told with each."""
        self.scores: dict[int, float | None] = {}
        self.counters = Counters()
        """The newest that are known."""
        self._lost: list[RowTuple] = []
        """Rows that were lost, until as many episodes are trained again."""
        self._lost_from = Counters()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read(path)
        self._path = path
        self._file: IO[bytes] | None = None

    def _read(self, path: Path) -> None:
        good = 0
        with path.open("rb") as file:
            for text in file:
                try:
                    line = _decoder.decode(text)
                except msgspec.DecodeError:
                    break  # torn by the coordinator's death: what follows was never acted on
                if not text.endswith(b"\n"):
                    break
                good += len(text)
                self._take(line)
        os.truncate(path, good)

    def _take(self, line: _Line) -> None:
        if line.row is not None:
            self.rows.append(line.row)
            self.counters = Counters(line.row[1], line.row[2], line.row[0])
            if self._lost and line.row[2] >= self._lost[-1][2]:
                self._lost = []
            return
        self.counters = Counters(line.steps, line.episodes, line.seconds)
        if line.milestone is not None:
            self.milestones[line.milestone] = self.counters
            self.counts[line.milestone] = line.reached
            self.scores[line.milestone] = line.score
            if line.score is None:
                self._lost = []
        else:
            self._cut(self.counters)

    def _cut(self, counters: Counters) -> None:
        """Take out the rows after these counters."""
        place = len(self.rows)
        while place and self.rows[place - 1][2] > counters.episodes:
            place -= 1
        cut = self.rows[place:]
        del self.rows[place:]
        if not self._lost:
            self._lost, self._lost_from = cut, counters
        elif counters.episodes < self._lost_from.episodes:
            before = [row for row in cut if row[2] <= self._lost_from.episodes]
            self._lost, self._lost_from = before + self._lost, counters

    def _settle(self) -> None:
        """The trial is over: what was lost, and not trained again as far, is its curve."""
        if self._lost:
            lost, self._lost = self._lost, []
            start = _Line(start=0, **msgspec.structs.asdict(self._lost_from))
            self._write([start, *(_Line(row=row) for row in lost)])

    def _write(self, lines: list[_Line]) -> None:
        for line in lines:
            self._take(line)
        if self._file is None:
            self._file = self._path.open("ab")
        self._file.write(b"".join(_encoder.encode(line) + b"\n" for line in lines))

    def started(self, attempt: int, counters: Counters) -> None:
        """An attempt begins to train from these counters; later rows are void."""
        self._write([_Line(start=attempt, **msgspec.structs.asdict(counters))])

    def add(self, rows: list[RowTuple]) -> None:
        """Take in rows."""
        self._write([_Line(row=row) for row in rows])

    def reached(
        self, milestone: int, count: float, counters: Counters, score: float | None
    ) -> None:
        """Note the count that was told with a milestone, and the counters by then."""
        fields = msgspec.structs.asdict(counters)
        self._write([_Line(milestone=milestone, reached=count, score=score, **fields)])

    def beat(self, counters: Counters) -> None:
        """Note, in memory, how far the trial is."""
        self.counters = counters

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self._file is not None:
            self._file.flush()

    def sync(self) -> None:
        """Wait until the disk has everything."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; it is opened again when there is more to write."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def trace(self, trial: TrialId, hparams: Hparams, fate: Fate) -> Trace | None:
        """Return the curve of a trial that is over as a trace; None if it never had a score."""
        self._settle()
        if not self.rows:
            return None
        last = self.counters
        seconds, steps, episodes, _ = self.rows[-1]
        final = (
            max(seconds, last.seconds), max(steps, last.steps), max(episodes, last.episodes),
            math.nan,
        )  # fmt: skip
        rows = [*self.rows, final]
        columns = list(zip(*rows, strict=True))
        return Trace(
            trial=trial,
            hparams=hparams,
            end=ENDS.get(fate, "censored"),
            seconds=np.array(columns[0], dtype=np.float64),
            steps=np.array(columns[1], dtype=np.int64),
            episodes=np.array(columns[2], dtype=np.int64),
            score=np.array(columns[3], dtype=np.float64),
        )
