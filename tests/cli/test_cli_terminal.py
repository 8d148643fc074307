"""On a terminal: the progress bar, the table within 80 columns, Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

from cli_curves import ladder
from cli_process import LONG, start, wait_until_it_simulates


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run with both outputs on a terminal of 80 columns; return exit code and all it showed."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    clean = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "CI")}
    process = start(
        *arguments,
        stdout=terminal,
        stderr=terminal,
        env={**clean, "TERM": "xterm-256color", **environment},
    )
    os.close(terminal)
    shown = b""
    end_s = time.monotonic() + 90
    while time.monotonic() < end_s:
        if select.select([main], [], [], 0.1)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            shown += data
    os.close(main)
    return process.wait(timeout=30), shown.decode()


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
    main, terminal = pty.openpty()
    process = start(*LONG, stderr=terminal)
    os.close(terminal)
    wait_until_it_simulates(here, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    shown = b""
    while select.select([main], [], [], 0)[0]:
        try:
            shown += os.read(main, 65536)
        except OSError:
            break
    os.close(main)
    assert process.returncode == 130
    assert plain(shown.decode()).endswith("\ninterrupted\n")
    assert "Traceback" not in shown.decode()
