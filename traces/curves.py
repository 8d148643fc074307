"""Curves brought down to a size that can be drawn: means of bins, best first."""

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np

from simsched.traces.format import Floats, HparamValue, Trace, TraceSet

BINS: Final = 25
"""Bins of a curve: few enough that each mean holds several episodes, and rank is not luck."""

_LEVELS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, eq=False)
class Curve:
    """One trial's mean scores, shape (bins,); NaN where its curve has no score (yet, or any more).

    `best` is the best of them in the metric's own sense; None if there is no score at all.
    """

    trace: Trace
    means: Floats
    best: float | None


def longest_steps(traceset: TraceSet) -> int:
    """Return the steps of the longest trial, at least 1."""
    return max(1, *(int(trace.steps[-1]) for trace in traceset.traces))


def curves(traceset: TraceSet, bins: int = BINS) -> list[Curve]:
    """Return every trial's curve, best first; ties by their mean, then by number.

    A bin is one of `bins` equal shares of the longest trial's steps. A bin without a
    score between two with one repeats the one before it.
    """
    longest = longest_steps(traceset)
    sign = 1 if traceset.meta.mode == "max" else -1
    ranked = []
    for trace in traceset.traces:
        means = _means(trace, longest, bins)
        scored = sign * means[~np.isnan(means)]
        if len(scored):
            best, mean = float(scored.max()), float(scored.mean())
            ranked.append(((-best, -mean, trace.trial), Curve(trace, means, sign * best)))
        else:
            ranked.append(((math.inf, 0.0, trace.trial), Curve(trace, means, None)))
    return [curve for _, curve in sorted(ranked, key=itemgetter(0))]


def _means(trace: Trace, longest: int, bins: int) -> Floats:
    scored = ~np.isnan(trace.score)
    steps = trace.steps[scored]
    places = np.clip(np.ceil(steps / longest * bins).astype(np.int64) - 1, 0, bins - 1)
    rows = np.bincount(places, minlength=bins)
    sums = np.bincount(places, trace.score[scored], minlength=bins)
    means = np.where(rows > 0, sums / np.maximum(rows, 1), np.nan)
    if len(places):
        seen = np.maximum.accumulate(np.where(rows > 0, np.arange(bins), -1))
        means = np.where(seen >= 0, means[seen], np.nan)
        means[int(places[-1]) + 1 :] = np.nan
    return means


def sparkline(means: Floats, low: float, high: float) -> str:
    """Draw means as one line of blocks between `low` and `high`; a blank where there is none."""
    span = high - low if high > low else 1.0
    heights = np.clip((np.nan_to_num(means, nan=low) - low) / span, 0, 1) * (len(_LEVELS) - 1)
    return "".join(
        " " if np.isnan(mean) else _LEVELS[round(height)]
        for mean, height in zip(means.tolist(), heights.tolist(), strict=True)
    )


def limits(drawn: list[Curve]) -> tuple[float, float]:
    """Return the least and the greatest mean of all curves; (0, 1) if there is none."""
    means = np.concatenate([curve.means for curve in drawn])
    means = means[~np.isnan(means)]
    return (float(means.min()), float(means.max())) if len(means) else (0.0, 1.0)


def hparam_text(value: HparamValue) -> str:
    """Return a value with four digits at most if it is a float."""
    return f"{value:.4g}" if type(value) is float else str(value)


def hparams_text(hparams: dict[str, HparamValue]) -> str:
    """Return "lr=0.00031 t_max=12 gamma=0.99"."""
    return " ".join(f"{name}={hparam_text(value)}" for name, value in hparams.items())
