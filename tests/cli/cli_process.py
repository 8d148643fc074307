"""The installed script as a process that a test looks at while it works."""

import subprocess
import time
from pathlib import Path
from typing import Any

from cli_outcome import SCRIPT

LONG = ("simulate", "--traces", "a.parquet", "--resample", "--workers", "3000", "--nodes", "16",
        "--replications", "100", "--out", "new/deep/run", "--json", "r.json")  # fmt: skip


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(SCRIPT), *arguments],
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
    )


def wait_until_it_simulates(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait for the second journal: then the first run is done and another one under way."""
    for _ in range(3000):
        if len(list(folder.glob("new/deep/run/.*/journals/*.jsonl"))) > 1:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("no run was simulated in 30 s")


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]
