"""Curves of trials that are not over: what they have trained, and how it may go on."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from simsched.draws import keyed
from simsched.live.settings import LiveSettings
from simsched.messages import Hparams, TrialId, Unit
from simsched.replay import Curve

Floats: TypeAlias = NDArray[np.float64]
Row: TypeAlias = Sequence[float]
"""Cumulative training seconds, steps and episodes, and the row's score."""

ROWS_SO_FAR = 1024
"""Neighbouring rows of a trial that has more are averaged."""
ROWS_AHEAD = 512
"""A curve is extended by so many rows at most."""
APART = 0.1
"""How far borrowed scores are moved, as a share of the scores' standard deviation."""
_COLUMN: dict[Unit, int] = {"seconds": 0, "steps": 1, "episodes": 2}


class SoFar(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial that was started has done."""

    rows: Sequence[Row] | Floats
    """In order; rows that were trained again after a failure may stand there twice."""
    counters: tuple[float, float, float] | None = None
    """Training seconds, steps and episodes as last heard of; None where the last row says it."""
    ended: Literal["diverged", "lost"] | None = None
    """Set where the trial goes no further, whatever a scheduler says."""


class Extended(NamedTuple):
    """A curve of full length for each trial, and how long all trials have trained."""

    curves: list[Curve]
    trained_s: float


class _Known(NamedTuple):
    """A trial's rows in one unit, shapes (rows,), and how far it is."""

    seconds: Floats
    counts: Floats
    scores: Floats
    at_s: float
    at: float
    ended: Literal["diverged", "lost"] | None


def extended_curves(
    settings: LiveSettings, hparams: Sequence[Hparams], trials: Mapping[TrialId, SoFar]
) -> Extended | None:
    """Return curves and training time of all trials; None while no trial has a score.

    Rows so far are kept, and go on at the trial's own recent pace with its own recent score. A
    trial without rows borrows the curve of one that has some, or that has diverged, drawn by
    the seed and its number; it keeps that one as long as it is not outdrawn by a new one. Its
    scores are a little higher or lower: trials that tie would not be stopped by quantiles.

    Args:
        settings: of the search.
        hparams: configurations of all its trials, in their order.
        trials: those that were started.
    """
    sign = -1.0 if settings.mode == "min" else 1.0
    maximum = settings.plan.maximum
    own: dict[TrialId, Curve] = {}
    trained_s = 0.0
    for trial, so_far in trials.items():
        known = _known(so_far, settings.unit, sign)
        if known.ended is not None:
            own[trial] = _curve(trial, hparams[trial], _ended(known), known.ended)
        elif len(known.counts) and known.counts[-1] > 0:
            ahead = _extended(known, settings.phase_length, maximum)
            own[trial] = _curve(trial, hparams[trial], ahead, None)
        trained_s += known.at_s
    lenders = [trial for trial in own if trials[trial].ended != "lost"]
    scores = [own[trial].scores[-1] for trial in lenders if own[trial].scores]
    if not scores:
        return None
    apart = APART * (float(np.std(scores)) or 1.0)
    curves = [
        own[trial] if trial in own else _borrowed(trial, given, own, lenders, settings.seed, apart)
        for trial, given in enumerate(hparams)
    ]
    return Extended(curves, trained_s)


def _known(so_far: SoFar, unit: Unit, sign: float) -> _Known:
    rows = np.asarray(so_far.rows, dtype=np.float64).reshape(-1, 4)
    rows = rows[np.isfinite(rows).all(axis=1) & (rows[:, :3] >= 0).all(axis=1)]
    # What was trained again counts as it went the last time.
    to_come = np.minimum.accumulate(rows[::-1, :3], axis=0)[::-1]
    to_come = np.vstack([to_come[1:], np.full((1, 3), np.inf)])[: len(rows)]
    rows = rows[(rows[:, :3] <= to_come).all(axis=1) & (rows[:, :3] < to_come).any(axis=1)]
    last = np.arange(1.0, len(rows) + 1) if unit == "reports" else rows[:, _COLUMN[unit]]
    at_s, at = (float(rows[-1, 0]), float(last[-1])) if len(rows) else (0.0, 0.0)
    if so_far.counters is not None and so_far.counters[0] >= at_s:
        at_s = so_far.counters[0]
        at = at if unit == "reports" else max(at, so_far.counters[_COLUMN[unit]])
    return _averaged(_Known(rows[:, 0], last, rows[:, 3] * sign, at_s, at, so_far.ended))


def _averaged(known: _Known) -> _Known:
    """Average neighbouring rows where there are very many."""
    rows = len(known.counts)
    if rows <= ROWS_SO_FAR:
        return known
    every = math.ceil(rows / ROWS_SO_FAR)
    first = np.arange(0, rows, every)
    last = np.minimum(first + every, rows) - 1
    means = np.add.reduceat(known.scores, first) / (last + 1 - first)
    return known._replace(seconds=known.seconds[last], counts=known.counts[last], scores=means)


def _ended(known: _Known) -> _Known:
    """Let the curve of a trial that goes no further end where it is, without a score there."""
    beyond = known.at_s > known.seconds[-1] if len(known.seconds) else True
    if not beyond:
        return known
    return known._replace(
        seconds=np.append(known.seconds, known.at_s), counts=np.append(known.counts, known.at)
    )


def _extended(known: _Known, phase_length: int, maximum: int) -> _Known:
    """Let a curve go on to `maximum` as its last phase went, or its second half if it is short."""
    counts, seconds = known.counts, known.seconds
    count, second = float(counts[-1]), float(seconds[-1])
    if count >= maximum:
        return known
    base = int(counts.searchsorted(count - min(phase_length, count / 2), side="right")) - 1
    from_s, from_count = (float(seconds[base]), float(counts[base])) if base >= 0 else (0.0, 0.0)
    pace_s = (second - from_s) / (count - from_count)
    apart = max((count - from_count) / (len(counts) - 1 - base), maximum / ROWS_AHEAD)
    rows = math.ceil((maximum - count) / apart)
    ahead = count + apart * np.arange(1, rows + 1)
    ahead[-1] = max(float(ahead[-1]), maximum, known.at)
    ahead = ahead[(ahead > known.at) | (ahead == ahead[-1])]
    ahead_s = second + pace_s * (ahead - count)
    # The row that comes next has not come yet.
    ahead_s += max(0.0, known.at_s - float(ahead_s[0]))
    score = float(known.scores[base + 1 :].mean())
    return known._replace(
        seconds=np.concatenate([seconds, ahead_s]),
        counts=np.concatenate([counts, ahead]),
        scores=np.concatenate([known.scores, np.full(len(ahead), score)]),
    )


def _curve(
    trial: TrialId, hparams: Hparams, known: _Known, ended: Literal["diverged", "lost"] | None
) -> Curve:
    return Curve(
        trial,
        hparams,
        "complete" if ended is None else "diverged" if ended == "diverged" else "censored",
        tuple(np.rint(known.seconds * 1e6).astype(np.int64).tolist()),
        tuple(known.counts.tolist()),
        tuple(known.scores.tolist()),
    )


def _borrowed(
    trial: TrialId,
    hparams: Hparams,
    own: Mapping[TrialId, Curve],
    lenders: Sequence[TrialId],
    seed: int,
    apart: float,
) -> Curve:
    rng = keyed(seed, "forecast", trial)
    shift = apart * float(rng.normal())
    draws = rng.random(max(lenders) + 1)
    lent = own[min(lenders, key=lambda each: float(draws[each]))]
    scores = tuple(score + shift for score in lent.scores)
    return msgspec.structs.replace(lent, trace=trial, hparams=hparams, scores=scores)
