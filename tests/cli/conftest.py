"""The command line as tests call it: in this process, in a folder of its own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_outcome import Outcome
from cli_process import end_all

from simsched.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    end_all()


@pytest.fixture
def simsched(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Run `simsched ARGUMENTS`."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["simsched", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Outcome(exit_.value.code, out, err)

    return run


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of trial 3: an agent that plays Breakout at random."""
    from cli_play import random_agent  # needs torch

    path = tmp_path_factory.mktemp("trained") / "c"
    random_agent(path)
    return path


@pytest.fixture
def space(here: Path) -> Path:
    """A search space of one hyperparameter, `lr`."""
    path = here / "space.toml"
    path.write_text('[lr]\ntype = "real"\nlow = 1e-3\nhigh = 1.0\nlog = true\n')
    return path


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for the searches of `simsched live`: a `Recorder`."""
    import cli_live  # needs psutil

    made = cli_live.Recorder()
    monkeypatch.setattr(cli_live.search, "run_search", made)
    return made
