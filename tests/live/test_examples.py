"""The example of a worker of one's own: shown in the docs, run here."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("psutil")
from click.testing import CliRunner

from simsched.cli.live import live

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "digits"


def test_the_example_learns_digits(tmp_path: Path) -> None:
    program = f"{sys.executable} {EXAMPLE / 'train.py'} --rate {{rate}} --alpha {{alpha}}"
    arguments = [
        "--command", program, "--search-space", str(EXAMPLE / "space.toml"), "--nodes", "1",
        "--workers", "4", "--phases", "2", "--phase-length", "3", "--metric", "accuracy",
        "--scheduler", "successive-halving", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    result = CliRunner().invoke(live, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (run,) = json.loads((tmp_path / "run" / "results.json").read_bytes())["runs"]
    assert run["best_score"] > 0.85  # guessing has 0.1
    assert run["preemptions"] == 4  # all wait at the barrier; the last one survives, or stops
    assert sorted(trial["fate"] for trial in run["trials"]) == ["finished"] * 2 + ["stopped"] * 2


def test_the_docs_show_the_example_as_it_is() -> None:
    shown = (ROOT / "docs" / "workers.md").read_text().split("```python\n")[1].split("```")[0]
    program = (EXAMPLE / "train.py").read_text()
    for part in shown.split("\n\n"):
        assert part.strip() in program
