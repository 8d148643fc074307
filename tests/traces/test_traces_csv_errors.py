"""Each broken rule gives one line with file, line, column, value and what would be right."""

import pytest
from trace_files import FIVE, HEAD, ROWS, put, refusal, table

NO_COLUMN = (
    "there is no column '{0}'; if each row is one of them: "
    "simsched traces import FILE --count {0} --to NEW"
)


def swap(line: int, old: str, new: str) -> str:
    """The good table with one change in one of its rows (0 is the first)."""
    rows = list(ROWS)
    assert old in rows[line]
    rows[line] = rows[line].replace(old, new, 1)
    return table(*rows)


CSV_CASES = {
    "empty": ("", "the file is empty"),
    "blank": ("\n \n", "the file is empty"),
    "header only": (HEAD + "\n", "it has columns but no rows"),
    "header, no newline": (HEAD, "it has columns but no rows"),
    "blank first line": ("\n" + table(*ROWS), "line 1: it is blank; the column names must stand"),
    "semicolons": (
        table(*ROWS).replace(",", ";"),
        "line 1: the columns are parted by ';'; commas are needed",
    ),
    "column twice": (table(*ROWS, head=HEAD.replace("score", "steps")), "line 1: there are 2"),
    "near name": (
        table(*ROWS, head=HEAD.replace("seconds", "secs")),
        "there is no column 'seconds'; rename 'secs' if that is it",
    ),
    "near name in capitals": (
        table(*ROWS, head=HEAD.replace("score", "Score")),
        "there is no column 'score'; rename 'Score' if that is it",
    ),
    "no episodes": (
        table("0,1,5,2", head="trial,seconds,steps,score"),
        NO_COLUMN.format("episodes"),
    ),
    "no steps": (
        table("0,1,5,2", head="trial,seconds,episodes,score"),
        NO_COLUMN.format("steps"),
    ),
    "no trial": (
        table("1,1,5,2", head="seconds,steps,episodes,score"),
        "there is no column 'trial'; the columns must be trial, seconds, steps",
    ),
    "unknown column": (
        table(*ROWS, head=HEAD.replace("hp.lr", "lr")),
        "column 'lr' is none of trial, seconds, steps, episodes, score or hp.NAME; a hyper",
    ),
    "nameless hyperparameter": (
        table(*ROWS, head=HEAD.replace("hp.lr", "hp.")),
        "column 'hp.' is none of",
    ),
    "text in a number": (
        swap(1, "3", "three"),
        "line 3: seconds is 'three'; it must be a number",
    ),
    "text in a whole number": (
        swap(3, "90", "many"),
        "line 5: steps is 'many'; it must be a number",
    ),
    "not whole": (swap(0, "100", "100.5"), "line 2: steps is '100.5'; it must be a whole number"),
    "overflow": (
        swap(0, "100", "9223372036854775808"),
        "line 2: steps is '9223372036854775808'; it must be a whole number of at most 92233",
    ),
    "trial is a name": (swap(3, "1,", "run-1,"), "line 5: trial is 'run-1'; it must be a number"),
    "negative trial": (swap(3, "1,", "-1,"), "line 5: trial is -1; it must be 0 or more"),
    "no seconds": (swap(1, "3", ""), "line 3: seconds is missing; it must be a number in every"),
    "no trial number": (
        swap(
            1,
            "0",
            "",
        ),
        "line 3: trial is missing",
    ),
    "NaN seconds": (swap(1, "3", "nan"), "line 3: seconds is nan; it must be finite and 0 or"),
    "infinite seconds": (swap(1, "3", "inf"), "line 3: seconds is inf; it must be finite"),
    "negative seconds": (swap(0, "1.5", "-1.5"), "line 2: seconds is -1.5; it must be finite and"),
    "negative steps": (swap(0, "100", "-100"), "line 2: steps is -100; it must be finite and 0"),
    "milliseconds since 1970": (swap(3, "2", "1.7e12"), "line 5: seconds is 1700000000000.0; at"),
    "NaN score in mid-trial": (
        swap(1, "20,", "NaN,"),
        "line 3: score is missing or NaN; only a trial's last row may have none, and trial 0 goes",
    ),
    "no score in mid-trial": (swap(0, ",10,", ",,"), "line 2: score is missing or NaN"),
    "infinite score": (swap(3, "5,", "-inf,"), "line 5: score is -inf; it must be finite"),
    "seconds back": (
        swap(1, "3", "1"),
        "line 3: seconds is 1.0 after 1.5; it must never go back within trial 0",
    ),
    "steps back": (swap(2, "250", "199"), "line 4: steps is 199 after 200; it must never go back"),
    "episodes back": (swap(2, "2,,", "1,,"), "line 4: episodes is 1 after 2; it must never go"),
    "row twice": (
        table(ROWS[0], ROWS[1], ROWS[1]),
        "line 4: seconds 3.0, steps 200 and episodes 2 repeat the row before",
    ),
    "interleaved": (
        table(ROWS[0], ROWS[3], ROWS[1]),
        "line 4: trial 0 begins again (its rows ended at line 2); the rows of a trial must stand",
    ),
    "hyperparameter changes": (
        swap(1, "0.1", "0.2"),
        "line 3: hp.lr is 0.2 after 0.1; it must stay the same within trial 0",
    ),
    "hyperparameter goes missing": (
        swap(1, ",0.1", ","),
        "line 3: hp.lr is None after 0.1; it must stay the same",
    ),
    "hyperparameter is NaN": (swap(3, "0.01", "nan"), "line 5: hp.lr is nan; it must be finite"),
    "too few values": (swap(1, ",0.1", ""), "line 3: 5 values; there are 6 columns"),
    "too many values": (swap(1, "20", "20,20"), "line 3: 7 values; there are 6 columns"),
    "mixed games": (
        table("0,1,1,1,1,Pong", "1,1,1,1,1,Boxing", head=FIVE + ",game"),
        "line 3: game is 'Boxing', before it was 'Pong'; a file holds one game",
    ),
    "another game": (
        '# simsched: {"game":"Pong"}\n' + table("0,1,1,1,1,Boxing", head=FIVE + ",game"),
        "line 3: game is 'Boxing', but the metadata says 'Pong'",
    ),
    "after a blank line": (
        table(ROWS[0], "", swap(1, "3", "x").splitlines()[2]),
        "line 4: seconds is 'x'",
    ),
    "after a quoted line break": (
        table('0,1,1,1,1,"a\nb"', "1,x,1,1,1,c", head=FIVE + ",hp.s"),
        "line 4: seconds is 'x'",
    ),
    "long value": (swap(1, "3", "x" * 5000), "line 3: seconds is 'xxxxxxxxxxxx"),
    "control characters": (swap(1, "3", "\x1b[31m"), r"line 3: seconds is '\x1b[31m'"),
    "not UTF-8": (table(*ROWS).encode() + b"\xff", "line 6: not UTF-8 text"),
    "NUL": (table(*ROWS).encode().replace(b",20,", b",\0,"), r"line 3: score is '\x00'"),
    "metadata is no JSON": ("# simsched: {]\n" + table(*ROWS), "line 1: metadata: JSON is malf"),
    "metadata of another kind": (
        '# simsched: {"game": 3}\n' + table(*ROWS),
        "line 1: metadata: Expected `str`, got `int` - at `$.game`",
    ),
    "unknown metadata": (
        '# simsched: {"gmae": "Pong"}\n' + table(*ROWS),
        "line 1: metadata: Object contains unknown field `gmae`",
    ),
    "mode": ('# simsched: {"mode": "best"}\n' + table(*ROWS), "line 1: metadata: Invalid enum"),
    "newer format": (
        '# simsched: {"format": 2}\n' + table(*ROWS),
        "line 1: metadata: format is 2; this version reads format 1",
    ),
    "end of no trial": (
        '# simsched: {"ends": {"9": "complete"}}\n' + table(*ROWS),
        "metadata: ends names trial '9', which the table does not have",
    ),
    "unknown end": (
        '# simsched: {"ends": {"1": "died"}}\n' + table(*ROWS),
        "metadata: trial 1 ended 'died'; it must be complete, diverged or censored",
    ),
    "declared type": (
        '# simsched: {"types": {"lr": "int"}}\n' + table(*ROWS),
        "line 3: hp.lr is '0.1'; it must be int, as the metadata says",
    ),
}


@pytest.mark.parametrize("case", CSV_CASES)
def test_csv(tmp_path, case):
    text, expected = CSV_CASES[case]
    assert refusal(put(tmp_path, text)).startswith(expected)
