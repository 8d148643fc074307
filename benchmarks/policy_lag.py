"""What policy lag does to training: with and without a least batch, and with V-trace.

    python benchmarks/policy_lag.py --run      trains the cases that are missing, one by one
    python benchmarks/policy_lag.py --table    what came out
    python benchmarks/policy_lag.py --plot     docs/images/policy-lag.png (needs Chromium)
    python benchmarks/policy_lag.py --check    without a queue this is GA3C by turns, to the bit

Segments wait in a queue of a given length (queueing.py), so the lag is set, not met. Results are
appended to results/policy_lag.jsonl, and what stands there is not run again.
"""

import argparse
from pathlib import Path

import msgspec
import numpy as np
import plotly.graph_objects as go
import torch
from pictures import append_result, read_results, render, seeds_of
from plotly.subplots import make_subplots
from queueing import QueueingEngine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from simsched.analysis.palette import MUTED, axis, base_layout, scheduler_style
from simsched.analysis.plotting import titled
from simsched.analysis.statistics import mean_interval
from simsched.live.errors import DivergedError
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.worker import Worker

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "policy_lag.jsonl"
PICTURE = HERE.parent / "docs" / "images" / "policy-lag.png"
STEPS, PARTS = 50_000, 10
RATES = {"MinAtar/Breakout-v1": (3e-3, 1e-2, 3e-2), "CartPole-v1": (3e-4, 1e-3, 3e-3, 1e-2)}
"""Learning rates, by game."""
RANDOM_SCORES = {"MinAtar/Breakout-v1": 0.39, "CartPole-v1": 22.0}
"""Of random play, as benchmarks/learning.py measures it."""
LEAST_BATCHES = (0, 40, 160)
QUEUES = ((0, False), (500, False), (500, True))
"""Samples that wait, and whether V-trace corrects. 500 is the original's bound (100 x 5)."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One training run."""

    game: str
    steps: int = STEPS
    queue: int
    """Samples that wait before they are trained on."""
    least_batch: int
    vtrace: bool
    learning_rate: float
    seed: int

    def settings(self) -> Settings:
        """Return the published settings but for 16 agents, by turns, and what the case says."""
        return Settings(
            game=self.game,
            overlap="off",
            agents=16,
            groups=1,
            predictors=1,
            trainers=1,
            training_queue=max(1, self.queue),
            least_batch=self.least_batch,
            vtrace=self.vtrace,
            learning_rate=self.learning_rate,
            compile="off",
            threads=1,
            seed=self.seed,
        )


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a case."""

    case: Case
    scores: list[float | None]
    """Mean score of the episodes that ended in each tenth of the steps."""
    final: float | None
    """Mean score of the episodes that ended in the last fifth."""
    lag: float
    """Policy lag in updates, mean over samples."""
    greatest_lag: int
    updates: int
    diverged: str
    """Why it ended early; empty if it did not."""
    cpu_s: float

    @property
    def failed(self) -> bool:
        """Whether it diverged, or ended below twice random play or half of its own best tenth."""
        if self.diverged or self.final is None:
            return True
        best = max(score for score in self.scores if score is not None)
        return self.final < max(2 * RANDOM_SCORES[self.case.game], best / 2)


def train(case: Case) -> Result:
    """Train one case to its end, or until a number is no longer finite."""
    torch.set_num_threads(1)
    engine = QueueingEngine(case.settings(), case.queue)
    scores: list[list[float]] = [[] for _ in range(PARTS)]
    diverged = ""
    try:
        while engine.steps < case.steps and not diverged:
            try:
                engine.advance()
            except DivergedError as error:
                diverged = str(error)
            for ended in engine.take_ended():
                part = min(PARTS - 1, (ended.steps - 1) * PARTS // case.steps)
                scores[part].append(ended.episode.score)
    finally:
        engine.close()
    totals = engine.monitor.totals()
    last = [score for part in scores[-PARTS // 5 :] for score in part]
    return Result(
        case=case,
        scores=[round(float(np.mean(part)), 2) if part else None for part in scores],
        final=round(float(np.mean(last)), 2) if last else None,
        lag=round(totals.lag / max(1, totals.samples), 2),
        greatest_lag=engine.monitor.greatest_lag(),
        updates=totals.updates,
        diverged=diverged,
        cpu_s=round(engine.seconds, 2),
    )


def cases(game: str, seeds: int) -> list[Case]:
    """Return all cases, seed by seed, so that a run cut short is a smaller experiment."""
    return [
        Case(
            game=game,
            queue=queue,
            least_batch=least,
            vtrace=vtrace,
            learning_rate=rate,
            seed=seed,
        )
        for seed in range(seeds)
        for least in LEAST_BATCHES
        for queue, vtrace in QUEUES
        for rate in RATES[game]
    ]


def run(game: str, seeds: int) -> None:
    """Train the missing cases."""
    finished = {result.case for result in read_results(RESULTS, Result)}
    missing = [case for case in cases(game, seeds) if case not in finished]
    for case in track(missing, "training", console=Console(stderr=True)):
        append_result(RESULTS, train(case))


def grouped(game: str, seeds: int) -> dict[tuple[int, int, bool, float], list[Result]]:
    """Return the finished results of each least batch, queue, V-trace and learning rate."""
    finished = {result.case: result for result in read_results(RESULTS, Result)}
    groups: dict[tuple[int, int, bool, float], list[Result]] = {}
    for case in cases(game, seeds):
        if case in finished:
            key = (case.least_batch, case.queue, case.vtrace, case.learning_rate)
            groups.setdefault(key, []).append(finished[case])
    return groups


def table(game: str, seeds: int) -> None:
    """Print one row for each setting and learning rate."""
    shown = Table("least", "queue", "V-trace", "rate", "lag", "most", "score", "failed")
    for (least, queue, vtrace, rate), results in grouped(game, seeds).items():
        score = mean_interval(result.final or 0.0 for result in results)
        lag = np.mean([result.lag for result in results])
        shown.add_row(
            str(least), str(queue), "yes" if vtrace else "no", f"{rate:g}", f"{lag:.1f}",
            str(max(result.greatest_lag for result in results)),
            f"{score.mean:.1f}" + ("" if score.spread is None else f" ± {score.spread:.1f}"),
            f"{sum(result.failed for result in results)}/{len(results)}",
        )  # fmt: skip
    Console().print(shown)


def label(queue: int, *, vtrace: bool) -> str:
    """Return the name of a line."""
    return f"{queue} samples wait{', V-trace' if vtrace else ''}" if queue else "none wait"


def plot(game: str, seeds: int) -> None:
    """Draw score and failed seeds over the learning rate, a column for each least batch."""
    groups = grouped(game, seeds)
    counts = [len(results) for results in groups.values()]
    names = [f"least batch {n}" if n else "least batch 0: each segment" for n in LEAST_BATCHES]
    figure = make_subplots(
        rows=2, cols=len(LEAST_BATCHES), column_titles=names, shared_xaxes=True,
        shared_yaxes="rows", row_heights=[0.72, 0.28], vertical_spacing=0.06,
        horizontal_spacing=0.03,
    )  # fmt: skip
    figure.update_layout(**base_layout(margin={"l": 60, "r": 16, "t": 150, "b": 52}))
    figure.update_layout(legend={"y": 1.085, "font": {"size": 13}})
    for column, least in enumerate(LEAST_BATCHES, start=1):
        lags = []
        for index, (queue, vtrace) in enumerate(QUEUES):
            found = {rate: groups.get((least, queue, vtrace, rate), []) for rate in RATES[game]}
            draw(figure, column, index, {rate: rs for rate, rs in found.items() if rs})
            lag = np.mean([result.lag for rs in found.values() for result in rs] or [np.nan])
            lags.append(f"{label(queue, vtrace=vtrace)}: {lag:.1f}")
        figure.add_annotation(
            row=1, col=column, xref="x domain", yref="y domain", x=0.02, y=0.99, showarrow=False,
            align="left", text="policy lag, updates<br>" + "<br>".join(lags),
            font={"color": MUTED, "size": 11}, bgcolor="rgba(255,255,255,0.8)",
        )  # fmt: skip
    ticks = {"tickvals": list(RATES[game]), "ticktext": [f"{rate:g}" for rate in RATES[game]]}
    figure.update_xaxes(**axis(type="log", **ticks))
    figure.update_xaxes(title="learning rate", row=2)
    figure.update_yaxes(**axis())
    best = max(result.final or 0.0 for results in groups.values() for result in results)
    figure.update_yaxes(range=[0, 1.4 * best], row=1)  # room for the lags
    figure.update_yaxes(range=[-0.4, max(counts) + 0.4], tickvals=[0, max(counts)], row=2)
    figure.update_yaxes(title="score, last fifth", row=1, col=1)
    figure.update_yaxes(title="failed seeds", row=2, col=1)
    titled(
        figure,
        f"Policy lag in {game}: {STEPS:,} steps, {seeds_of(counts)}",
        "Mean and 95 % t interval over seeds; dots are seeds. Failed: ended below half of its own "
        "best tenth, or below twice random play.",
    )
    render(figure, PICTURE, 1080, 600)


def draw(figure: go.Figure, column: int, index: int, found: dict[float, list[Result]]) -> None:
    """Draw one setting's means, intervals, seeds and failures over the learning rates."""
    style = scheduler_style(index)
    x = [rate * 1.09 ** (index - 1) for rate in found]  # beside each other, not behind
    means = [mean_interval(result.final or 0.0 for result in rs) for rs in found.values()]
    look = {"color": style.color, "symbol": style.symbol, "size": 8}
    queue, vtrace = QUEUES[index]
    figure.add_scatter(
        x=x, y=[mean.mean for mean in means], mode="lines+markers", marker=look,
        error_y={"array": [mean.spread or 0.0 for mean in means], "thickness": 1.4, "width": 4},
        line={"color": style.color, "dash": style.dash, "width": 2},
        name=label(queue, vtrace=vtrace), legendgroup=str(index), showlegend=column == 1,
        row=1, col=column,
    )  # fmt: skip
    dots = [(at, r.final or 0.0) for at, rs in zip(x, found.values(), strict=True) for r in rs]
    figure.add_scatter(
        x=[at for at, _ in dots], y=[score for _, score in dots], mode="markers",
        marker={"color": style.faint, "size": 5}, showlegend=False, row=1, col=column,
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=[sum(result.failed for result in rs) for rs in found.values()],
        mode="lines+markers", marker=look,
        line={"color": style.color, "dash": style.dash, "width": 1.4}, showlegend=False,
        row=2, col=column,
    )  # fmt: skip


