"""How well simsched's GA3C and A2C learn, beside Stable-Baselines3's A2C at equal steps.

    python benchmarks/learning.py --run --sb3 PATH/TO/PYTHON    trains the runs that are missing
    python benchmarks/learning.py --table                       what came out
    python benchmarks/learning.py --plot                        docs/images/learning.png (Chromium)
    python benchmarks/learning.py --game MsPacman --seeds 3 …   another game; may be repeated

Stable-Baselines3 runs in an environment of its own (ga3c_baselines/learning_sb3.py says which);
without --sb3 its runs are left out. Results are appended to results/learning.jsonl, and what
stands there is not run again. Every run is one thread and can be repeated; but not those of
the preset `fast`, which take all cores (docs/ga3c.md says what they repeat). Atari games are
for that preset and random play, unless --contender asks for others; their figure is
docs/images/ga3c-atari.png, and what is cut short goes on from checkpoints in --runs.

All have 16 agents, t_max 5, batches of 80, learning rate 7e-4, gamma 0.99, entropy weight 0.01,
RMSProp with decay 0.99 and the same layers. Stable-Baselines3 takes the mean of the loss over
the batch, epsilon 1e-5 and gradients of norm 0.5 at most. RMSProp does not mind the scale of the
loss but for epsilon and the clipping, so on sums over 80 samples these are 8e-4 and 40: the
contenders "…, SB3's scale". The preset has epsilon 0.1, as published, and does not clip. "… and
draw" draws the first weights as Stable-Baselines3 does, orthogonally; then nothing is different
but the code.
"""

import argparse
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
import numpy as np
import plotly.graph_objects as go
from contenders import (
    CONTENDERS,
    FAST,
    RANDOM,
    SB3,
    Case,
    fast,
    ours,
    random_play,
    stable_baselines,
)
from pictures import append_result, read_results, render, seeds_of
from plotly.subplots import make_subplots
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

from simsched.analysis.palette import MUTED, axis, base_layout, scheduler_style
from simsched.analysis.plotting import titled
from simsched.analysis.statistics import mean_interval

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "learning.jsonl"
IMAGES = HERE.parent / "docs" / "images"
SMALL = ("CartPole-v1", "MinAtar/Breakout-v1")
STEPS = {**dict(zip(SMALL, (100_000, 300_000), strict=True)), "MsPacman": 500_000,
         "Breakout": 500_000}  # fmt: skip
WINDOWS = 25
DRAWN = (
    "GA3C, preset repeatable",
    "GA3C, SB3's scale and draw",
    "A2C, SB3's scale and draw",
    SB3,
)
"""Whose curves the figure of the small games shows; the table has all."""
DRAWN_ON_ATARI = (FAST, "GA3C, SB3's scale and draw", SB3)
RANDOM_STEPS = 50_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run."""

    case: Case
    scores: list[float | None]
    """Mean score of the episodes that ended in each window of the steps."""
    mean: float
    """Of all episodes, each window weighing the same."""
    final: float
    """Mean score of the episodes that ended in the last fifth."""
    wall_time_s: float


def train(case: Case, python: str | None, runs: Path) -> Result:
    """Do one run."""
    start, wall_time_s = time.monotonic(), None
    if case.contender == RANDOM:
        episodes = random_play(case)
    elif case.contender == FAST:
        episodes, wall_time_s = fast(case, runs)
    else:
        episodes = stable_baselines(case, str(python)) if case.contender == SB3 else ours(case)
    scores: list[list[float]] = [[] for _ in range(WINDOWS)]
    for steps, score in episodes:  # our own are trained while this asks for them
        scores[min(WINDOWS - 1, (steps - 1) * WINDOWS // case.steps)].append(score)
    last = [score for window in scores[-WINDOWS // 5 :] for score in window]
    means = [round(float(np.mean(window)), 3) if window else None for window in scores]
    return Result(
        case=case,
        scores=means,
        mean=round(float(np.mean([mean for mean in means if mean is not None])), 3),
        final=round(float(np.mean(last)), 3),
        wall_time_s=round(wall_time_s or time.monotonic() - start, 1),
    )


def cases(games: list[str], seeds: int) -> list[Case]:
    """Return all runs, seed by seed, so that what is cut short is a smaller experiment."""
    return [
        Case(
            game=game,
            contender=contender,
            steps=min(RANDOM_STEPS, STEPS[game]) if contender == RANDOM else STEPS[game],
            seed=seed,
        )
        for seed in range(seeds)
        for game in games
        for contender in CONTENDERS
    ]


def usual(game: str) -> Collection[str]:
    """Return who is run on a game unless --contender says otherwise."""
    return [name for name in CONTENDERS if name != FAST] if game in SMALL else (FAST, RANDOM)


def run(
    games: list[str], seeds: int, python: str | None, only: Collection[str], runs: Path
) -> None:
    """Do the missing runs."""
    finished = {result.case for result in read_results(RESULTS, Result)}
    missing = [
        case
        for case in cases(games, seeds)
        if case not in finished
        and case.contender in (only or usual(case.game))
        and (python is not None or case.contender != SB3)
    ]
    for case in track(missing, "training", console=Console(stderr=True)):
        append_result(RESULTS, train(case, python, runs))


def grouped(game: str, seeds: int) -> dict[str, list[Result]]:
    """Return the finished runs of a game, by contender."""
    finished = {result.case: result for result in read_results(RESULTS, Result)}
    groups: dict[str, list[Result]] = {}
    for case in cases([game], seeds):
        if case in finished:
            groups.setdefault(case.contender, []).append(finished[case])
    return groups


def table(games: list[str], seeds: int) -> None:
    """Print means with their intervals, and each contender's distance to Stable-Baselines3."""
    for game in games:
        groups = grouped(game, seeds)
        shown = Table("", "seeds", "last fifth", "whole run", "last fifth − SB3's",
                      title=f"{game}, {STEPS[game]:,} steps")  # fmt: skip
        reference = [result.final for result in groups.get(SB3, [])]
        for contender, results in groups.items():
            finals = [result.final for result in results]
            shown.add_row(
                contender,
                str(len(results)),
                interval(finals),
                interval(result.mean for result in results),
                difference(finals, reference) if contender != SB3 else "",
            )
        Console().print(shown)


