"""Which costs count: an option for one, a live run's, the cluster's; command line before file."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_outcome import Outcome

Run = Callable[..., Outcome]
NAMES = ("start_s", "save_s", "load_s")


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("c.toml").write_text(
        "[[nodes]]\ncount = 2\n[costs]\nstart_s = 1\nsave_s = 2\nload_s = 3\nhand_over_s = 0.5\n"
    )
    Path("live").mkdir()
    measured = {"settings": dict(zip(NAMES, (11.0, 12.0, 13.0), strict=True)), "measured": {}}
    Path("live/results.json").write_text(json.dumps(measured))


def settings(simsched: Run, *arguments: object) -> Any:
    outcome = simsched("simulate", "--game", "CartPole-v1", "--workers", 4, "--scheduler", "random",
                       "--json", "-", *arguments)  # fmt: skip
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["settings"]


CASES = [
    ("", "", (0, 0, 0)),
    ("", "--cluster c.toml", (1, 2, 3)),
    ("", "--costs-from live", (11, 12, 13)),
    ("", "--cluster c.toml --costs-from live", (11, 12, 13)),
    ("", "--cluster c.toml --save-cost 9", (1, 9, 3)),
    ("", "--cluster c.toml --save-cost 0", (1, 0, 3)),
    ("", "--cluster c.toml --preemption-cost 8", (1, 4, 4)),
    ("", "--costs-from live --start-cost 7", (7, 12, 13)),
    ("", "--cluster c.toml --costs-from live --preemption-cost 8", (11, 4, 4)),
    ('cluster = "c.toml"\nsave-cost = 9', "", (1, 9, 3)),
    ('cluster = "c.toml"\ncosts-from = "live"\nload-cost = 9', "", (11, 12, 9)),
    ('cluster = "c.toml"', "--costs-from live", (11, 12, 13)),
    ('costs-from = "nowhere"\nsave-cost = 9', "--cluster c.toml", (1, 2, 3)),
    ('cluster = "c.toml"\nstart-cost = 9', "--costs-from live", (11, 12, 13)),
    ("preemption-cost = 8", "--save-cost 9", (0, 9, 0)),
    ("save-cost = 9", "--preemption-cost 8", (0, 4, 4)),
    ("save-cost = 9", "--load-cost 1", (0, 9, 1)),
]


@pytest.mark.parametrize(("file", "arguments", "costs"), CASES)
def test_which_costs_count(
    file: str, arguments: str, costs: tuple[float, ...], simsched: Run
) -> None:
    Path("e.toml").write_text(f"[simulate]\n{file}\n")
    found = settings(simsched, "--config", "e.toml", *arguments.split())
    assert tuple(found[name] for name in NAMES) == costs
    if "cluster" in found:
        assert tuple(found["cluster"]["costs"].get(name, 0) for name in NAMES) == costs
        assert found["cluster"]["costs"]["hand_over_s"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "costs", "instead"),
    [
        ("", (11, 12, 0), "it is taken to cost nothing"),
        ("--cluster c.toml", (11, 12, 3), "the cluster's cost stands"),
    ],
)
def test_what_the_run_never_did_costs_what_it_would_without_it(
    arguments: str, costs: tuple[float, ...], instead: str, simsched: Run
) -> None:
    measured = json.loads(Path("live/results.json").read_text())
    measured["settings"]["load_s"] = 0.0
    measured["runs"] = [{"saves": 2, "loads": 0}]
    Path("live/results.json").write_text(json.dumps(measured))
    found = settings(simsched, "--costs-from", "live", *arguments.split())
    assert tuple(found[name] for name in NAMES) == costs
    noted = simsched("simulate", "--game", "CartPole-v1", "--workers", 2, "--scheduler", "random",
                     "--costs-from", "live", *arguments.split()).err  # fmt: skip
    assert noted == (
        f"note: live loaded no checkpoint, so what that costs is not known: {instead}\n"
    )


def test_costs_beside_a_cluster_are_spent_and_the_pages_command_repeats_them(
    simsched: Run, here: Path
) -> None:
    arguments = ["simulate", "--game", "CartPole-v1", "--workers", 4, "--phases", 2,
                 "--scheduler", "successive-halving:eta=2"]  # fmt: skip
    for folder, more in (("own", []), ("given", ["--costs-from", "live", "--load-cost", 0])):
        made = simsched(*arguments, "--cluster", "c.toml", *more, "--out", folder)
        assert made.code == 0, made.err
    own, given = (json.loads(Path(f, "results.json").read_text()) for f in ("own", "given"))
    assert "given_costs" not in own["settings"]
    assert sorted(given["settings"]["given_costs"]) == sorted(NAMES)
    seconds = [run["runs"][0]["node_seconds"] for run in (own, given)]
    assert (seconds[0]["load"] > 0, seconds[1]["load"]) == (True, 0)
    assert seconds[1]["start"] == 11 * seconds[0]["start"] > 0
    assert seconds[1]["save"] == 6 * seconds[0]["save"] > 0

    page = Path("given/report.html").read_text()
    (command,) = re.findall(r"<code>(simsched simulate.*?)</code></pre>", page, re.DOTALL)
    assert "--start-cost 11 \\\n  --save-cost 12 \\\n  --load-cost 0 \\\n" in command
    again = simsched(
        *shlex.split(command.replace("\\\n", ""))[1:], "--json", "again.json", "--out", "again"
    )
    assert again.code == 0, again.err
    assert json.loads(Path("again.json").read_text()) == given
    assert "--start-cost" not in Path("own/report.html").read_text()
