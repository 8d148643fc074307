"""On a terminal: the progress bar, the table within 80 columns, Ctrl-C."""

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
from pathlib import Path

from cli_curves import ladder
from cli_outcome import PATIENCE_S
from cli_process import LONG, start, wait_until_it_simulates

DECIDES = ("CI", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which whoever runs the tests would decide what a terminal shows."""


class Terminal:
    """A terminal of 80 columns. It is read all the while: it holds little, then writers wait."""

    def __init__(self) -> None:
        self._main, self.end = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._shown += os.read(self._main, 65536)
            except OSError:  # nobody has the other end any more, and all is read
                return

    def shown(self) -> str:
        """All that was shown until its last writer ended."""
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive()
        os.close(self._main)
        return self._shown.decode()


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run with both outputs on a terminal of 80 columns; return exit code and all it showed."""
    terminal = Terminal()
    clean = {name: text for name, text in os.environ.items() if name not in DECIDES}
    process = start(
        *arguments,
        stdout=terminal.end,
        stderr=terminal.end,
        env={**clean, "TERM": "xterm-256color", **environment},
    )
    os.close(terminal.end)
    return process.wait(timeout=2 * PATIENCE_S), terminal.shown()


def plain(shown: str) -> str:
    """Leave out colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n")


def test_a_long_run_shows_a_bar_on_a_terminal(here: Path) -> None:
    ladder("a.parquet", trials=64, rows=100)
    options = ("--resample", "--workers", "2500", "--nodes", "16", "--replications", "2")
    code, shown = on_a_terminal("simulate", "--traces", "a.parquet", *options)
    assert code == 0
    counts = [int(count) for count in re.findall(r"(\d+)/8 .{0,9}runs", plain(shown))]
    assert (counts[0], counts[-1]) == (0, 8)
    assert counts == sorted(counts)
    # When all is done the bar is gone, and the table is not in its line.
    last = shown.rindex("runs")
    assert shown.index("scheduler", shown.rindex("\x1b[2K")) > 0
    assert last > shown.rindex("\x1b[2K")


def test_a_table_on_a_terminal_fits_80_columns(here: Path) -> None:
    ladder("a.csv", trials=9)
    options = ("--nodes", "2,4", "--replications", "3", "--preemption-cost", "5")
    code, shown = on_a_terminal("simulate", "--traces", "a.csv", *options)
    assert code == 0
    table = plain(shown).rpartition("\r")[2]
    assert all(len(line) <= 80 for line in table.splitlines())
    for words in ("wall time", "best", "node-", "hours", "hypertrick", "4 nodes", "±", "report:"):
        assert words in table


def test_ctrl_c_on_a_terminal_ends_in_a_line_of_its_own(here: Path) -> None:
    ladder("a.parquet", trials=64, rows=100)
    terminal = Terminal()
    process = start(*LONG, stderr=terminal.end)
    os.close(terminal.end)
    wait_until_it_simulates(here, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    shown = terminal.shown()
    assert process.returncode == 130
    assert plain(shown).endswith("\ninterrupted\n")
    assert "Traceback" not in shown
