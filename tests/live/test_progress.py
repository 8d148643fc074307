"""What a recording says about how far it is."""

import pytest

pytest.importorskip("ale_py")

from simsched.live import progress
from simsched.live.plan import make_plan
from simsched.live.progress import BarDisplay, Counts, LineDisplay, trial_line
from simsched.live.training import Progress
from simsched.live.trial_process import Failure

pytestmark = pytest.mark.torch

PLAN = make_plan("Pong", trials=4, steps=1_000, seed=0)


def test_counts_know_what_was_done_before_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    counts = Counts(PLAN)
    counts.add(Progress(0, 1_000, 9, 5.0, 1.0, "complete"))  # by an earlier call
    counts.add(Progress(1, 400, 3, 2.0, 1.0))  # resumed at 400
    now_s = 110.0
    counts.add(Progress(1, 1_000, 9, 5.0, 1.0, "complete"))
    counts.add(Progress(2, 0, 0, 0.0, None))
    counts.add(Progress(2, 200, 0, 0.0, None, "diverged"))  # its other 800 steps are not to come
    assert (counts.finished, counts.steps) == (3, 3_000)
    assert counts.steps_per_s == pytest.approx((600 + 200) / 10)
    assert counts.summary() == (
        "3/4 trials, 3,000/4,000 steps, 80 steps/s (320 frames/s), 0:00:12 left"
    )


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with LineDisplay(PLAN) as display:
        display.hear(Progress(0, 500, 2, 1.0, None))
        display.hear(Progress(0, 1_000, 9, 5.25, 12.34, "complete"))
        display.hear(Failure(1, "its process was killed by SIGKILL"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "trial 0: complete, 1,000 steps, 9 episodes, 5.2 s, recent score 12.3"
    assert lines[1] == "trial 1: failed: its process was killed by SIGKILL"
    assert lines[2].startswith("1/4 trials, 1,000/4,000 steps, ")
    assert len(lines) == 3


def test_the_bar_shows_trials_and_names_each_end(capsys: pytest.CaptureFixture[str]) -> None:
    with BarDisplay(PLAN) as display:
        display.hear(Progress(0, 500, 2, 1.0, None))
        display.hear(Progress(0, 1_000, 9, 5.0, None, "diverged"))
        assert display._bar.tasks[0].completed == 1_000
        assert len(display._bar.tasks) == 1  # a trial that is over has no bar of its own
        display.hear(Progress(2, 250, 1, 1.0, 7.25))
        shown = display._bar.tasks[1]
        assert (shown.description, shown.completed, shown.total) == ("trial 2", 250, 1_000)
        assert shown.fields["detail"] == "250 steps, score 7.2"
    said = capsys.readouterr().err
    assert trial_line(Progress(0, 1_000, 9, 5.0, None, "diverged")) in said
    assert "1/4 trials" in said
