"""Random whole simulations: curves, a cluster, a scheduler."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from naive.base import Params
from naive.cases import SCHEDULERS, SearchCase, search_case
from simsched.messages import Hparams
from simsched.traces import Trace

Unit = Literal["episodes", "steps", "seconds", "reports"]
UNITS: tuple[Unit, ...] = ("episodes", "steps", "seconds", "reports")


@dataclass
class SimulationCase:
    search: SearchCase
    traces: list[Trace]
    unit: Unit
    nodes: int
    speeds: tuple[float, ...]
    start_s: float
    save_s: float
    load_s: float
    mode: Literal["max", "min"]

    @property
    def params(self) -> Params:
        return self.search.params


def rows(
    random: Random, unit: Unit, maximum: int, jumps: bool
) -> tuple[list[float], list[int], list[int]]:
    """Counters of the rows of a trial, up to `maximum` or (with luck) some rows further."""
    pace = random.choice(([1], [1, 0], [3, 2, 1, 0], [0.5], [1.0, 0.1, 0.25, 1 / 3]))
    if not jumps and unit == "seconds":
        pace = [p for p in pace if p <= 1]
    largest = random.choice((1, 2, 5)) if jumps else 1
    seconds, steps, episodes, reports = 0.0, 0, 0, 0
    out: tuple[list[float], list[int], list[int]] = ([], [], [])
    extra = random.choice((0, 0, 1, 4))
    while True:
        seconds += random.choice(pace) if unit != "seconds" else random.choice([1, *pace])
        steps += random.randint(1, largest) if unit == "steps" else random.randint(1, 4)
        episodes += random.choice([*range(1, largest + 1), 0]) if unit == "episodes" else 1
        reports += 1
        out[0].append(seconds)
        out[1].append(steps)
        out[2].append(episodes)
        reached = {"seconds": seconds, "steps": steps, "episodes": episodes, "reports": reports}
        if reached[unit] >= maximum:
            extra -= 1
            if extra < 0:
                return out


def trace(
    random: Random, trial: int, unit: Unit, maximum: int, *, jumps: bool, ends: tuple[str, ...]
) -> Trace:
    """A curve with whole scores (ties are likely) and times that collide."""
    end = random.choice(ends)
    columns = rows(random, unit, maximum, jumps)
    length = len(columns[0])
    if end != "complete":
        length = random.randint(1, length)
    spread = random.choice((1, 3, 10))
    score = [float(random.randint(-spread, spread)) for _ in range(length)]
    seconds, steps, episodes = (list(column[:length]) for column in columns)
    if random.random() < 0.5:  # the row with the final counters
        seconds.append(seconds[-1] + random.choice((0, 1, 0.7)))
        steps.append(steps[-1] + 1)
        episodes.append(episodes[-1])
        score.append(float("nan"))
    return Trace(
        trial=trial, hparams={"x": float(trial)}, end=end,  # type: ignore[arg-type]
        seconds=np.array(seconds, np.float64), steps=np.array(steps, np.int64),
        episodes=np.array(episodes, np.int64), score=np.array(score, np.float64),
    )  # fmt: skip


def even_trace(trial: int, maximum: int, pace_s: int) -> Trace:
    """A curve on which no other can be told apart: what PBT replays after an exploit."""
    count = np.arange(1, maximum + 1)
    return Trace(
        trial=trial, hparams={"x": float(trial)}, end="complete",
        seconds=np.array(count * float(pace_s), np.float64), steps=count.astype(np.int64),
        episodes=count.astype(np.int64), score=np.ones(maximum),
    )  # fmt: skip


def simulation_case(
    random: Random, scheduler: str | None = None, *, jumps: bool = False, small: bool = False
) -> SimulationCase:
    search = search_case(random, scheduler or random.choice(SCHEDULERS))
    if small:
        search.trials, search.phases = min(search.trials, 8), min(search.phases, 5)
    search.configurations = search.trials
    search.phase_length = random.choice((1, 2, 3, 4, 5))
    unit = random.choice(UNITS)
    maximum = search.phases * search.phase_length
    make: Callable[[int], Trace]
    if search.scheduler == "pbt":
        pace_s = random.choice((1, 2, 3))
        make = lambda trial: even_trace(trial, maximum, pace_s)  # noqa: E731
        unit = "episodes"
    else:
        ends = random.choice(
            (("complete",), ("complete", "complete", "diverged"), ("complete", "censored"),
             ("complete", "diverged", "censored"))
        )  # fmt: skip
        make = lambda trial: trace(random, trial, unit, maximum, jumps=jumps, ends=ends)  # noqa: E731
    costs = random.choice(((0,), (0, 1, 2), (0, 0.25, 1, 7)))
    return SimulationCase(
        search=search,
        traces=[make(trial) for trial in range(search.trials)],
        unit=unit,
        nodes=random.randint(1, 7),
        speeds=random.choice(((1.0,), (1.0,), (1.0, 2.0), (0.5, 1.0, 3.0), (1.0, 0.7))),
        start_s=random.choice(costs),
        save_s=random.choice((0, 1, 7, 30) if search.scheduler == "pbt" else costs),
        load_s=random.choice(costs),
        mode=random.choice(("max", "max", "min")),
    )


def simulation_cases() -> st.SearchStrategy[SimulationCase]:
    """Cases that Hypothesis steers: small ones, so that it can make them smaller still."""
    randoms = st.randoms(use_true_random=False)
    return st.builds(simulation_case, randoms, jumps=st.booleans(), small=st.just(True))


class TraceSearcher:
    """The recorded configurations; what PBT makes of them does not matter to these curves."""

    def __init__(self, traces: list[Trace]) -> None:
        self.traces = traces

    def suggest(self, trial: int) -> Hparams | None:
        return dict(self.traces[trial].hparams) if trial < len(self.traces) else None

    def perturb(
        self, hparams: Hparams, key: tuple[int, ...], *, factor: float, resample_probability: float
    ) -> Hparams:
        return {"x": float(hparams["x"]) * factor}
