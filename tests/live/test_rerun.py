"""A live search simulated again: exact where all is known, close where it is measured."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from past_failures import cut_off, fail_once
from past_runs import (
    COSTS,
    PHASE_LENGTH,
    made_traces,
    make_run,
    rewrite,
    run_for_real,
    settings_of,
)

from simsched.events import Adopt, Event, Reported, Save, Saved, Start
from simsched.journal import Record
from simsched.live.agreement import compare, in_words
from simsched.live.curves import TrialCurve
from simsched.live.errors import LiveError
from simsched.live.past_costs import NO_ROWS
from simsched.live.past_run import read_run
from simsched.live.protocol import Counters
from simsched.live.replaying import Replayed, cautions, comparison, replay_run, replayed_json
from simsched.messages import Checkpoint, Continue, Decision, Exploit, Pause, Stop
from simsched.results import run_fields
from simsched.simulation import SimulatedCluster

SCHEDULERS = ("hypertrick", "successive-halving", "hyperband", "asha", "pbt", "median-stopping")


def all_of(result: Any) -> dict[str, Any]:
    """A result's every figure, but which curve a trial replayed."""
    fields = run_fields(result)
    for trial, of_result in zip(fields["trials"], result.trials, strict=True):
        del trial["trace"]
        trial["curve"] = of_result.curve
    return fields | {"timeline": result.timeline}


@pytest.mark.parametrize("checkpoints", ["milestone", "scheduler"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_simulated_run_is_predicted_to_the_microsecond(
    tmp_path: Path, scheduler: str, checkpoints: Any
) -> None:
    make_run(tmp_path / "run", settings_of(scheduler, checkpoints=checkpoints))
    replayed = replay_run(tmp_path / "run")
    run, measured = replayed.run, replayed.measured
    assert run.ended == "done"
    assert run.checked == (run.result.milestones, run.result.milestones, None)
    for simulated in (replayed.predicted, replayed.retraced):
        assert all_of(simulated.result) == all_of(run.result)
        assert simulated.ended_early == 0
        agreement = replayed.agreement(simulated)
        assert (agreement.same, agreement.differences) == (run.result.milestones, [])
    assert replayed.agrees
    assert len(measured.scores) == run.result.milestones
    assert all(each.told == each.found and each.why is None for each in measured.scores)
    for kind in ("start", "save", "load"):
        if kind in measured.costs:
            cost = measured.costs[kind]  # type: ignore[index]
            assert cost.least_us == cost.mean_us == cost.most_us == COSTS[f"{kind}_s"] * 1e6
    hand_over = measured.costs["hand-over"]
    assert (hand_over.samples, hand_over.least_us, hand_over.most_us) == (
        run.result.milestones, 0, 0,
    )  # fmt: skip
    assert measured.costs["save"].samples == run.result.saves if run.result.saves else True
    assert len(measured.places["start"]) == sum(
        isinstance(command, Start) for record in run.records for command in record.commands
    )


@pytest.mark.parametrize("unit", ["steps", "episodes", "seconds", "reports"])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_every_unit_and_mode(tmp_path: Path, unit: Any, mode: Any) -> None:
    length = {"steps": 30, "episodes": 5, "seconds": 4, "reports": 5}[unit]
    settings = settings_of("hyperband", unit=unit, mode=mode, phase_length=length)
    make_run(tmp_path / "run", settings)
    replayed = replay_run(tmp_path / "run")
    assert replayed.agrees
    assert all_of(replayed.predicted.result) == all_of(replayed.run.result)


class Uneven(SimulatedCluster):
    """A world where everything takes longer or shorter, as on a real machine."""

    def _outcome(self, node: Any, command: Any) -> Event:
        event = super()._outcome(node, command)
        trial = node.cursor.trial
        if isinstance(command, Save):
            odd = 1_000 * trial + command.checkpoint.step
            return msgspec.structs.replace(event, at=event.at + odd)
        odd = (7_919 * (trial + 1) * command.until) % 500_000
        start = odd if isinstance(command, Start | Adopt) else 0
        load = 3 * odd if getattr(command, "source", None) is not None else 0
        assert isinstance(event, Reported)
        return msgspec.structs.replace(
            event,
            at=event.at + start + load + odd // 10,
            start_us=event.start_us + start,
            load_us=event.load_us + load,
        )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_costs_that_differ_from_place_to_place_are_retraced(tmp_path: Path, scheduler: str) -> None:
    make_run(tmp_path / "run", settings_of(scheduler), world=Uneven)
    replayed = replay_run(tmp_path / "run")
    actual, cost = replayed.run.result, replayed.measured.costs["start"]
    assert cost.least_us < cost.median_us < cost.most_us
    assert replayed.measured.costs["hand-over"].most_us > 0
    assert all_of(replayed.retraced.result) == all_of(actual)
    predicted = replayed.predicted.result
    assert predicted.wall_time_s == pytest.approx(actual.wall_time_s, rel=0.05)
    assert predicted.utilization == pytest.approx(actual.utilization, abs=0.03)
    assert predicted.wall_time_s != actual.wall_time_s


def test_a_trial_that_diverged(tmp_path: Path) -> None:
    settings = settings_of("hypertrick")
    make_run(tmp_path / "run", settings, traces=made_traces(settings, diverged=[1, 4]))
    replayed = replay_run(tmp_path / "run")
    fates = {each.trial: each.fate for each in replayed.run.result.trials}
    assert fates[1] == fates[4] == "diverged"
    assert [each.found for each in replayed.measured.scores if each.trial == 1][-1] is None
    assert replayed.agrees
    assert all_of(replayed.predicted.result) == all_of(replayed.run.result)


def rows(folder: Path, trial: int) -> Path:
    return folder / "trials" / f"{trial:04d}" / "rows.jsonl"


def told(curve: TrialCurve, *lines: tuple[float, int, float]) -> None:
    curve.add([(seconds, steps, episode, score) for episode, (seconds, steps, score) in
               enumerate(lines, curve.counters.episodes + 1)])  # fmt: skip


def test_a_population_member_that_diverged_goes_on_in_another_piece(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("pbt"))
    rows(folder, 2).unlink()
    curve = TrialCurve(rows(folder, 2))
    curve.started(3, Counters())
    told(curve, (1.0, 20, 5.0), (2.5, 31, 7.0))
    curve.reached(30, 30, Counters(31, 2, 2.5), 6.0)
    told(curve, (3.0, 40, 1.0))
    curve.reached(60, 60, Counters(44, 4, 3.5), None)
    told(curve, (4.25, 62, 2.0), (5.0, 90, 4.0))
    curve.reached(90, 90, Counters(90, 6, 5.0), 3.0)
    curve.close()
    before, after = read_run(folder).curves[2]
    assert (before.end, before.counts, before.scores) == ("diverged", (20, 31, 40, 44), (5, 7, 1))
    assert before.times_us == (1_000_000, 2_500_000, 3_000_000, 3_500_000)
    assert (after.end, after.counts, after.scores) == ("censored", (62, 90), (2, 4))
    assert after.times_us == (750_000, 1_500_000)


def test_rows_that_were_lost_and_trained_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("hypertrick"))
    curve = TrialCurve(rows(folder, 0))
    kept = [row for row in curve.rows if row[2] <= 2]
    later = [(s, n, e, score + 1e-9) for s, n, e, score in curve.rows if e > 2]
    told_before = sorted(curve.milestones)
    curve.started(99, Counters(kept[-1][1], 2, kept[-1][0]))
    curve.add(later)
    curve.close()
    replayed = replay_run(folder)
    assert {step for _, step in replayed.run.retrained} == set(told_before)
    assert not replayed.wrong_scores
    assert all(trial != 0 for trial, _ in replayed.measured.places["hand-over"])


def test_a_score_that_its_rows_do_not_give_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("hypertrick"))
    text = rows(folder, 3).read_text().splitlines(keepends=True)
    first = msgspec.json.decode(text[1])["row"]
    text[1] = msgspec.json.encode({"row": [*first[:3], first[3] + 1e-12]}).decode() + "\n"
    rows(folder, 3).write_text("".join(text))
    replayed = replay_run(folder)
    (wrong,) = replayed.wrong_scores
    assert (wrong.trial, wrong.step, wrong.why) == (3, PHASE_LENGTH, None)
    assert wrong.told != wrong.found
    assert not replayed.agrees


