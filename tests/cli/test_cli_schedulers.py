"""`simsched schedulers` and `simsched schedulers NAME`."""

import json
import re
from collections.abc import Callable

import pytest
from cli_curves import ladder
from cli_outcome import Outcome, results

Run = Callable[..., Outcome]
NAMES = [
    "successive-halving", "hyperband", "hypertrick", "pbt", "asha", "asha-stop",
    "median-stopping", "random",
]  # fmt: skip
DEFAULTS: dict[str, dict[str, float | None]] = {
    "successive-halving": {"eta": 2, "base": 1},
    "hyperband": {"eta": 2, "brackets": None},
    "hypertrick": {"eviction_rate": 0.25},
    "pbt": {"quantile": 0.25, "interval": 1, "resample_probability": 0.25, "perturb": 1.2},
    "asha": {"eta": 2, "base": 1},
    "asha-stop": {"eta": 2, "base": 1},
    "median-stopping": {"grace": 1},
    "random": {},
}


def test_the_list_names_all_with_their_defaults(simsched: Run) -> None:
    out = simsched("schedulers").good.out
    assert re.findall(r"^([a-z][a-z-]+) {2,}\S", out, re.MULTILINE)[1:] == NAMES
    for parameters in DEFAULTS.values():
        for name, default in parameters.items():
            assert f"{name}={'auto' if default is None else default}" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "simsched schedulers NAME" in out


def test_json_has_the_same(simsched: Run) -> None:
    listed = json.loads(simsched("schedulers", "--json").good.out)
    assert [scheduler["name"] for scheduler in listed] == NAMES
    for scheduler in listed:
        parameters = {p["name"]: p["default"] for p in scheduler["parameters"]}
        assert parameters == DEFAULTS[scheduler["name"]]
        assert scheduler["summary"]
        assert all(p["allowed"].startswith("a ") for p in scheduler["parameters"])
    one = json.loads(simsched("schedulers", "pbt", "--json").good.out)
    assert one == listed[NAMES.index("pbt")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("successive-halving", ("1502.07943", "floor")),
        ("hyperband", ("1603.06560", "smax", "ceil")),
        ("hypertrick", ("1902.02725", "W0 * (1 - sqrt(r)) * (1 - r)^p", "sqrt(r)-quantile")),
        ("pbt", ("1711.09846", "quantile")),
        ("asha", ("1810.05934", "floor")),
        ("asha-stop", ("1810.05934", "floor")),
        ("median-stopping", ("Golovin", "median")),
        ("random", ("full length",)),
    ],
)
def test_each_is_explained_with_its_formulas_and_source(
    simsched: Run, name: str, said: tuple[str, ...]
) -> None:
    out = simsched("schedulers", name).good.out
    plain = " ".join(out.split()).lower()
    assert out.startswith(name)
    for words in said:
        assert words.lower() in plain
    for parameter in DEFAULTS[name]:
        assert re.search(rf"^ +{parameter}=", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_the_command_that_an_explanation_ends_with_works(simsched: Run, name: str) -> None:
    ladder("a.csv")
    command = simsched("schedulers", name).good.out.splitlines()[-1]
    program, *arguments = command.split()
    assert program == "simsched"
    arguments = [argument.replace("=auto", "=2") for argument in arguments]
    table = simsched(*arguments, "--traces", "a.csv", "--out", "r").table
    assert table[0]["scheduler"].startswith(name)
    assert results("r")["settings"]["schedulers"] == [arguments[-1]]


def test_an_empty_or_unknown_name(simsched: Run) -> None:
    said = simsched("schedulers", "ash").refusal
    assert said.startswith("unknown scheduler 'ash' (did you mean 'asha'?); there are: successive")
