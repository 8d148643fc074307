"""What large runs are kept and written in: packed intervals, results piece by piece."""

import gc
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simsched
from simsched import results
from simsched.cluster import Cluster
from simsched.replay import Neighbours, curve_of
from simsched.results import Comparison, results_chunks, results_json
from simsched.schedulers import REGISTRY, Plan, build
from simsched.searchers import Given
from simsched.simulation import SimulatedCluster
from simsched.space import PUBLISHED_GA3C
from simsched.timeline import KINDS, LARGEST, Interval, Intervals
from simsched.traces import synthesize

rows = st.builds(
    Interval,
    st.integers(0, 99_999),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.sampled_from(KINDS),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(-1, 10**15),
)


@given(st.lists(rows, max_size=30))
def test_packed_intervals_are_the_list_they_were_made_of(made: list[Interval]) -> None:
    packed = Intervals(made)
    assert packed == made
    assert list(packed) == made
    assert len(packed) == len(made)
    assert packed == Intervals(made)
    assert all(packed[place] == each for place, each in enumerate(made))
    assert [packed[place] for place in range(-len(made), 0)] == made
    assert list(packed[1:7:2]) == made[1:7:2]
    assert pickle.loads(pickle.dumps(packed)) == made  # noqa: S301
    assert list(packed.in_order()) == sorted(made, key=lambda each: (each.node, each.start_us))
    table = packed.table()
    assert [KINDS[code] for code in table["kind"]] == [each.kind for each in made]
    assert table["end_us"].tolist() == [each.end_us for each in made]
    packed.add(1, 2, 3, "redo", 4, 5, 6)  # an array that was given does not keep it from growing
    assert packed[-1] == Interval(1, 2, 3, "redo", 4, 5, 6)
    assert len(table) == len(made)


def test_packed_intervals_end_where_a_list_does() -> None:
    packed = Intervals([Interval(0, 1, 1, "train", 0, 2**70, 5)])
    assert packed[0].end_us == LARGEST
    with pytest.raises(IndexError):
        packed[1]
    with pytest.raises(IndexError):
        packed[-2]
    assert packed != [Interval(0, 1, 1, "train", 0, 2**70, 5)]
    assert not Intervals()


def plain(comparison: Comparison) -> bytes:
    """All of it at once, as it was written before it was written in pieces."""
    runs = []
    for run in comparison.runs:
        bare = msgspec.structs.replace(run, timeline=results.Timeline(0, 0, []))
        fields: dict[str, Any] = msgspec.to_builtins(bare)
        del fields["timeline"]
        for trial in fields["trials"]:
            del trial["curve"]
        fields["node_hours"] = run.node_hours
        runs.append(fields)
    values = {"settings": msgspec.to_builtins(comparison.settings), "runs": runs}
    return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_results_in_pieces_are_those_in_one(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    comparison = simsched.simulate(
        "MsPacman", nodes=[3, 6], workers=14, schedulers=["hypertrick", "pbt"], seed=3
    )
    first, *others = comparison.runs
    odd = msgspec.structs.replace(first, notes=('"trials": []', "\n"), trials=())
    comparison = msgspec.structs.replace(comparison, runs=(odd, *others))
    monkeypatch.setattr(results, "AT_ONCE", at_once)
    assert results_json(comparison) == plain(comparison)
    assert len(list(results_chunks(comparison))) >= 14 / at_once * len(others)


@pytest.mark.parametrize("scheduler", REGISTRY)
def test_a_run_makes_no_cycles(scheduler: str) -> None:
    """So the garbage collector need not walk its books while it runs."""
    found = []
    for trials in (20, 200):
        recorded = synthesize(trials, seed=1, rows=8, kind="reports")
        curves = [curve_of(trace, "reports", 1.0) for trace in recorded.traces]
        plan = Plan(trials, 8, 1, 0)
        searcher = Given([curve.hparams for curve in curves], PUBLISHED_GA3C, 0)
        world = SimulatedCluster(
            build(scheduler, plan, searcher), curves, Neighbours(curves, PUBLISHED_GA3C, 1),
            Cluster(5, save_s=1.0, load_s=1.0), plan.maximum,
        )  # fmt: skip
        gc.collect()
        gc.disable()
        try:
            world.run()
            found.append(gc.collect())
        finally:
            gc.enable()
    assert found[1] <= found[0] + 50
