"""Mutation testing of schedulers and coordinator, in a folder of its own.

    python3 -m venv mutation/venv
    mutation/venv/bin/pip install mutmut==3.8.1 hypothesis pytest .
    mutation/venv/bin/python benchmarks/mutation.py mutation/work

mutmut makes the mutants: all of them lie in the copy of a module, and a function of it calls the
one that is chosen. Its own runner collects the tests anew for each mutant, which takes longer here
than they do; so they are collected once, each is run once to see which functions it reaches and
how long it takes, and then every mutant gets a process that is forked off and runs the tests that
reach its function until one fails. A mutant that takes far longer counts as caught.

Printed are the score of each file and every mutant that survived, as a difference. A second run
in the same folder leaves out those that were caught.
"""

import argparse
import ast
import bisect
import difflib
import itertools
import json
import os
import random
import resource
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent
MODULES = (
    "coordinator.py", "slots.py", "failures.py", "shelf.py", "retries.py", "waiting.py",
    "schedulers/*.py",
)  # fmt: skip
TESTS = (
    "test_brackets.py", "test_coordinator.py", "test_hypertrick_paper.py", "test_pbt_turns.py",
    "test_failures.py", "test_against_naive.py", "testing/test_contract.py",
    "testing/test_planted_gaps.py", "testing/test_planted_settings.py",
    "testing/test_planted_world.py", "testing/test_survivors_coordinator.py",
    "testing/test_survivors_failures.py", "testing/test_survivors_schedulers.py",
    "testing/test_swarm_found.py", "test_quantile.py", "test_waiting.py",
    "testing/test_some_swarm.py",
)  # fmt: skip
SELECTED = "not simulation and not Three and not More"
"""Enough of them: whole simulations and second settings take long and catch no more."""
SWARM = """
import pytest
from simsched.testing.swarm_run import run_seed

@pytest.mark.parametrize("first", range(0, 300, 10))
def test_seeds_of_the_swarm(first):
    for seed in range(first, first + 10):
        assert run_seed(seed).violation is None
"""
WRAPPER = """
def _mutmut_mutated(mutants):
    def decorate(function):
        def call(*args, **kwargs):
            return mutants["_mutmut_orig"](*args, **kwargs)
        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call
    return decorate
MutantDict = dict
"""
PATIENCE = 4.0
"""With a mutant a test may take so many times as long as without, and some seconds."""
CAUGHT = ("killed", "timeout", "crashed")


