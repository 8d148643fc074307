"""Wrong use: one clear line, exit code 2, and what was there before is as it was."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fast_runs import SPACE, Says, Server, make_settings, search_here, small_disk, worker

from simsched.live import search
from simsched.live.errors import LiveError, NothingRanError

SPACE_TOML = "".join(
    f"[{name}]\n" + "".join(f"{key} = {value!r}\n".lower() for key, value in fields.items())
    for name, fields in SPACE.items()
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a search space in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "space.toml").write_text(SPACE_TOML)
    return folder


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder, with what the files have in them."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def refusal(server: Server, here: Path, *options: object) -> str:
    """Run `simsched live`; return the last line, which is the only one that complains."""
    before = tree(here)
    words = ["live", "--search-space", "space.toml", "--nodes", 1, "--workers", 2, *options]
    process = server.command(*words, folder=here)
    assert process.wait() == 2, process.output
    assert tree(here) == before
    *others, last = process.output.splitlines()
    assert "Traceback" not in process.output
    assert not any(line.startswith("error: ") for line in others)
    return last


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("false", "error: 'false': it ended with exit code 1; nothing was trained"),
        ("true", "error: 'true': it ended with exit code 0; nothing was trained"),
        (
            "sh -c 'echo no data here; exit 4'",
            (
                """error: "sh -c 'echo no data here; exit 4'": it ended with exit code 4; """
                "its last line: no data here; nothing was trained"
            ),
        ),
        (
            "sh -c 'kill -SEGV $$'",
            "error: \"sh -c 'kill -SEGV $$'\": it was killed by SIGSEGV; nothing was trained",
        ),
        (
            "no-such-program {rate}",
            "error: --command: there is no program 'no-such-program' on the PATH that can be run",
        ),
        (
            "./train.py --lr {rat}",
            (
                "error: --command: {rat} is no hyperparameter of the search space "
                "(did you mean 'rate'?); it has: rate, level"
            ),
        ),
    ],
)
def test_a_command_that_cannot_train(server: Server, here: Path, command: str, line: str) -> None:
    assert refusal(server, here, "--command", command) == line


def test_a_worker_of_another_protocol(server: Server, here: Path) -> None:
    line = refusal(server, here, "--command", worker(faults=["protocol"]))
    assert line.endswith(": it sent protocol 99, not 1, on its channel; nothing was trained")


def test_what_a_program_prints_cannot_harm_the_terminal(server: Server, here: Path) -> None:
    line = refusal(server, here, "--command", r"printf 'a\033[2Jb\n'", "--out", "new")
    assert line.endswith("its last line: a [2Jb; nothing was trained")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--out", "space.toml"], "error: --out space.toml: it is a file; name a new folder"),
        (["--out", "full"], "error: --out full: the folder is not empty; name a new one"),
        (
            ["--resume", "full"],
            "error: --resume full: not the folder of a live search, settings.json is missing",
        ),
        (
            ["--resume", "nothing"],
            "error: --resume nothing: not the folder of a live search, settings.json is missing",
        ),
        (
            ["--scheduler", "ashe"],
            r"error: unknown scheduler 'ashe' \(did you mean 'asha'\?\); there are: .*",
        ),
        (["--nodes", "999"], "error: --nodes 999: this machine has .* ask for at most .*"),
        (
            ["--search-space", "bad.toml"],
            "error: bad.toml: line 3: .*",
        ),
    ],
)
def test_options_that_cannot_be(server: Server, here: Path, options: list[str], line: str) -> None:
    (here / "full").mkdir()
    (here / "full" / "thesis.tex").write_text("mine")
    (here / "bad.toml").write_text('[rate]\ntype = "real"\nlow = = 3\n')
    said = refusal(server, here, "--command", worker(), *options)
    assert re.fullmatch(line, said), said


def test_a_program_that_never_speaks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    settings = make_settings("sleep 600", start_timeout_s=0.3, grace_s=0.2)
    with pytest.raises(NothingRanError) as caught:
        search_here(folder, settings, resume=False, show=Says())
    assert str(caught.value) == (
        "'sleep 600': it did not begin to train within 0.3 s; nothing was trained"
    )
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written(server: Server, here: Path) -> None:
    with small_disk(here / "full", "ro"):
        for out, place in (("full", "full"), ("full/new", here / "full")):
            line = refusal(server, here, "--command", "true", "--out", out)
            assert line == f"error: --out {out}: nothing can be written in {place}"


def test_a_disk_that_is_full_before_it_begins(server: Server, here: Path) -> None:
    with small_disk(here / "small", "size=8k"):
        (here / "small" / "ballast").write_bytes(b"x" * 8192)
        line = refusal(server, here, "--command", "true", "--out", "small/run")
    assert line == "error: --out small/run: nothing can be written: No space left on device"


def test_more_open_files_than_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[Any] = [(256, 4096)]
    monkeypatch.setattr(search.resource, "getrlimit", lambda which: allowed[-1])
    monkeypatch.setattr(search.resource, "setrlimit", lambda which, both: allowed.append(both))
    with pytest.raises(LiveError, match=r"--nodes 1000: .* 6,256 open files, .* allows 4,096"):
        search._allow_open_files(1000)
    search._allow_open_files(64)
    assert allowed[1:] == [(640, 4096)]
    search._allow_open_files(63)
    assert len(allowed) == 2