def interval(values: Iterable[float]) -> str:
    """Write a mean with its 95 % interval."""
    found = mean_interval(values)
    return f"{found.mean:.1f}" + (f" ± {found.spread:.1f}" if found.spread is not None else "")


def difference(values: list[float], reference: list[float]) -> str:
    """Write the difference of two means with its 95 % interval (Welch's t)."""
    if min(len(values), len(reference)) < 2:
        return "–"
    found = stats.ttest_ind(values, reference, equal_var=False).confidence_interval(0.95)
    mean = np.mean(values) - np.mean(reference)
    return f"{mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def plot(games: list[str], seeds: int) -> None:
    """Draw the learning curves, a column for each game."""
    small = all(game in SMALL for game in games)
    figure = make_subplots(rows=1, cols=len(games), column_titles=games, horizontal_spacing=0.07)
    figure.update_layout(**base_layout(margin={"l": 60, "r": 24, "t": 150, "b": 56}))
    figure.update_layout(legend={"y": 1.1, "font": {"size": 13}})
    counts: list[int] = []
    for column, game in enumerate(games, start=1):
        groups = grouped(game, seeds)
        names = DRAWN if small else DRAWN_ON_ATARI
        curves = [Curve(index, groups[name]) for index, name in enumerate(names) if name in groups]
        counts += [curve.seeds for curve in curves]
        for curve in curves:
            curve.draw_interval(figure, column)
        for curve in curves:  # no line behind another's interval
            curve.draw_mean(figure, column)
        figure.update_yaxes(range=[0, 1.2 * max(max(c.mean) for c in curves)], row=1, col=column)
        if RANDOM in groups:
            level = mean_interval(result.final for result in groups[RANDOM]).mean
            figure.add_hline(
                level, line={"color": MUTED, "dash": "dot", "width": 1}, row=1, col=column,
                annotation={"text": f"random play {level:.3g}", "font": {"color": MUTED}},
                annotation_position="bottom right",
            )  # fmt: skip
    figure.update_xaxes(**axis(title="agent steps", rangemode="tozero"))
    figure.update_yaxes(**axis())
    figure.update_yaxes(title="score", col=1)
    titled(
        figure,
        f"Learning at equal steps: {seeds_of(counts)}, mean and 95 % t interval",
        f"Mean score of the episodes that ended in each {100 // WINDOWS} % of the steps."
        + (" Same layers, learning rate, discount, entropy weight and batch." if small else ""),
    )
    name = "learning.png" if small else "ga3c-atari.png"
    render(figure, IMAGES / name, max(640, 560 * len(games) - 40), 560)


class Curve:
    """One contender's mean over seeds in each window, and its interval."""

    def __init__(self, index: int, results: list[Result]) -> None:
        self._index, self._name = index, results[0].case.contender
        self._style = scheduler_style(index)
        self._results, self.seeds = results, len(results)
        self.x: list[float] = []
        self.mean: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        for window in range(WINDOWS):
            known = [s for result in results if (s := result.scores[window]) is not None]
            if known:
                found = mean_interval(known)
                self.x.append((window + 0.5) * results[0].case.steps / WINDOWS)
                self.mean.append(found.mean)
                self.low.append(found.mean if found.low is None else found.low)
                self.high.append(found.mean if found.high is None else found.high)

    def draw_interval(self, figure: go.Figure, column: int) -> None:
        """Fill the interval."""
        figure.add_scatter(
            x=self.x + self.x[::-1], y=self.high + self.low[::-1], fill="toself", mode="lines",
            fillcolor=self._style.faint, opacity=0.3, line={"width": 0}, hoverinfo="skip",
            showlegend=False, legendgroup=str(self._index), row=1, col=column,
        )  # fmt: skip

    def draw_mean(self, figure: go.Figure, column: int) -> None:
        """Draw the line."""
        figure.add_scatter(
            x=self.x, y=self.mean, mode="lines", name=self._name, showlegend=column == 1,
            line={"color": self._style.color, "dash": self._style.dash, "width": 2.4},
            legendgroup=str(self._index), row=1, col=column,
        )  # fmt: skip


def main() -> None:
    """Do what the options ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="do the missing runs")
    parser.add_argument("--table", action="store_true", help="print the results")
    parser.add_argument("--plot", action="store_true", help="draw the figure")
    parser.add_argument("--sb3", metavar="PYTHON", help="python that has Stable-Baselines3")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each contender")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="run only this")
    parser.add_argument("--game", action="append", choices=list(STEPS), help="may be repeated")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/learning"), help="folder for checkpoints"
    )
    options = parser.parse_args()
    games = options.game or list(SMALL)
    if options.run:
        run(games, options.seeds, options.sb3, options.contender or (), options.runs)
    if options.table:
        table(games, options.seeds)
    if options.plot:
        plot(games, options.seeds)


if __name__ == "__main__":
    main()