def test_rows_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("hypertrick"))
    rows(folder, 3).unlink()
    replayed = replay_run(folder)
    assert {(each.trial, each.why) for each in replayed.wrong_scores} == {(3, NO_ROWS)}
    fates = {each.trial: each.fate for each in replayed.predicted.result.trials}
    assert fates[3] == "censored"


def test_another_decision_is_named_by_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("hypertrick"))
    lines = []

    def change(line: int, record: Record) -> Record:
        if record.decision is None or not isinstance(record.decision.verdict, Stop) or lines:
            return record
        lines.append(line)
        return msgspec.structs.replace(record, decision=Decision(Pause()))

    rewrite(folder, change)
    run = read_run(folder)
    assert run.checked.equal == run.checked.decisions - 1
    assert run.checked.difference is not None
    assert f"journal.jsonl: line {lines[0]}: now Decision(verdict=Stop()" in run.checked.difference
    assert "the journal has Decision(verdict=Pause(save=True)" in run.checked.difference


def test_a_run_that_is_not_over_is_compared_up_to_its_last_event(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of("successive-halving"))
    whole = read_run(folder)
    middle = len(whole.records) // 2
    rewrite(folder, lambda line, record: record if line < middle else None)
    replayed = replay_run(folder)
    actual = replayed.run.result
    assert replayed.run.ended == "unfinished"
    assert 0 < actual.milestones < whole.result.milestones
    for simulated in (replayed.predicted, replayed.retraced):
        assert simulated.result.wall_time_s == actual.wall_time_s
        assert simulated.result.node_seconds == actual.node_seconds
        assert simulated.result.milestones == actual.milestones
        assert replayed.agreement(simulated).differences == []


