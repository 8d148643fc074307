"""What people see of a search while it runs, on terminals of any size and without one."""

import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from simsched.live.picture import draw
from simsched.live.settings import LiveSettings
from simsched.live.status import Doing, NodeStatus, Status
from simsched.live.view import LineView, PictureView, make_view, status_line
from simsched.live.wording import clock, figure, printable, share, short, size
from simsched.space import PUBLISHED_GA3C

DOING: tuple[Doing, ...] = get_args(Doing)
LOG = [f"trial {trial} told {trial * 100}.0 at 20,000 steps: goes on" for trial in range(20)]


def settings(**changes: Any) -> LiveSettings:
    given: dict[str, Any] = {
        "version": "1", "code": "", "game": "MsPacman", "nodes": 6, "workers": 16,
        "phases": 4, "phase_length": 100_000, "space": PUBLISHED_GA3C.to_json(), **changes,
    }  # fmt: skip
    return LiveSettings(**given)


def node(number: int, doing: Doing = "training", **changes: Any) -> NodeStatus:
    given: dict[str, Any] = {"node": number, "name": f"GPU {number}", "doing": doing}
    if doing not in ("idle", "out of service"):
        given |= {
            "trial": number + 3, "attempt": 17, "phase": 1, "count": 123_456.0, "until": 200_000,
            "score": 340.25, "steps_per_s": 1512.5,
        }  # fmt: skip
    given |= {"cpu_percent": 93.4, "gpu_percent": 45.6, "gpu_memory_bytes": 1_300_000_000}
    return NodeStatus(**{**given, **changes})


def status(nodes: Sequence[NodeStatus], **changes: Any) -> Status:
    given: dict[str, Any] = {
        "elapsed_s": 723.4, "nodes": nodes, "trials": 16, "started": 12,
        "fates": {"stopped": 3, "finished": 1}, "paused": 2, "milestones": 23,
        "best_score": 1412.5, "best_trial": 7,
        "best_hparams": {"learning_rate": 0.00034567, "t_max": 5, "gamma": 0.99},
        "failures": 1, "checkpoint_bytes": 12_345_678, "time_left_s": 440.2, "progress": 0.624,
        **changes,
    }  # fmt: skip
    return Status(**given)


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


class Screen:
    """A terminal that knows what a picture needs: lines, going up, erasing."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.lines = [""]
        self.at = 0
        self.scrolled = 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.at += 1
                if self.at == len(self.lines):
                    self.lines.append("")
                self.scrolled = max(self.scrolled, self.at - self.rows + 1)
            elif part.endswith("A") and part.startswith("\x1b"):
                self.at -= int(part[2:-1] or 1)
                assert self.at >= self.scrolled, "the cursor cannot go above the screen's top"
            elif part == "\x1b[2K":
                self.lines[self.at] = ""
            elif not part.startswith(("\x1b", "\r")):
                self.lines[self.at] += part


def test_a_terminal_shows_one_picture_at_a_time() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=24)
    screen = Screen(24)

    def seen() -> list[str]:
        screen.feed(stream.getvalue())
        stream.seek(0)
        stream.truncate()
        return [line for line in screen.lines if line.strip()]

    with PictureView(console, settings()) as view:
        view.update(status([node(n) for n in range(40)]))
        assert sum("simsched live" in line for line in seen()) == 1
        view._drawn_s = 0.0  # as if time had passed
        view.line("trial 9: failed \x1b[2J[red]and\nwas restarted[/red]")
        view.update(status([node(n) for n in range(4)]))
        shown = seen()
        assert sum("simsched live" in line for line in shown) == 1
        assert sum(line.startswith(" GPU") for line in shown) == 4
        # What a worker says cannot clear the screen or look like markup.
        assert shown[-1] == " trial 9: failed  [2J[red]and was restarted[/red]"
    shown = seen()
    assert sum("simsched live" in line for line in shown) == 1
    assert not any(line.startswith(" GPU") for line in shown)
    assert screen.scrolled == 0


def test_pictures_are_not_drawn_more_often_than_anybody_can_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr("simsched.live.view.time.monotonic", lambda: now_s)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=24)
    with PictureView(console, settings()) as view:
        for step in range(100):
            now_s = 100.0 + step / 100
            view.update(status([node(0)], milestones=step))
        drawn = re.findall(r"(\d+) milestones?", stream.getvalue())
        assert 3 <= len(drawn) <= 5
    # The last state is shown at the end, though it had just been drawn.
    assert re.findall(r"(\d+) milestones?", stream.getvalue())[-1] == "99"


IN_A_TERMINAL = """
import sys
sys.path.insert(0, sys.argv[1])
from test_view import node, settings, status
from simsched.live.view import PictureView, make_view
view = make_view(sys.stderr, settings())
assert isinstance(view, PictureView)
with view:
    view.update(status([node(n) for n in range(30)]))
    sys.stderr.write("drawn")
    sys.stderr.flush()
    sys.stdin.readline()
