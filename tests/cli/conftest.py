"""The command line as tests call it: in this process, in a folder of its own."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_outcome import Outcome

from simsched.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


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
