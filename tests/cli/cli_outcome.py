"""What a command printed, and what to expect of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = Path(sys.executable).with_name("simsched")
PATIENCE_S = 300
"""How long something may take on a busy machine that is a matter of a second or two."""
UNIT_S = {"µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Outcome(NamedTuple):
    """A command's end."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line that says what was wrong, without "error: "."""
        assert self.code == 2, self
        assert self.out == "", self
        assert self.err.startswith("error: "), self
        assert self.err.count("\n") == 1, self
        assert self.err.endswith("\n"), self
        assert "Traceback" not in self.err, self
        return self.err.removeprefix("error: ").rstrip("\n")

    @property
    def good(self) -> "Outcome":
        """Itself, if all went well."""
        assert self.code == 0, self
        assert self.err == "", self
        return self

    @property
    def table(self) -> list[dict[str, str]]:
        """The rows of the table, by the names of the columns."""
        lines = self.good.out.split("\n\n")[0].splitlines()
        head, *rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
        return [dict(zip(head, row, strict=True)) for row in rows]


def in_process_of_its_own(*arguments: object, **options: Any) -> Outcome:
    """Run the installed `simsched` script."""
    done = subprocess.run(
        [str(SCRIPT), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        **options,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder: the bytes of files, None for folders."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def results(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the results of a run's folder."""
    read: dict[str, Any] = json.loads((Path(folder) / "results.json").read_text())
    return read


def duration_s(text: str) -> tuple[float, float]:
    """Read "1 m 20 s" into seconds, and how far off the rounding may be."""
    parts = re.findall(r"([\d.]+) (µs|ms|s|m|h|d)", text)
    assert parts, text
    last, unit = parts[-1]
    decimals = len(last.partition(".")[2])
    return sum(float(n) * UNIT_S[u] for n, u in parts), 0.5001 * UNIT_S[unit] / 10**decimals
