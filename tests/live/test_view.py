"""What people see of a search while it runs, on terminals of any kind and without one."""

import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from search_status import node, settings, status

from simsched.live.view import LineView, PictureView, make_view, status_line


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
from search_status import node, settings, status
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


def test_the_view_needs_no_torch() -> None:
    code = "import simsched.live.view, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
