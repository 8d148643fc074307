"""What stands in the folder of a past search: checked, refused in one line, and never touched."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from past_runs import PHASE_LENGTH, make_run, rewrite, rows, settings_of

from simsched.journal import Record
from simsched.live.curves import TrialCurve
from simsched.live.errors import LiveError
from simsched.live.past_costs import NO_ROWS
from simsched.live.past_run import read_run
from simsched.live.protocol import Counters
from simsched.live.replaying import replay_run
from simsched.messages import Decision, Pause, Stop


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
