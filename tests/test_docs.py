"""Every command in README and docs is run, and what it prints is what they say.

In a block marked `console`, a line that starts with "$ " is a command (a backslash goes on
to the next line), what follows is its output; a line "…" stands for any lines, and "…" within
a line for anything. Blocks of one page run in one empty folder, top to bottom. In a block
marked `python`, lines with >>> are run by doctest.

    UPDATE_DOCS=1 pytest tests/test_docs.py     writes the true output into the pages
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"),
                *ROOT.glob("traces/data/README.md")])  # fmt: skip
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_BY_CI_ITSELF = ("./dev test", "./dev check", "./dev long")
SET_UP = ("git clone", "cd ", "pip install", "python3 -m venv")
DECIDES = ("CI", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS")
"""Variables by which whoever runs the tests would decide what commands print."""
NEEDS_TORCH = ("simsched live", "simsched record", "simsched train")


def split(block: str) -> list[tuple[str, str]]:
    """Return the commands of a block, each with its output."""
    found: list[tuple[str, str]] = []
    lines = iter(block.splitlines(keepends=True))
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\\n"):
                command += next(lines)
            if heredoc := re.search(r"<<'(\w+)'", command):
                while not command.endswith(f"\n{heredoc[1]}\n"):
                    command += next(lines)
            found.append((command.rstrip("\n"), ""))
        else:
            assert found, f"output without a command: {line!r}"
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def matches(said: str, printed: str) -> bool:
    """Whether the output is as said, "…" standing for anything."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "…\n" else ".*?".join(map(re.escape, line.split("…")))
        for line in said.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


def run(command: str, folder: Path) -> str:
    """Run a command in `folder` with the installed simsched first on the path."""
    # In an environment that ./dev did not set up it would install over what is under test.
    set_up = (ROOT / ".venv" / ".all").exists()
    command = command.replace("./dev ", f"{ROOT}/dev " if set_up else "simsched ")
    bin_folder = Path(sys.executable).parent
    clean = {name: text for name, text in os.environ.items() if name not in DECIDES}
    environment = {**clean, "PATH": f"{bin_folder}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800, check=False,
    )  # fmt: skip
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    if any(command in text for command in NEEDS_TORCH):
        pytest.importorskip("torch")
    new = text
    for block in BLOCK.findall(text):
        shown = []
        for command, said in split(block):
            if command.startswith(RUN_BY_CI_ITSELF + SET_UP):
                assert not said, f"{command} is not run here, so it must not show output"
                shown.append(f"$ {command}\n")
                continue
            printed = run(command, tmp_path)
            shown.append(f"$ {command}\n{said if matches(said, printed) else printed}")
            if not os.environ.get("UPDATE_DOCS"):
                assert matches(said, printed), f"{command}\nsaid:\n{said}\nprinted:\n{printed}"
        new = new.replace(block, "".join(shown))
    if new != text:
        page.write_text(new)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    source = "\n".join(block for block in blocks if ">>>" in block)
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner(optionflags=options).run(test)
    assert result.failed == 0


def test_every_image_and_link_to_a_file_exists() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert missing == []


def test_the_harness_sees_a_difference() -> None:
    assert matches("a … c\n…\nz\n", "a b c\nd\ne\nz\n")
    assert not matches("a … c\n", "a b d\n")
    assert not matches("", "something\n")