@pytest.mark.parametrize("scheduler", ["random", "hyperband"])
def test_a_run_that_was_cut_off_is_cut_off_again(tmp_path: Path, scheduler: str) -> None:
    make_run(tmp_path / "whole", settings_of(scheduler))
    whole = read_run(tmp_path / "whole")
    limit_s = round(whole.result.wall_time_s * 0.7, 6)
    settings = settings_of(scheduler, max_time_s=limit_s)
    cut_off(tmp_path / "whole", tmp_path / "run", settings, whole.records)
    replayed = replay_run(tmp_path / "run")
    actual = replayed.run.result
    assert (replayed.run.ended, actual.wall_time_s) == ("max-time", limit_s)
    assert {each.fate for each in actual.trials} >= {"censored"}
    assert actual.milestones < whole.result.milestones
    assert all_of(replayed.retraced.result) == all_of(actual)
    assert all_of(replayed.predicted.result) == all_of(actual)


def test_failures_are_told_apart(tmp_path: Path) -> None:
    """A worker of trial 1 fails in its second phase, is started again and trains it again."""
    folder = tmp_path / "run"
    settings = settings_of("random", nodes=1, workers=2, phases=2)
    fail_once(folder, settings)
    replayed = replay_run(folder)
    lost, measured = replayed.measured.lost, replayed.measured
    assert replayed.run.checked.difference is None
    assert (lost.failures, lost.interruptions) == (1, 0)
    assert lost.node_us == 1_500_000 + 250_000 + 3_000_000  # start, load, redo
    assert (1, 60) not in measured.places["hand-over"]
    assert replayed.run.result.node_seconds["redo"] == 3.0
    assert replayed.predicted.result.node_seconds["redo"] == 0.0
    assert replayed.predicted.result.wall_time_s < replayed.run.result.wall_time_s


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


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda run: (run / "journal.jsonl").unlink(), "not the folder of a live search"),
        (lambda run: (run / "journal.jsonl").write_bytes(b""), "the journal is empty"),
        (lambda run: damage(run / "journal.jsonl"), "line 5: its check does not fit"),
        (lambda run: rewrite(run, lambda line, r: r if line < 4 else None), "no trial has reached"),
    ],
)
def test_what_cannot_be_replayed(tmp_path: Path, break_it: Any, said: str) -> None:
    make_run(tmp_path / "run", settings_of())
    break_it(tmp_path / "run")
    with pytest.raises(ValueError, match=said) as error:
        replay_run(tmp_path / "run")
    assert "\n" not in str(error.value)
    assert str(tmp_path / "run") in str(error.value)


def damage(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"node":', b'"node" :', 1)
    path.write_bytes(b"".join(lines))


def test_a_simulations_journal_is_refused(tmp_path: Path) -> None:
    from simsched import simulate

    simulate(nodes=2, workers=4, schedulers=["random"], journals=tmp_path)
    (tmp_path / "run").mkdir()
    next(tmp_path.glob("*.jsonl")).rename(tmp_path / "run" / "journal.jsonl")
    with pytest.raises(LiveError, match="line 1: this is the journal of a simulation"):
        read_run(tmp_path / "run")


def test_nothing_in_the_folder_is_touched(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_run(folder, settings_of())
    with rows(folder, 0).open("ab") as file:
        file.write(b'{"row":[1.0,')  # torn
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert replay_run(folder).agrees
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


@pytest.fixture(
    scope="session",
    params=[
        "hypertrick",
        "asha",
        "pbt",
        pytest.param("successive-halving", marks=pytest.mark.long),
        pytest.param("hyperband", marks=pytest.mark.long),
    ],
)
def real(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Replayed:
    """A small search with real processes."""
    pytest.importorskip("psutil")
    return replay_run(run_for_real(tmp_path_factory.mktemp("real"), request.param))


def test_a_real_search_is_retraced(real: Replayed) -> None:
    actual, retraced = real.run.result, real.retraced
    assert real.agrees, (real.run.checked, real.wrong_scores)
    assert real.run.checked.decisions == actual.milestones > 4
    assert real.agreement(retraced).differences == []
    assert retraced.result.wall_time_s == pytest.approx(actual.wall_time_s, rel=0.01)
    assert retraced.result.utilization == pytest.approx(actual.utilization, abs=0.01)


def test_a_real_search_is_predicted(real: Replayed) -> None:
    """Roughly: the machine of a test is busy with others, so starts differ by factors."""
    actual, predicted = real.run.result, real.predicted.result
    assert real.measured.costs["start"].least_us > 0
    assert 0.5 < predicted.wall_time_s / actual.wall_time_s < 2
    assert predicted.utilization == pytest.approx(actual.utilization, abs=0.15)
