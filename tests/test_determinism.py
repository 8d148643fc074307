"""The same seed gives the same bytes: twice, in other processes, on one core or two."""

import os
import subprocess
import sys
from pathlib import Path

from worlds import ALL, traces

from simsched import simulate
from simsched.results import results_json
from simsched.traces import write

OPTIONS = {
    "nodes": (3, 5), "workers": 12, "schedulers": ALL, "phases": 5,
    "save_s": 0.3, "load_s": 0.2, "replications": 3, "seed": 11,
}  # fmt: skip

SCRIPT = """
import os, sys
from simsched import simulate
from simsched.results import results_json
from test_determinism import OPTIONS
if __name__ == "__main__":
    os.sched_setaffinity(0, map(int, sys.argv[3].split(",")))
    sys.stdout.buffer.write(results_json(simulate(sys.argv[1], jobs=int(sys.argv[2]), **OPTIONS)))
"""


def test_same_bytes_in_one_process() -> None:
    recorded = traces(14, 30, ends=("complete", "complete", "diverged"))
    first = results_json(simulate(recorded, **OPTIONS))
    assert results_json(simulate(recorded, **OPTIONS)) == first
    other = results_json(simulate(recorded, **OPTIONS | {"seed": 12}))
    assert other != first


def test_same_bytes_in_two_processes_with_one_and_two_cores(tmp_path: Path) -> None:
    file = tmp_path / "curves.parquet"
    write(traces(14, 30, ends=("complete", "complete", "diverged")), file)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    outputs = []
    cores = sorted(os.sched_getaffinity(0))
    for jobs, hash_seed, usable in ((1, "1", cores[:1]), (2, "2", cores)):
        done = subprocess.run(
            [sys.executable, script, file, str(jobs), ",".join(map(str, usable))],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": str(Path(__file__).parent),
            },
            stdout=subprocess.PIPE,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0] == results_json(simulate(str(file), **OPTIONS))


def test_schedulers_in_a_comparison_see_the_same_trials() -> None:
    runs = simulate(traces(20, 30), workers=9, schedulers=ALL, replications=3, phases=4).runs
    for replication in range(3):
        seen = {
            tuple(trial.trace for trial in run.trials)
            for run in runs
            if run.replication == replication
        }
        assert len(seen) == 1
    first = [trial.trace for trial in runs[0].trials]
    assert first == list(range(9)), "replication 0 takes them in the order of the file"
    assert [trial.trace for trial in runs[1].trials] != first