def check() -> None:
    """Train a moment with an empty queue and as a worker by turns; the weights must agree."""
    case = Case(
        game="CartPole-v1", queue=0, least_batch=40, vtrace=False, learning_rate=1e-3, seed=3
    )
    engine, worker = QueueingEngine(case.settings(), case.queue), Worker(case.settings())
    try:
        while engine.steps < 4000:
            engine.advance()
            worker.advance()
        pairs = zip(engine.learner.network.parameters(), worker.network.parameters(), strict=True)
        same = all(torch.equal(one, other) for one, other in pairs)
        print(f"{engine.learner.updates} updates, {worker.updates} by the worker, equal: {same}")
        if not same:
            raise SystemExit(1)
    finally:
        engine.close()
        worker.close()


def main() -> None:
    """Do what the options ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="train the missing cases")
    parser.add_argument("--table", action="store_true", help="print the results")
    parser.add_argument("--plot", action="store_true", help="draw the figure")
    parser.add_argument("--check", action="store_true", help="compare with GA3C by turns")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each setting")
    parser.add_argument("--game", default=next(iter(RATES)), choices=RATES)
    options = parser.parse_args()
    if options.check:
        check()
    if options.run:
        run(options.game, options.seeds)
    if options.table:
        table(options.game, options.seeds)
    if options.plot:
        plot(options.game, options.seeds)


if __name__ == "__main__":
    main()