"""


def test_a_real_terminal_gets_the_picture_in_its_size() -> None:
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
    unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    its = {key: value for key, value in os.environ.items() if key not in unset}
    command = [sys.executable, "-P", "-c", IN_A_TERMINAL, str(Path(__file__).parent)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=writer, stderr=writer,
        env=its | {"TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        os.close(writer)
        said = ""
        while "drawn" not in said:
            said += os.read(reader, 1 << 16).decode()
        process.communicate(b"\n", timeout=60)
    os.close(reader)
    assert process.returncode == 0
    assert "\x1b[?25l" in said  # the cursor is hidden
    text = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", said).partition("drawn")[0]
    shown = text.replace("\r", "").rstrip("\n").split("\n")
    assert len(shown) <= 11
    assert max(cell_len(line) for line in shown) <= 60
    assert "… and " in text or "30 nodes" in text


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as stream:
        assert isinstance(make_view(stream, settings()), LineView)
    os.close(reader)


def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("simsched.live.view.time.monotonic", lambda: now_s)
    stream = io.StringIO()
    with make_view(stream, settings()) as view:
        assert isinstance(view, LineView)
        view.update(status([node(0)], milestones=1))
        now_s += 29
        view.update(status([node(0)], milestones=2))
        view.line("trial 3 told 340.2\nat 100,000 steps\x1b[31m")
        now_s += 2
        view.update(status([node(0)], milestones=3))
        view.update(status([node(0)], milestones=4))
    assert stream.getvalue().splitlines() == [
        "MsPacman, hypertrick, 16 trials on 6 nodes",
        "trial 3 told 340.2 at 100,000 steps [31m",
        status_line(status([], milestones=3)),
        status_line(status([], milestones=4)),
    ]
    assert status_line(status([], milestones=4)) == (
        "62 %, 0:12:03 elapsed, 0:07:20 left; 6 running, 2 paused, 3 stopped, 1 finished, 4 to come"
        "; best 1412.5, trial 7; 4 milestones, 12.3 MB of checkpoints, 1 failure"
    )
    nothing = status([], progress=None, time_left_s=None, best_score=None)
    assert status_line(nothing).startswith("0:12:03 elapsed, time left not known yet; 6 running")
    assert "best" not in status_line(nothing)


def test_a_search_goes_on_when_nobody_reads_any_more() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    with make_view(stream, settings()) as view:
        view.line("trial 0 started")
        view.line("trial 1 started")
    with suppress(BrokenPipeError):
        stream.close()
    closed = io.StringIO()
    closed.close()
    for view in (LineView(None, settings()), LineView(closed, settings())):
        with view:
            view.line("trial 0 started")
            view.update(status([]))


class Hung(io.StringIO):
    """A terminal that is gone: every write fails, as after its window was closed."""

    def write(self, _text: str) -> int:
        raise OSError(5, "Input/output error")

    def flush(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_search_goes_on_when_its_terminal_is_closed() -> None:
    console = Console(file=Hung(), force_terminal=True, width=80, height=24)
    with PictureView(console, settings()) as view:
        view.update(status([node(0)]))
        view.line("trial 0 started")
        view._drawn_s = 0.0
        view.update(status([node(0)]))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (12.345, "12.3"), (999.6, "1.00k"), (12_345, "12.3k"),
     (123_456, "123k"), (1_250_000, "1.25M"), (999_600, "1.00M"), (20_000, "20k"), (3e9, "3G"),
     (0.512, "0.51")],
)  # fmt: skip
def test_counts_are_short(value: float, text: str) -> None:
    assert short(value) == text


@given(st.floats(0, 9.99e11))
def test_short_counts_have_three_digits(value: float) -> None:
    text = short(value)
    assert len(text) <= 5
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    read = float(text.rstrip("kMG")) * units.get(text[-1], 1)
    assert read == pytest.approx(value, rel=0.006, abs=0.006)


def test_words() -> None:
    assert [clock(s) for s in (0, 59.6, 723, 360_000, -3)] == [
        "0:00:00", "0:01:00", "0:12:03", "100:00:00", "0:00:00",
    ]  # fmt: skip
    assert [size(b) for b in (0, 950, 1000, 12_345_678, 1_300_000_000, 2 * 10**12)] == [
        "0 B", "950 B", "1 kB", "12.3 MB", "1.30 GB", "2 TB",
    ]  # fmt: skip
    assert [share(s) for s in (0, 0.004, 0.624, 0.996, 1, 1.3)] == [
        "0 %", "0 %", "62 %", "99 %", "100 %", "100 %",
    ]  # fmt: skip
    scores = (None, 0.001234, -21.0, 340.25, -12345.67, -0.00012345, 123456.0, -1.5e30)
    assert [figure(score) for score in scores] == [
        "–", "0.001234", "-21", "340.2", "-12345.7", "-0.00012", "123k", "-1.5e+30",
    ]  # fmt: skip
    assert printable("a\tb\x1b[0m\n") == "a b [0m"


def test_the_view_needs_no_torch() -> None:
    code = "import simsched.live.view, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
