"""`simsched replay` as people call it: what it prints and writes, and what it refuses."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_outcome import Outcome

pytest.importorskip("psutil")

past = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "live" / "past_runs.py")))


@pytest.fixture
def run(here: Path) -> Path:
    """The folder of a live search with 10 trials on 3 nodes."""
    past.make_run(here / "live-1", past.settings_of("hypertrick"))
    return Path("live-1")


Simsched = Callable[..., Outcome]


def table_of(text: str) -> dict[str, list[str]]:
    """The cells of the table by the name of their line."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["actual", "predicted"])
    found = {}
    for line in lines[start + 1 : lines.index("", start)]:
        name, *cells = re.split(r"\s{2,}", line.strip())
        found[name] = cells
    return found


def test_it_prints_prediction_beside_reality(simsched: Simsched, run: Path) -> None:
    done = simsched("replay", run)
    assert (done.code, done.err) == (0, "")
    milestones = int(table_of(done.out)["milestones"][0])
    assert (
        f"decisions  {milestones} of {milestones} are the same when a fresh scheduler is fed the "
        "journal\n" in done.out
    )
    assert f"scores     {milestones} of {milestones} are what the curves give" in done.out
    cells = table_of(done.out)
    actual, predicted, off, retraced, other_off = cells["wall time"]
    assert actual == predicted == retraced
    assert (off, other_off) == ("0 %", "0 %")
    assert cells["utilization"][2] == "0 pt"
    assert cells["start"][0] == "20.0 s"
    assert "node time" in cells
    assert f"{milestones} of {milestones} decisions are the same" in done.out
    assert re.search(r"^start a worker +2\.0 s +2\.0 s +2\.0 s +2\.0 s +10$", done.out, re.M)
    assert re.search(rf"^hand over +(0 s +){{4}}{milestones}$", done.out, re.M)
    assert max(map(len, done.out.splitlines())) <= 80
    assert not Path("runs").exists()


def test_other_schedulers_and_nodes_follow_in_a_table(simsched: Simsched, run: Path) -> None:
    done = simsched("replay", run, "--scheduler", "random", "--nodes", "3,6")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.split("\nscheduler")[1].splitlines()[1:4]]
    assert [row[:3] for row in rows] == [
        ["hypertrick", "3", "10"], ["random†", "3", "10"], ["random†", "6", "10"],
    ]  # fmt: skip
    assert "† censored: " in done.out
    assert "note: starting and training take as long as on the run's 3 nodes" in done.out


def test_json_and_page(simsched: Simsched, run: Path) -> None:
    done = simsched("replay", run, "--out", "page", "--json", "replay.json", "--scheduler", "pbt")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\nreport: page/report.html\n")
    values = json.loads(Path("replay.json").read_text())
    assert values["predicted"]["wall_time_s"] == values["actual"]["wall_time_s"]
    assert Path("page/results.json").read_bytes() == Path("replay.json").read_bytes()
    page = Path("page/report.html").read_text()
    titles = re.findall(r"<h3>(.*?)</h3>", page)
    assert titles[:3] == ["predicted", "actual", "retraced"]
    assert "pbt (approximate)" in titles
    identifiers = re.findall(r'id="([^"]+)"', page.partition("<script")[0])
    assert len(identifiers) == len(set(identifiers))
    charts = json.loads(
        re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)[1]  # type: ignore[index]
    )
    assert {chart["id"] for chart in charts["charts"]} <= set(identifiers)
    assert (
        len({json.dumps(chart["layout"]["xaxis"]["range"]) for chart in charts["charts"][:3]}) == 1
    )


def test_json_in_place_of_the_table(simsched: Simsched, run: Path) -> None:
    done = simsched("replay", run, "--json", "-")
    assert json.loads(done.out)["decisions"]["difference"] is None


def test_decisions_that_are_not_the_journals(simsched: Simsched, run: Path) -> None:
    import msgspec

    from simsched.messages import Decision, Pause, Stop

    def change(line: int, record):  # type: ignore[no-untyped-def]
        stops = record.decision is not None and isinstance(record.decision.verdict, Stop)
        return msgspec.structs.replace(record, decision=Decision(Pause())) if stops else record

    past.rewrite(run, change)
    done = simsched("replay", run)
    assert done.code == 1
    assert re.search(
        r"the first answer that differs: live-1/journal.jsonl: line \d+: now\s+Decision", done.out
    )
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_score_that_is_not_the_curves(simsched: Simsched, run: Path) -> None:
    path = run / "trials" / "0002" / "rows.jsonl"
    lines = path.read_text().splitlines()
    row = json.loads(lines[1])["row"]
    lines[1] = json.dumps({"row": [*row[:3], row[3] + 1]})
    path.write_text("\n".join([*lines, ""]))
    done = simsched("replay", run)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert re.search(r"trial 2 at 30: \S+ in the journal, \S+ by its rows", said)


def test_a_run_that_is_not_over(simsched: Simsched, run: Path) -> None:
    past.rewrite(run, lambda line, record: record if line < 20 else None)
    done = simsched("replay", run)
    assert (done.code, done.err) == (0, "")
    assert "it is not over: all is compared up to its last event" in done.out
    assert table_of(done.out)["wall time"][2] == "0 %"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'RUN'"),
        (["nowhere"], "nowhere: not the folder of a live search, journal.jsonl is missing"),
        (["live-1", "--scheduler", "hyperban"], "(did you mean 'hyperband'?)"),
        (["live-1", "--scheduler", "asha", "--scheduler", "asha"], "name none twice"),
        (["live-1", "--scheduler", "hyperband:eta=1"], "hyperband: eta=1 must be"),
        (["live-1", "--nodes", "0"], "'0' must be a whole number from 1"),
        (["live-1", "--json", "no/such/file.json"], "there is no folder no/such"),
        (["live-1", "--out", "live-1"], "--out live-1: the folder is not empty"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line(
    simsched: Simsched, run: Path, arguments: list[str], said: str
) -> None:
    before = sorted(Path().rglob("*"))
    assert said in simsched("replay", *arguments).refusal
    assert sorted(Path().rglob("*")) == before


def test_a_damaged_journal_is_one_line(simsched: Simsched, run: Path) -> None:
    path = run / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"score":', b'"score": ', 1))
    refusal = simsched("replay", run, "--out", "page").refusal
    assert re.fullmatch(r"live-1/journal.jsonl: line \d+: its check does not fit: .*", refusal)
    assert not Path("page").exists()
