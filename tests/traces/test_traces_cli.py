import json
import re

import pytest
from click.testing import CliRunner
from trace_files import FIVE, ROWS, assert_same, make_set, make_trace, put, table

import simsched.traces.store as store
from simsched.cli.traces import traces
from simsched.traces import TraceError, read, synthesize, write


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty folder at 80 columns, with two shipped sets beside it."""
    data = tmp_path / "data"
    data.mkdir()
    write(make_set(game="Pong", date="2026-01-02"), data / "Pong.parquet")
    write(synthesize(3, 0, rows=20, steps=1000, game="Boxing"), data / "Boxing.parquet")
    monkeypatch.setattr(store, "_data", lambda: data)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(traces, args)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def test_list(run):
    lines = [line.split() for line in run("list").splitlines()]
    assert ["Pong", "Pong", "3", "12", "300", "recorded", "2026-01-02"] in lines
    assert any(line[:3] == ["Boxing", "Boxing", "3"] and "synthetic" in line for line in lines)


def test_list_json(run):
    boxing, pong = json.loads(run("list", "--json"))
    assert pong["name"] == "Pong"
    assert (pong["trials"], pong["rows"], pong["steps_per_trial"]) == (3, 12, 300)
    assert (pong["synthetic"], boxing["synthetic"]) == (False, True)
    assert pong["sha256"] == store.load("Pong").sha256


def test_list_of_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_data", lambda: tmp_path / "none")
    assert run("list") == "No recorded curves come with this installation.\n"
    assert json.loads(run("list", "--json")) == []


def test_show_fits_80_columns_and_is_best_first(run, tmp_path):
    write(synthesize(40, 0), tmp_path / "made.parquet")
    text = run("show", "made.parquet", "--trials", "7")
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.split("sha256")[1], "nothing is cut off in the table of curves"
    assert "SYNTHETIC: made by a generator" in text
    rows = re.findall(r"^ +\d+ [▁▂▃▄▅▆▇█ ]{25} +([\d,.]+) .* (?:complete|diverged)", text, re.M)
    best = [float(value.replace(",", "")) for value in rows]
    assert len(best) == 7
    assert best == sorted(best, reverse=True)
    assert "█" in text


def test_show_in_the_metrics_own_sense(run, tmp_path):
    made = make_set(make_trace(0), make_trace(1), make_trace(2), mode="min", metric="loss")
    write(made, tmp_path / "runs.csv")
    text = run("show", "runs.csv")
    assert "loss, smaller is better" in text
    assert re.findall(r"^ +(\d) [▁▂▃▄▅▆▇█ ]{25} +0.1 ", text, re.M) == ["0", "1", "2"]
    assert "SYNTHETIC" not in text


def test_show_copes_with_one_row_and_no_score_at_all(run, tmp_path):
    put(tmp_path, table("0,1,0,0,,0.1", head=FIVE + ",hp.lr"), "dead.csv")
    assert re.search("^ +0 {20,}\N{EN DASH} +0.1 complete", run("show", "dead.csv"), re.M)
    page = run("show", "dead.csv", "--html", "dead.html")
    assert page == "dead.html: 1 trial, 1 row\n"


def test_show_with_many_hyperparameters_uses_one_column(run, tmp_path):
    hparams = {f"parameter_{i}": i / 7 for i in range(6)}
    write(make_set(make_trace(hparams=hparams)), tmp_path / "wide.csv")
    text = run("show", "wide.csv")
    assert max(map(len, text.splitlines())) <= 80
    assert "parameter_5=0.7143" in text


def test_html_is_one_page_that_says_what_is_synthetic(run, tmp_path):
    rows = store.load("Boxing").rows
    assert run("show", "Boxing", "--html", "a.html") == f"a.html: 3 trials, {rows} rows\n"
    run("show", "Boxing", "--html", "b.html")
    run("show", "Pong", "--html", "c.html", "--trials", "1")
    page = (tmp_path / "a.html").read_text()
    assert page == (tmp_path / "b.html").read_text()
    assert "<title>Boxing: synthetic learning curves</title>" in page
    assert "made by a generator, not recorded" in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page), "nothing is loaded from outside"
    recorded = (tmp_path / "c.html").read_text()
    assert "<title>Pong: learning curves</title>" in recorded
    assert "The 1 best of 3 trials; " in recorded
    assert recorded.count('"name":"trial ') == 1


def test_html_escapes_what_files_say(run, tmp_path):
    evil = "<script>alert(1)</script>"
    made = make_set(make_trace(hparams={evil: evil}), game=evil, metric=evil)
    write(made, tmp_path / "runs.parquet")
    run("show", "runs.parquet", "--html", "page.html")
    assert evil not in (tmp_path / "page.html").read_text()


def test_validate_has_a_line_for_each_file(run, tmp_path):
    put(tmp_path, table(*ROWS), "good.csv")
    put(tmp_path, table(ROWS[1], ROWS[0]), "bad.csv")
    assert run("validate", "good.csv", "Pong").splitlines() == [
        "good.csv: ok, 2 trials, 4 rows",
        "Pong: ok, 3 trials, 12 rows",
    ]
    good, bad, gone = run("validate", "good.csv", "bad.csv", "gone.csv", code=2).splitlines()
    assert good == "good.csv: ok, 2 trials, 4 rows"
    assert bad.startswith("error: bad.csv: line 3: seconds is 1.5 after 3.0; it must never")
    assert gone == "error: gone.csv: there is no such file"


def test_import(run, tmp_path):
    head = "run,wall_s,step,ret,lr,config/gamma"
    put(tmp_path, table("a,1,5,0.5,0.1,0.9", "b,1,6,0.2,0.2,0.99", head=head), "theirs.csv")
    args = ["import", "theirs.csv", "--to", "ours.parquet", "--count", "episodes"]
    args += ["--map", "trial=run,seconds=wall_s", "--map", "steps=step, score=ret"]
    args += ["--hparam", "lr", "--hparam", "gamma=config/gamma", "--game", "Pong", "--mode", "min"]
    assert run(*args).splitlines() == [
        "ours.parquet: 2 trials, 2 rows",
        "  trials numbered: 0 = a, 1 = b",
    ]
    back = read(tmp_path / "ours.parquet")
    assert back.traces[1].hparams == {"lr": 0.2, "gamma": 0.99}
    assert (back.meta.game, back.meta.mode, back.meta.metric) == ("Pong", "min", "return")
    assert "--to ours.parquet: it exists; add --overwrite to replace it" in run(*args, code=2)
    assert run(*args, "--overwrite").startswith("ours.parquet: 2 trials")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (["--map", "score"], "--map 'score': it must be OURS=THEIRS"),
        (["--map", "score=a,score=b"], "--map: score is both a and b"),
        (["--map", "score="], "--map 'score=': it must be OURS=THEIRS"),
        (["--hparam", "=x"], "--hparam '=x': it must be OURS=THEIRS"),
        (["--count", "reports"], "'reports' is not one of 'episodes', 'steps'"),
    ],
)
def test_import_options_that_make_no_sense(run, tmp_path, option, expected):
    put(tmp_path, table(*ROWS), "runs.csv")
    text = run("import", "runs.csv", "--to", "out.csv", *option, code=2)
    assert expected in text
    assert not (tmp_path / "out.csv").exists()


def test_errors_of_the_file_reach_the_caller(run):
    with pytest.raises(TraceError, match=r"gone\.csv: there is no such file"):
        run("import", "gone.csv", "--to", "out.csv")
    with pytest.raises(TraceError, match=r"'Pongg'; did you mean Pong\?"):
        run("show", "Pongg")


def test_synth(run, tmp_path):
    args = ("--trials", "5", "--rows", "9", "--steps", "900", "--seed", "3", "--kind", "reports")
    text = run("synth", "--to", "made.jsonl", *args, "--no-divergence")
    assert text == "made.jsonl: 5 trials, 45 rows, synthetic\n"
    expected = synthesize(5, 3, rows=9, steps=900, kind="reports", diverge=False)
    back = read(tmp_path / "made.jsonl")
    assert_same(back, expected)
    assert back.meta == expected.meta
    assert "--steps 5 must be at least --rows 9" in run(
        "synth", "--to", "x.csv", "--rows", "9", "--steps", "5", code=2
    )
    assert "it exists" in run("synth", "--to", "made.jsonl", code=2)


@pytest.mark.parametrize("command", [None, *traces.commands])
def test_help_has_examples_within_80_columns(run, command):
    text = run(*([command] if command else []), "--help")
    assert "Examples:\n  " in text
    assert "simsched traces" in text.split("Examples:")[1]
    assert max(map(len, text.splitlines())) <= 80
