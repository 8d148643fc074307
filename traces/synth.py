"""Synthetic curve sets: seeded, of any size, shaped like reinforcement learning.

For tests and benchmarks, and to try simsched without recordings. Nothing here is
a measurement: the sets say `synthetic` in their metadata, and results that rest on
them are marked. The constants below were chosen by eye so that the curves look
like GA3C's on Atari games; they come from no paper, but for the search space
(GTC 2019, Heinrich & Frosio arXiv 1902.02725).

The model, for one trial. All draws come from a generator keyed by (seed, trial), so
trial 7 is the same however many trials there are. x in 0..1 is the share of its
steps a trial has done.

1. Hyperparameters: learning_rate (lr below) log-uniform in [1e-5, 1e-2], t_max quantized
   log-uniform in [2, 100], gamma one of seven values.
2. Ceiling: the product of a bell in log10(lr) about -3.6, a wider one in
   ln(t_max) about ln(12), a factor for gamma, and luck (a beta draw).
3. Skill rises to the ceiling in two logistic steps, with a plateau between them. Both
   come later the lower lr is, and may come after the end: then the curve stays flat.
4. High lr: the skill may collapse at some time to a fraction of itself (from
   about 1e-3 on), or the trial may diverge (from about 4e-3 on): then it ends there.
5. An episode is LENGTH_GROWTH times longer at full skill than at none. Its score is
   RANDOM_SCORE + skill * (TOP_SCORE - RANDOM_SCORE), times gamma noise of mean 1.
6. Speed: steps/s = PEAK_SPEED * t_max / (t_max + 3), as short rollouts make small
   training batches, times noise of the trial and of each row.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from simsched.traces.format import End, Floats, HparamValue, Metadata, Trace, TraceError, TraceSet
from simsched.traces.table import shown

Kind = Literal["episodes", "reports"]

GAMMAS: Final = {0.9: 0.55, 0.95: 0.8, 0.99: 1.0, 0.995: 0.97, 0.999: 0.9, 0.9995: 0.8, 0.9999: 0.7}
"""Discount to its share of the ceiling."""
SPACE: Final[dict[str, Any]] = {
    "learning_rate": {"type": "real", "low": 1e-5, "high": 1e-2, "log": True},
    "t_max": {"type": "integer", "low": 2, "high": 100, "log": True, "q": 1},
    "gamma": {"type": "categorical", "choices": list(GAMMAS)},
}
RANDOM_SCORE: Final = 240.0
TOP_SCORE: Final = 2400.0
EPISODE_NOISE_SHAPE: Final = 9.0
"""Shape of an episode's gamma noise: its coefficient of variation is 1/sqrt(9)."""
LENGTH_GROWTH: Final = 2.5
MEAN_LENGTH: Final = 1.3
"""Steps of a mean episode over those of an unskilled one: measured on 2,000 trials."""
PEAK_SPEED: Final = 1500.0
_GRID: Final = np.linspace(0.0, 1.0, 129)


@dataclass(frozen=True)
class _Learner:
    """What is drawn for one trial before its rows. Times are shares of the trial's steps."""

    hparams: dict[str, HparamValue]
    ceiling: float
    plateau: float
    """Share of the ceiling that the first rise reaches."""
    rises: tuple[float, float]
    widths: tuple[float, float]
    collapse: float
    remains: float
    """Share of the skill that a collapse leaves."""
    divergence: float
    speed: float
    """Steps per second."""


def synthesize(
    trials: int,
    seed: int,
    *,
    rows: int = 400,
    steps: int = 500_000,
    kind: Kind = "episodes",
    diverge: bool = True,
    game: str = "synthetic",
    name: str = "",
) -> TraceSet:
    """Make a synthetic set of curves; the module's text states the model.

    Args:
        trials: number of trials, 1 or more.
        seed: 0 or more. The same arguments give the same set.
        rows: for "episodes" the mean number of finished episodes of a trial (each
            trial's own depends on its skill); for "reports" the rows of each trial.
        steps: agent steps of each trial.
        kind: a row per finished episode with a last row of final counters, or a row
            per report, evenly spaced in steps, whose score is the mean of its episodes.
        diverge: let trials diverge; without, every trial has its full length.
        game: for the metadata.
        name: of the set; by default made from the arguments.

    Raises:
        TraceError: for an argument out of range.
    """
    least = {"trials": (trials, 1), "seed": (seed, 0), "rows": (rows, 1), "steps": (steps, rows)}
    for argument, (value, low) in least.items():
        if value < low:
            raise TraceError(f"synthetic curves: {argument} is {value}; it must be {low} or more")
    if kind not in get_args(Kind):
        raise TraceError(f"synthetic curves: kind is {shown(kind)}; it must be episodes or reports")
    traces = tuple(_trial(trial, seed, rows, steps, kind, diverge) for trial in range(trials))
    meta = Metadata(
        game=game,
        metric="return" if kind == "episodes" else "mean return since the last report",
        resource_note="steps are agent steps",
        space=SPACE,
        seed=seed,
        recorded_by=f"simsched.traces.synthesize({trials}, {seed}, rows={rows}, steps={steps}, "
        f"kind={kind!r}, diverge={diverge})",
        synthetic=True,
        ends={str(trace.trial): trace.end for trace in traces},
    )
    return TraceSet(name or f"synthetic-{trials}x{rows}-seed{seed}", None, meta, traces)


