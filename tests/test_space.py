"""Search spaces: bounds, steps, JSON, distances, PBT's perturbation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simsched.errors import SimschedError
from simsched.searchers import Given, Grid, RandomSearcher
from simsched.space import PUBLISHED_GA3C, Categorical, Integer, Real, SearchSpace, infer

SPACE = SearchSpace(
    {
        "lr": Real(1e-5, 1e-2, log=True),
        "momentum": Real(0.0, 1.0),
        "dropout": Real(0.0, 0.5, q=0.1),
        "layers": Integer(1, 9),
        "width": Integer(16, 1024, log=True, q=16),
        "gamma": Categorical((0.9, 0.99, 0.999)),
        "optimizer": Categorical(("adam", "rmsprop")),
    }
)


def fits(hparams: dict[str, object]) -> bool:
    return (
        1e-5 <= hparams["lr"] <= 1e-2
        and 0 <= hparams["momentum"] <= 1
        and hparams["dropout"] in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
        and hparams["layers"] in range(1, 10)
        and hparams["width"] in range(16, 1025, 16)
        and hparams["gamma"] in (0.9, 0.99, 0.999)
        and hparams["optimizer"] in ("adam", "rmsprop")
    )  # type: ignore[operator]


@given(st.integers(0, 2**32), st.floats(1.01, 5), st.floats(0, 1))
def test_draws_and_perturbations_stay_in_the_space(seed: int, factor: float, share: float) -> None:
    rng = np.random.default_rng(seed)
    drawn = SPACE.sample(rng)
    assert fits(drawn)
    assert fits(SPACE.perturb(drawn, rng, factor, share))
    assert all(-1e-9 <= x <= 1 + 1e-9 for x in SPACE.encode(drawn))


def test_log_uniform_is_uniform_in_the_logarithm() -> None:
    rng = np.random.default_rng(0)
    drawn = [math.log10(float(PUBLISHED_GA3C.sample(rng)["learning_rate"])) for _ in range(4000)]
    assert stats.kstest(drawn, stats.uniform(-5, 3).cdf).pvalue > 0.01


def test_perturb_multiplies_or_divides_and_moves_neighbours() -> None:
    rng = np.random.default_rng(0)
    start = {"learning_rate": 1e-3, "t_max": 2, "gamma": 0.99}
    moved = [PUBLISHED_GA3C.perturb(start, rng, 1.2, 0.0) for _ in range(200)]
    assert {round(float(m["learning_rate"]), 9) for m in moved} == {0.0012, round(1e-3 / 1.2, 9)}
    assert {m["t_max"] for m in moved} == {2, 3}, "a step of at least one, within bounds"
    assert {m["gamma"] for m in moved} == {0.95, 0.995}


def test_json_there_and_back() -> None:
    assert SearchSpace.from_json(SPACE.to_json()) == SPACE
    assert SPACE.to_json()["lr"] == {"type": "real", "low": 1e-5, "high": 1e-2, "log": True}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"type": "reel"},
            "lr: type 'reel' is not one of real, integer, categorical (did you mean",
        ),
        ({"type": "real", "low": 1}, "lr: Object missing required field `high`"),
        ({"type": "real", "low": 2, "high": 1}, "lr: low 2.0 must be a number not above high 1.0"),
        ({"type": "real", "low": 0, "high": 1, "log": True}, "low 0.0 must be above 0 for a log"),
        ({"type": "real", "low": 0, "high": 1, "lag": True}, "unknown key 'lag'"),
        ({"type": "integer", "low": 0, "high": 9, "q": 20}, "q 20 must be above 0 and at most"),
        ({"type": "categorical", "choices": []}, "choices is empty"),
        ({"type": "categorical", "choices": [1, 1]}, "has a value twice"),
        (3, "type None is not one of"),
    ],
)
def test_bad_spaces_are_refused(fields: object, message: str) -> None:
    with pytest.raises(SimschedError) as error:
        SearchSpace.from_json({"lr": fields})
    assert message in str(error.value)
    assert str(error.value).startswith("search space: lr: ")


def test_searchers() -> None:
    random = RandomSearcher(PUBLISHED_GA3C, seed=3)
    assert random.suggest(5) == RandomSearcher(PUBLISHED_GA3C, seed=3).suggest(5)
    assert random.suggest(5) != random.suggest(6)
    grid = Grid(
        SearchSpace({"a": Real(1, 100, log=True), "b": Categorical(("x", "y"))}), 0, points=3
    )
    assert [grid.suggest(trial) for trial in (0, 1, 2)] == [
        {"a": 1.0, "b": "x"}, {"a": 1.0, "b": "y"}, {"a": 10.0, "b": "x"},
    ]  # fmt: skip
    assert grid.suggest(5) is not None
    assert grid.suggest(6) is None
    assert Given([{"a": 1.0}], PUBLISHED_GA3C, 0).suggest(1) is None


def test_a_space_is_inferred_from_configurations() -> None:
    space = infer([{"lr": 1e-4, "n": 3, "o": "a"}, {"lr": 1e-2, "n": 9, "o": "b"}])
    assert space == SearchSpace(
        {"lr": Real(1e-4, 1e-2, log=True), "n": Integer(3, 9), "o": Categorical(("a", "b"))}
    )
