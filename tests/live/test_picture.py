"""The picture of a search that runs: all there is to say, in any number of columns and lines."""

import re
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from search_status import node, settings, status

from simsched.live.picture import draw
from simsched.live.status import Doing, Status
from simsched.live.wording import printable

DOING: tuple[Doing, ...] = get_args(Doing)
LOG = [f"trial {trial} told {trial * 100}.0 at 20,000 steps: goes on" for trial in range(20)]


def lines(
    stand: Status,
    width: int = 80,
    height: int = 23,
    *,
    log: Sequence[str] = (),
    over: bool = False,
    **changes: Any,
) -> list[str]:
    drawn = draw(settings(**changes), stand, log, width, height, over=over)
    return [line.plain.rstrip() for line in drawn]


def test_the_picture_says_all_there_is_to_say() -> None:
    nodes = [node(0), node(1, "saving", score=None), node(2, "idle"), node(3, "out of service")]
    said = lines(status(nodes), log=LOG[:2])
    assert said == [
        " simsched live  MsPacman, hypertrick, 16 trials on 6 nodes",
        f" {'━' * 41}  62 %, 0:12:03 elapsed, 0:07:20 left",
        "",
        " node   trial  phase  state           steps      score  steps/s  CPU %  GPU %",
        " GPU 0      3    2/4  training    123k/200k      340.2    1.51k     93     46",
        " GPU 1      4    2/4  saving      123k/200k               1.51k     93     46",
        " GPU 2                idle                                          93     46",
        " GPU 3                out                                           93     46",
        "",
        " trials  6 running  2 paused  3 stopped  1 finished  4 to come",
        " best    1412.5, trial 7: learning_rate=0.0003457, t_max=5, gamma=0.99",
        " so far  23 milestones, 12.3 MB of checkpoints, 1 failure",
        "",
        " trial 0 told 0.0 at 20,000 steps: goes on",
        " trial 1 told 100.0 at 20,000 steps: goes on",
    ]


def test_the_bar_is_as_long_as_the_share_that_is_done() -> None:
    for progress, done in ((0.0, 0), (0.5, 20), (1.0, 40), (1.7, 40)):
        bar = draw(settings(), status([], progress=progress), (), 80, 23)[1]
        green = [len(bar.plain[span.start : span.end]) for span in bar.spans
                 if span.style == "green"]  # fmt: skip
        assert sum(green) == pytest.approx(done, abs=1)
    (unknown,) = [
        line for line in lines(status([], progress=None, time_left_s=None)) if "━" in line
    ]
    assert unknown.endswith("━  0:12:03 elapsed, time left not known yet")


def test_a_wide_terminal_has_room_for_more() -> None:
    said = lines(status([node(0)]), 120, 39)
    assert said[3].endswith("CPU %  GPU %    memory")
    assert said[4].endswith("   93     46   1.30 GB")
    assert (
        " trials  6 running  2 paused  3 stopped  1 finished  0 diverged  0 lost  4 to come" in said
    )


def test_measures_that_no_node_has_take_no_column() -> None:
    nodes = [node(n, name=f"cores {n}", gpu_percent=None, gpu_memory_bytes=None) for n in range(2)]
    head = lines(status(nodes), 120)[3]
    assert "CPU %" in head
    assert "GPU" not in head
    assert "memory" not in head
    nodes = [node(0, cpu_percent=None, gpu_percent=None, gpu_memory_bytes=None)]
    assert lines(status(nodes))[3].endswith("steps/s")


def test_more_nodes_than_lines_are_counted_by_what_they_do() -> None:
    nodes = [node(n, "training" if n % 3 else "idle") for n in range(64)]
    said = lines(status(nodes), log=LOG)
    assert len(said) == 23
    shown = [line for line in said if re.match(r" GPU \d+ ", line)]
    assert shown[0].startswith(" GPU 0 ")
    (more,) = [line for line in said if "more" in line]
    idle = sum(each.doing == "idle" for each in nodes[len(shown) :])
    rest = 64 - len(shown)
    assert more == f" … and {rest} more: {rest - idle} training, {idle} idle"
    assert said[-4:] == [f" {line}" for line in LOG[-4:]]
    assert len(lines(status(nodes), 80, 60, log=LOG)) == 60
    assert not [line for line in lines(status(nodes), 80, 120) if "more" in line]


def test_the_log_takes_what_the_nodes_leave() -> None:
    said = lines(status([node(0)]), log=LOG)
    assert said[-12:] == [f" {line}" for line in LOG[-12:]]
    assert len(lines(status([node(0)]), height=40, log=LOG)) == len(said)


def test_every_trial_is_somewhere() -> None:
    fates = {"stopped": 3, "finished": 1, "diverged": 2, "lost": 1, "censored": 1}
    said = lines(status([], started=14, fates=fates), 120)
    counts = {
        word: int(n) for n, word in re.findall(r"(\d+) (\w+|cut off|to come)(?:  |$)", said[4])
    }
    assert counts == {
        "running": 4, "paused": 2, "stopped": 3, "finished": 1, "diverged": 2, "lost": 1,
        "cut off": 1, "to come": 2,
    }  # fmt: skip
    assert sum(counts.values()) == 16


def test_at_the_end_the_nodes_are_left_out() -> None:
    said = lines(status([node(0)]), log=LOG, over=True)
    assert len(said) == 5
    assert not any("GPU" in line for line in said)


STATUSES = st.builds(
    status,
    st.lists(
        st.builds(
            node,
            st.integers(0, 2000),
            st.sampled_from(DOING),
            name=st.text(max_size=30),
            count=st.none() | st.floats(0, 1e13),
            score=st.none() | st.floats(-1e12, 1e12),
            steps_per_s=st.none() | st.floats(0, 1e9),
            gpu_percent=st.none() | st.floats(0, 100),
        ),
        max_size=40,
    ),
    elapsed_s=st.floats(0, 1e7),
    time_left_s=st.none() | st.floats(0, 1e7),
    progress=st.none() | st.floats(0, 1),
    best_score=st.none() | st.floats(-1e12, 1e12),
    best_hparams=st.none() | st.dictionaries(st.text(max_size=12), st.text() | st.floats()),
    checkpoint_bytes=st.integers(0, 10**15),
)


@given(
    stand=STATUSES,
    width=st.integers(1, 200),
    height=st.integers(1, 80),
    log=st.lists(st.text(), max_size=15),
    over=st.booleans(),
)
def test_it_fits_whatever_there_is_to_say(
    stand: Status, width: int, height: int, log: list[str], over: bool
) -> None:
    drawn = draw(settings(), stand, [printable(line) for line in log], width, height, over=over)
    assert len(drawn) <= height
    for line in drawn:
        assert cell_len(line.plain) <= width
        assert line.plain.isprintable()


def test_eighty_columns_show_every_measure_of_nodes_with_usual_names() -> None:
    for name in ("GPU 0", "cores 126-127", "GPU 7"):
        gpu = None if name.startswith("cores") else 100.0
        stand = status([node(0, name=name, gpu_percent=gpu, score=-12345.67, cpu_percent=100.0)])
        head, row = lines(stand)[3:5]
        assert name in row
        assert "steps/s  CPU %" in head
        assert "…" not in row
        assert ("GPU %" in head) is (gpu is not None)


def test_a_narrow_terminal_keeps_what_matters_most() -> None:
    head = lines(status([node(0)]), 40)[3].split()
    assert head == ["node", "trial", "state", "steps"]
