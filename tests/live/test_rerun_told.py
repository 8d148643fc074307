"""What a rerun tells: others on the same curves, JSON, verdicts and differences."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from past_runs import COSTS, Uneven, make_run, settings_of

from simsched.events import Reported, Saved, Start
from simsched.journal import Record
from simsched.live.agreement import compare, in_words
from simsched.live.replaying import cautions, comparison, replay_run, replayed_json
from simsched.messages import Checkpoint, Continue, Decision, Exploit, Pause, Stop


def test_others_use_the_runs_curves_and_costs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("hypertrick"))
    replayed = replay_run(folder, ["hyperband:eta=3", "random", "pbt"], [3, 30])
    table = comparison(replayed)
    assert [(each.scheduler, each.nodes) for each in table.runs] == [
        ("hypertrick", 3),
        *((name, nodes) for nodes in (3, 30) for name in ("hyperband:eta=3", "random", "pbt")),
    ]
    by_name = {(each.scheduler, each.nodes): each for each in table.runs}
    # Random search trains every trial to the end: those that HyperTrick stopped end where it did.
    stopped = sum(each.fate == "stopped" for each in replayed.run.result.trials)
    assert stopped > 0
    assert by_name["random", 3].censored == by_name["random", 30].censored == stopped
    assert by_name["random", 30].wall_time_s < by_name["random", 3].wall_time_s
    assert by_name["pbt", 3].approximate
    assert not by_name["hyperband:eta=3", 3].approximate
    assert (table.settings.start_s, table.settings.save_s) == (COSTS["start_s"], COSTS["save_s"])
    assert "loading costs nothing" in cautions(replayed)[0]
    assert "more of them on the same machine" in cautions(replayed)[1]


def test_the_same_scheduler_on_other_nodes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("pbt"))
    (other,) = replay_run(folder, nodes=[3, 5]).others
    assert (other.scheduler, other.nodes, other.approximate) == ("pbt", 5, False)
    simulated = make_run(tmp_path / "five", settings_of("pbt", nodes=5))
    assert other.wall_time_s == pytest.approx(simulated.timeline.end_us / 1e6)  # type: ignore[attr-defined]


def test_json_has_everything_in_seconds(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("asha"), world=Uneven)
    replayed = replay_run(folder, ["random"])
    values = msgspec.json.decode(replayed_json(replayed))
    assert values["decisions"]["equal"] == values["scores"]["equal"] == values["scores"]["checked"]
    assert values["actual"]["wall_time_s"] == values["retraced"]["wall_time_s"]
    assert values["predicted"]["wall_time_s"] == replayed.predicted.result.wall_time_s
    start = values["costs"]["start"]
    assert start["least_s"] <= start["median_s"] <= start["most_s"]
    assert start["samples"] == len(replayed.measured.places["start"])
    agreement = replayed.agreement(replayed.predicted)
    assert len(values["predicted"]["differences"]) == len(agreement.differences)
    assert [each["scheduler"] for each in values["others"]] == ["random"]


def test_verdicts_in_words() -> None:
    donor = Checkpoint(3, 2000)
    said = [in_words(v) for v in (Continue(5), Pause(), Pause(save=False), Stop(),
                                  Exploit(donor, {}, 9), None)]  # fmt: skip
    assert said == [
        "went on", "paused", "paused, to copy another", "ended", "copied trial 3 at 2,000",
        "did not come so far",
    ]  # fmt: skip


def test_differences_are_listed_in_the_order_of_the_run() -> None:
    def record(number: int, attempt: int, step: int, verdict: Any) -> Record:
        event = Reported(number, 0, attempt, step, 1.0, step, 0, 0)
        return Record(number, event, [], Decision(verdict))

    starts = Record(0, Saved(0, 0, 0), [Start(0, 1, 8, {}, 10, None), Start(0, 2, 9, {}, 10, None)])
    actual = [starts, record(1, 2, 10, Stop()), record(2, 1, 10, Continue(20)),
              record(3, 1, 20, Stop())]  # fmt: skip
    simulated = [starts, record(1, 1, 10, Stop()), record(2, 2, 10, Stop())]
    agreement = compare(actual, simulated)
    assert (agreement.same, agreement.total) == (1, 3)
    assert [(each.trial, each.step) for each in agreement.differences] == [(8, 10), (8, 20)]
    assert agreement.differences[1].simulated is None
