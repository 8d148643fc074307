"""Random cases: the same maker serves the fixed seeds and Hypothesis."""

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from naive.base import Params
from simsched.messages import Hparams

ETAS = (1.5, 2, 2.5, 3, 4)
SCHEDULERS = (
    "random", "hypertrick", "successive-halving", "hyperband", "asha", "asha-stop",
    "median-stopping", "pbt",
)  # fmt: skip


@dataclass
class SearchCase:
    """What a scheduler is given, and the seed of the events it is to see."""

    scheduler: str
    params: Params
    trials: int
    phases: int
    phase_length: int
    seed: int
    configurations: int
    """How many the searcher has; it may run out before the trials are all started."""
    events_seed: int

    @property
    def text(self) -> str:
        """The scheduler as the command line names it."""
        given = ",".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.scheduler}:{given}" if given else self.scheduler


class CountingSearcher:
    """Configurations that show where they came from; runs out after `configurations`."""

    def __init__(self, configurations: int) -> None:
        self.configurations = configurations

    def suggest(self, trial: int) -> Hparams | None:
        return {"x": float(trial), "how": "drawn"} if trial < self.configurations else None

    def perturb(
        self, hparams: Hparams, key: tuple[int, ...], *, factor: float, resample_probability: float
    ) -> Hparams:
        return {
            "x": float(hparams["x"]) * factor + resample_probability,
            "how": f"from {hparams['how']} by {key}"[:200],
        }


def draw_params(random: Random, scheduler: str) -> Params:
    """Parameters of one scheduler; each is left to its default now and then."""
    all_choices: dict[str, dict[str, tuple[float, ...]]] = {
        "hypertrick": {"eviction_rate": (0.04, 0.1, 0.25, 0.25, 0.36, 0.49, 0.64, 0.81, 0.9)},
        "median-stopping": {"grace": (0, 1, 2, 5)},
        "pbt": {
            "quantile": (0.01, 0.1, 0.2, 0.25, 0.4, 0.5),
            "interval": (1, 1, 2, 3),
            "resample_probability": (0.0, 0.5),
            "perturb": (1.1, 2.0),
        },
        "hyperband": {"eta": ETAS},
        "random": {},
    }
    choices = all_choices.get(scheduler, {"eta": ETAS, "base": (1, 1, 2, 1.5, 3, 0.4)})
    return {
        name: random.choice(values) for name, values in choices.items() if random.random() < 0.8
    }


def search_case(random: Random, scheduler: str | None = None) -> SearchCase:
    scheduler = scheduler or random.choice(SCHEDULERS)
    phases = random.randint(1, 9)
    trials = random.randint(1, 25)
    return SearchCase(
        scheduler=scheduler,
        params=draw_params(random, scheduler),
        trials=trials,
        phases=phases,
        phase_length=random.choice((1, 2, 3, 4, 5, 7, 1000)),
        seed=random.randint(0, 1000),
        configurations=random.randint(1, trials) if random.random() < 0.1 else trials,
        events_seed=random.randint(0, 2**32),
    )


def search_cases() -> st.SearchStrategy[SearchCase]:
    return st.randoms(use_true_random=False).map(search_case)
