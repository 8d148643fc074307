"""A million rows are read and checked in a few seconds (measured on two shared cores)."""

import json
import time

import numpy as np
import pytest
from trace_files import SUFFIXES, make_set, make_trace

from simsched.traces import TraceError, read, write

TRIALS, ROWS = 2000, 500


@pytest.fixture(scope="module")
def million():
    count = np.arange(1, ROWS + 1)
    score = np.sin(count)
    return make_set(
        *(
            make_trace(
                trial,
                hparams={"lr": 1 / (trial + 1)},
                seconds=count * 0.7,
                steps=count * 90,
                episodes=count,
                score=score,
            )
            for trial in range(TRIALS)
        )
    )


def yardstick_s() -> float:
    """Processor time of parsing a million rows of JSON and nothing else: 1.5 s there.

    It is as slow as all else on a machine that is slow, or busy just now.
    """
    line = '{"trial": 17, "seconds": 24.5, "steps": 3150, "episodes": 35, "score": -0.42818267}'
    start_s = time.process_time()
    for _ in range(TRIALS * ROWS // 4):
        json.loads(line)
    return 4 * (time.process_time() - start_s)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_million_rows(tmp_path, million, suffix):
    path = tmp_path / f"runs{suffix}"
    write(million, path)
    start_s = time.process_time()
    back = read(path)
    assert time.process_time() - start_s < 6 * yardstick_s()
    assert back.rows == TRIALS * ROWS
    np.testing.assert_array_equal(back.traces[-1].score, million.traces[-1].score)


def test_a_fault_in_the_last_of_a_million_rows(tmp_path, million):
    path = tmp_path / "runs.csv"
    write(million, path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b"350,", b"oops,", 1)
    path.write_bytes(b"".join(lines))
    start_s = time.process_time()
    with pytest.raises(TraceError, match=r"line 1000002: seconds is 'oops'; it must be a number"):
        read(path)
    assert time.process_time() - start_s < 6 * yardstick_s()
