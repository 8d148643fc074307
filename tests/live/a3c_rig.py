"""A3C on CartPole, and what its processes hold, without the processes."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simsched.live.ga3c.a3c_process import Agent, Shared, Task, share  # noqa: E402
from simsched.live.ga3c.environment import EnvironmentGroup  # noqa: E402
from simsched.live.ga3c.knobs import Knobs  # noqa: E402
from simsched.live.ga3c.learner import Learner  # noqa: E402
from simsched.live.ga3c.network import build  # noqa: E402
from simsched.live.ga3c.settings import Settings  # noqa: E402


def cartpole(agents: int = 1, **changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "game": "CartPole-v1",
        "algorithm": "a3c",
        "agents": agents,
        "groups": 1,
        "predictors": 1,
        "learning_rate": 1e-3,
        "overlap": "off",
        "seed": 5,
    }
    return Settings(**{**fields, **changes})


def first_network(settings: Settings) -> Any:
    """The network that a worker starts with."""
    group = EnvironmentGroup(settings, 1)
    seed = np.random.SeedSequence((settings.seed, settings.trial, 0)).generate_state(1)[0]
    shape, dtype = group.observation_shape, group.observation_dtype
    return build(settings, shape, dtype, group.actions, seed=int(seed))


def agents_in_this_process(settings: Settings, start_steps: int = 0) -> tuple[Shared, list[Agent]]:
    """What the processes hold, without the processes."""
    learner = Learner(first_network(settings), Knobs(settings))
    shared = share(learner, settings.agents, start_steps)
    key = (settings.seed, settings.trial, 1)
    return shared, [Agent(Task(k, settings, shared, key)) for k in range(settings.agents)]
