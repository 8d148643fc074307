import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_files import assert_same

from simsched.traces import TraceError, TraceSet, read, synthesize, write
from simsched.traces.synth import SPACE


def cut(traceset: TraceSet, trials: int) -> TraceSet:
    return TraceSet("cut", None, traceset.meta, traceset.traces[:trials])


@pytest.mark.parametrize("kind", ["episodes", "reports"])
def test_a_trial_is_the_same_whatever_the_number_of_trials(kind):
    few = synthesize(8, 5, rows=50, steps=10_000, kind=kind)
    assert_same(few, cut(synthesize(40, 5, rows=50, steps=10_000, kind=kind), 8))
    other = synthesize(8, 6, rows=50, steps=10_000, kind=kind)
    assert all(
        one.hparams != two.hparams for one, two in zip(few.traces, other.traces, strict=True)
    )


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        write(synthesize(5, 1), tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@settings(max_examples=40, deadline=None)
@given(
    trials=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 60),
    each=st.integers(1, 3000),
    kind=st.sampled_from(["episodes", "reports"]),
)
def test_every_set_keeps_the_rules(tmp_path_factory, trials, seed, rows, each, kind):
    made = synthesize(trials, seed, rows=rows, steps=rows * each, kind=kind)
    path = tmp_path_factory.mktemp("synth") / "made.parquet"
    write(made, path)
    assert_same(read(path), made)
    assert made.meta.synthetic
    assert made.meta.seed == seed
    for trace in made.traces:
        assert trace.steps[-1] <= rows * each
        if trace.end == "complete":
            assert trace.steps[-1] == rows * each
            assert len(trace) == rows or kind == "episodes"
        assert (np.nan_to_num(trace.score) >= 0).all()


def test_reports_without_divergence_all_have_their_rows():
    made = synthesize(300, 0, rows=27, kind="reports", diverge=False)
    assert {len(trace) for trace in made.traces} == {27}
    assert {trace.end for trace in made.traces} == {"complete"}
    assert not any(np.isnan(trace.score).any() for trace in made.traces)


@pytest.fixture(scope="module")
def many() -> TraceSet:
    return synthesize(1500, 0, rows=100, steps=100_000)


def test_hyperparameters_are_of_the_published_space(many):
    lr = np.array([trace.hparams["learning_rate"] for trace in many.traces])
    t_max = np.array([trace.hparams["t_max"] for trace in many.traces])
    gamma = [trace.hparams["gamma"] for trace in many.traces]
    assert lr.min() >= 1e-5
    assert lr.max() <= 1e-2
    assert abs(np.log10(lr).mean() + 3.5) < 0.07  # log-uniform: the middle of -5 and -2
    assert (t_max.min(), t_max.max()) == (2, 100)
    assert abs(np.median(t_max) - np.sqrt(200)) < 2
    assert set(gamma) == set(SPACE["gamma"]["choices"])
    assert many.meta.space == SPACE


def test_the_mean_number_of_episodes_is_about_the_rows_asked_for(many):
    episodes = [trace.episodes[-1] for trace in many.traces if trace.end == "complete"]
    assert abs(np.mean(episodes) - 100) < 5


def test_curves_look_like_reinforcement_learning(many):
    """Good settings beat bad ones, high rates diverge, speed grows with t_max."""
    lr = np.array([trace.hparams["learning_rate"] for trace in many.traces])
    final = np.array([np.nanmean(np.append(t.score[-16:-1], 0.0)) for t in many.traces])
    middle, low = (lr > 1e-4) & (lr < 1e-3), lr < 3e-5
    assert final[middle].mean() > 2 * final[low].mean()
    diverged = np.array([trace.end == "diverged" for trace in many.traces])
    assert diverged[lr > 6e-3].mean() > 0.4
    assert diverged[lr < 1e-3].sum() == 0
    early = np.array([np.mean(t.score[:8]) if len(t) > 9 else 240 for t in many.traces])
    assert (final[middle] > 1.5 * early[middle]).mean() > 0.5, "most learn"
    whole = [t for t in many.traces if t.end == "complete"]
    speed = np.array([t.steps[-1] / t.seconds[-1] for t in whole])
    t_max = np.array([t.hparams["t_max"] for t in whole])
    assert speed[t_max > 30].mean() > 1.5 * speed[t_max < 5].mean()
    skilled = [t for t in whole if np.nanmean(t.score[-20:]) > 1600]
    lengths = [(np.diff(t.steps)[:10].mean(), np.diff(t.steps)[-10:-1].mean()) for t in skilled]
    assert np.mean([late / early for early, late in lengths]) > 1.4, "episodes grow with skill"


def test_some_trials_collapse(many):
    falls = 0
    for trace in many.traces:
        if len(trace) > 60:
            tenths = [part.mean() for part in np.array_split(trace.score[:-1], 10)]
            falls += max(tenths) > 600 and tenths[-1] < 0.5 * max(tenths)
    assert 10 < falls < 300


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trials": 0}, "trials is 0; it must be 1 or more"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
        ({"rows": 0}, "rows is 0; it must be 1 or more"),
        ({"rows": 20, "steps": 19}, "steps is 19; it must be 20 or more"),
        ({"kind": "rows"}, "kind is 'rows'; it must be episodes or reports"),
    ],
)
def test_arguments_out_of_range(changes, expected):
    with pytest.raises(TraceError, match=f"synthetic curves: {expected}"):
        synthesize(**({"trials": 1, "seed": 0} | changes))