def _trial(trial: int, seed: int, rows: int, steps: int, kind: Kind, diverge: bool) -> Trace:
    rng = np.random.default_rng(np.random.SeedSequence((seed, trial)))
    learner = _learner(rng)
    end: End = "diverged" if diverge and learner.divergence < 1 else "complete"
    total = max(1, round(steps * learner.divergence)) if end == "diverged" else steps
    make = _episode_rows if kind == "episodes" else _report_rows
    lengths, episodes, score = make(rng, learner, rows, steps, total)
    jitter = rng.normal(1.0, 0.03, len(lengths)).clip(0.8, 1.2)
    seconds = np.round(np.cumsum(lengths / learner.speed * jitter), 6)
    return Trace(
        trial, learner.hparams, end, seconds, np.cumsum(lengths).astype(np.int64), episodes, score
    )


def _learner(rng: np.random.Generator) -> _Learner:
    lr_log10, t_max_log, gamma_u = rng.random(3).tolist()
    lr_log10 = -5 + 3 * lr_log10
    t_max = round(math.exp(math.log(2) + t_max_log * math.log(50)))
    gamma = list(GAMMAS)[int(gamma_u * len(GAMMAS))]
    bell = ((lr_log10 + 3.6) / 0.75) ** 2 + (math.log(t_max / 12) / 2.2) ** 2
    pace = 10 ** (0.6 * (lr_log10 + 3.5))
    late = np.exp(rng.normal(0.0, 0.45, 3)).tolist()
    first = 0.07 * late[0] / pace
    falls, explodes, onset_fall, onset_end = rng.random(4).tolist()
    may_fall = 0.6 * _logistic((lr_log10 + 2.9) / 0.2)
    may_explode = 0.7 * _logistic((lr_log10 + 2.35) / 0.1)
    plateau, width_1, width_2, remains = rng.random(4).tolist()
    return _Learner(
        hparams={"learning_rate": float(f"{10**lr_log10:.4g}"), "t_max": t_max, "gamma": gamma},
        ceiling=math.exp(-0.5 * bell) * GAMMAS[gamma] * rng.beta(6.0, 1.5),
        plateau=0.3 + 0.5 * plateau,
        rises=(first, first + 0.4 * late[1] / pace),
        widths=(0.01 + 0.04 * width_1, 0.01 + 0.06 * width_2),
        collapse=0.2 + 0.8 * onset_fall if falls < may_fall else math.inf,
        remains=0.4 * remains,
        divergence=0.02 + 0.9 * onset_end if explodes < may_explode else math.inf,
        speed=PEAK_SPEED * t_max / (t_max + 3) * late[2] ** 0.1,
    )


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _skill(learner: _Learner, x: Floats) -> Floats:
    """Return the skill in 0..1 at the shares `x` of the steps, same shape."""
    skill = np.zeros_like(x)
    heights = (learner.plateau, 1 - learner.plateau)
    for height, middle, width in zip(heights, learner.rises, learner.widths, strict=True):
        skill += height / (1 + np.exp(np.clip((middle - x) / width, -50, 50)))
    skill *= learner.ceiling
    if learner.collapse < 1:
        since = np.clip((x - learner.collapse) / 0.015, 0, 50)
        skill *= learner.remains + (1 - learner.remains) * np.exp(-since)
    return skill


def _base_length(rows: int, steps: int) -> float:
    """Return the steps of an unskilled episode."""
    return steps / rows / MEAN_LENGTH


def _scores(rng: np.random.Generator, skill: Floats, shape: Any) -> Floats:
    """Return scores about the skill's mean, with gamma noise of `shape`."""
    mean = RANDOM_SCORE + skill * (TOP_SCORE - RANDOM_SCORE)
    return np.asarray(mean * rng.standard_gamma(shape, len(skill)) / shape)


def _episode_rows(
    rng: np.random.Generator, learner: _Learner, rows: int, steps: int, total: int
) -> tuple[Floats, Any, Floats]:
    """Return lengths, episodes and scores, each (episodes + 1,): the last row has no score."""
    base = _base_length(rows, steps)
    rate = steps / (base * (1 + (LENGTH_GROWTH - 1) * _skill(learner, _GRID)))
    passed = np.concatenate(([0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(_GRID))))
    count = int(1.3 * np.interp(total / steps, _GRID, passed)) + 20  # more than will be needed
    skill = _skill(learner, np.interp(np.arange(count) + 0.5, passed, _GRID))
    growth = 1 + (LENGTH_GROWTH - 1) * skill
    lengths = np.ceil(base * growth * np.exp(rng.normal(-0.03125, 0.25, count)))
    done = int(np.searchsorted(np.cumsum(lengths), total, side="right"))
    score = np.round(_scores(rng, skill, EPISODE_NOISE_SHAPE)[:done], -1)
    lengths = np.append(lengths[:done], total - lengths[:done].sum())
    episodes = np.append(np.arange(1, done + 1), done)
    return lengths, episodes, np.append(score, np.nan)


def _report_rows(
    rng: np.random.Generator, learner: _Learner, rows: int, steps: int, total: int
) -> tuple[Floats, Any, Floats]:
    """Return lengths, episodes and scores of the reports; a diverged trial's last has no score."""
    ends = np.arange(1, rows + 1) * steps // rows
    done = int(np.searchsorted(ends, total, side="right"))
    if done < rows:
        ends = np.append(ends[:done], total)
    lengths = np.diff(ends, prepend=0).astype(np.float64)
    skill = _skill(learner, (ends - lengths / 2) / steps)
    growth = 1 + (LENGTH_GROWTH - 1) * skill
    episodes = 1 + np.floor(np.cumsum(lengths / (steps / rows / 10 / MEAN_LENGTH * growth)))
    noise_shape = EPISODE_NOISE_SHAPE * np.maximum(1, np.diff(episodes, prepend=0))
    score = np.round(_scores(rng, skill, noise_shape), 2)
    if done < rows:
        score[-1] = np.nan
    return lengths, episodes.astype(np.int64), score