def lay_out(folder: Path) -> dict[str, str]:
    """Copy sources as they are imported, with their mutants, and tests; return name to module."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    for part in ("simsched", "tests"):
        shutil.rmtree(folder / part, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", "ga3c", ".mypy_cache")
    shutil.copytree(ROOT / "simsched", folder / "simsched", ignore=ignore)
    for part in ("traces", "analysis", "live"):
        shutil.copytree(ROOT / part, folder / "simsched" / part, ignore=ignore)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignore)
    (folder / "tests" / "testing" / "test_some_swarm.py").write_text(SWARM)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  long\n  torch\n  browser\n")
    (folder / "pyproject.toml").write_text('[tool.mutmut]\nsource_paths = ["simsched/"]\n')
    mutants: dict[str, str] = {}
    for pattern in MODULES:
        for path in sorted((folder / "simsched").glob(pattern)):
            made = mutate_file_contents(str(path), path.read_text())
            lines = [
                WRAPPER if line.startswith("from mutmut.mutation.trampoline import") else line
                for line in made.code.splitlines()
            ]
            path.write_text("\n".join(lines) + "\n")
            module = ".".join(path.relative_to(folder).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            mutants |= {f"{module}:{name}": str(path) for name in made.mutant_names}
    return mutants


def table_of(mutant: str) -> tuple[Any, str, dict[str, Callable[..., Any]]]:
    """Return the module of a mutant, its name there, and the table that says who is called."""
    module, _, name = mutant.partition(":")
    function = name.rpartition("__mutmut_")[0]
    table: dict[str, Callable[..., Any]] = getattr(
        sys.modules[module], f"mutants_{function}__mutmut"
    )
    return sys.modules[module], name, table


def difference(mutant: str, path: str) -> str:
    """Return what a mutant changes."""
    name = mutant.partition(":")[2]
    original = name.rpartition("__mutmut_")[0] + "__mutmut_orig"
    tree = ast.parse(Path(path).read_text())
    found = {
        node.name: ast.unparse(node).splitlines()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in (name, original)
    }
    lines = difflib.unified_diff(found[original], found[name], n=1, lineterm="")
    kept = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(line for line in kept if "def x" not in line)


class Hunt:
    """A pytest plugin that runs mutants instead of tests."""

    def __init__(
        self, folder: Path, mutants: dict[str, str], minutes: float, processes: int, seconds: float
    ) -> None:
        self.folder, self.mutants, self.processes = folder, mutants, processes
        self.seconds = seconds
        self.active: dict[int, tuple[str, int, list[Any]]] = {}
        """By process: its mutant, where it says which test caught it, its tests."""
        self.until_s = time.monotonic() + 60 * minutes
        self.reach: dict[int, list[Any]] = defaultdict(list)
        """By table: the tests that call its function."""
        self.took_s: dict[Any, float] = {}
        self.kills: Counter[Any] = Counter()
        """By test: how many mutants it caught; those that catch most are tried first."""
        self.results: dict[str, str] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        """Learn what the tests reach, then let the mutants loose."""
        tables = {id(table): table for _, _, table in map(table_of, self.mutants)}
        for test, reached in self.survey(session, tables):
            for table in reached:
                self.reach[table].append(test)
        print(f"\n{len(session.items)} tests take {sum(self.took_s.values()):.0f} s", flush=True)
        for number, mutant in enumerate(self.mutants, 1):
            while len(self.active) >= self.processes:
                self.wait_for_one()
            if time.monotonic() > self.until_s:
                break
            self.let_loose(session, mutant)
            if number % 50 == 0:
                print(f"\n{number} of {len(self.mutants)}: {Counter(self.results.values())}")
                self.keep()
        while self.active:
            self.wait_for_one()
        self.keep()
        return True

    def keep(self) -> None:
        """Write what was found, with what was known before."""
        path = self.folder / "results.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | self.results, indent=1))

    def survey(
        self, session: Any, tables: dict[int, dict[str, Callable[..., Any]]]
    ) -> Iterator[tuple[Any, set[int]]]:
        """Run each test once; yield it with the functions that it reached."""
        reached: set[int] = set()

        def noted(key: int, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                reached.add(key)
                return function(*args, **kwargs)

            return call

        before = {key: table["_mutmut_orig"] for key, table in tables.items()}
        for key, table in tables.items():
            table["_mutmut_orig"] = noted(key, table["_mutmut_orig"])
        for test in session.items:
            reached.clear()
            began_s = time.process_time()
            run(test)
            self.took_s[test] = time.process_time() - began_s
            if session.testsfailed:
                raise SystemExit(f"{test.nodeid} fails without a mutant")
            yield test, set(reached)
        for key, table in tables.items():
            table["_mutmut_orig"] = before[key]

    def let_loose(self, session: Any, mutant: str) -> None:
        """Begin to run the tests that reach a mutant, in a process of their own."""
        _, name, table = table_of(mutant)
        tests = sorted(
            self.reach[id(table)], key=lambda test: (-self.kills[test], self.took_s[test])
        )
        if not tests:
            self.results[mutant] = "no tests"
            return
        spent_s = list(itertools.accumulate(self.took_s[test] for test in tests))
        tests = tests[: bisect.bisect(spent_s, self.seconds) + 1]
        sys.stdout.flush()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            table["_mutmut_orig"] = table[name]
            self.be_the_mutant(session, tests, writing)
        os.close(writing)
        self.active[child] = mutant, reading, tests

    def wait_for_one(self) -> None:
        """Wait until the tests of a mutant are through, and note what became of it."""
        child, status = os.wait()
        mutant, reading, tests = self.active.pop(child)
        killer = os.read(reading, 8)
        os.close(reading)
        if os.WIFSIGNALED(status):
            state = "timeout" if os.WTERMSIG(status) in (9, 24) else "crashed"
        elif killer:
            state = "killed"
            self.kills[tests[int(killer)]] += 1
        else:
            state = "survived"
        self.results[mutant] = state

    def be_the_mutant(self, session: Any, tests: list[Any], writing: int) -> NoReturn:
        """Run tests until one fails, and say which."""
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        for place, test in enumerate(tests):
            limit_s = int(time.process_time() + PATIENCE * self.took_s[test] + 3)
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.RLIM_INFINITY))
            run(test)
            if session.testsfailed:
                os.write(writing, str(place).encode())
                break
        os._exit(0)


def run(test: Any) -> None:
    """Run one collected test as pytest does."""
    test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)


def report(results: dict[str, str], mutants: dict[str, str]) -> None:
    """Print survivors and scores."""
    by_module: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, state in results.items():
        by_module[mutant.partition(":")[0]][state] += 1
        if state not in CAUGHT:
            print(f"\n{mutant}: {state}\n{difference(mutant, mutants[mutant])}")
    total: Counter[str] = sum(by_module.values(), Counter())
    for module, counts in [*sorted(by_module.items()), ("all", total)]:
        tried, caught = counts.total(), sum(counts[state] for state in CAUGHT)
        print(f"{module:38} {caught:5} of {tried:5} caught, {100 * caught / max(1, tried):5.1f} %")


def main() -> None:
    """Lay out, run, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where to work")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int, default=1, help="side by side")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="of tests for each mutant, the best ones first"
    )
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after this time")
    parser.add_argument("--tests", default=SELECTED, help="tests to run, as in pytest's -k")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder := given.folder.resolve())
    mutants = lay_out(folder)
    known: dict[str, str] = {}
    if (folder / "results.json").exists():
        known = json.loads((folder / "results.json").read_text())
    names = sorted(mutants)
    random.Random(0).shuffle(names)  # what is tried in a limited time is a fair sample
    tried = [name for name in names if given.only in name and known.get(name) not in CAUGHT]
    chosen = {name: mutants[name] for name in tried}
    sys.path[:0] = [str(folder), str(folder / "tests"), str(folder / "tests" / "testing")]
    import hypothesis
    import pytest

    hypothesis.settings.register_profile("mutation", derandomize=True, database=None)
    hypothesis.settings.load_profile("mutation")
    hunt = Hunt(folder, chosen, given.minutes, given.processes, given.seconds)
    tests = [f"tests/{test}" for test in TESTS if (folder / "tests" / test).exists()]
    quiet = ["-p", "no:cacheprovider", "--show-capture=no", "--tb=short"]
    pytest.main(["-m", "not long", *quiet, "-k", given.tests, *tests], plugins=[hunt])
    known |= hunt.results
    report({name: state for name, state in known.items() if name in mutants}, mutants)


if __name__ == "__main__":
    main()
