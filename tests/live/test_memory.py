"""A worker keeps the memory that its batches free."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

BATCHES = """
import resource, sys, threading
import numpy as np
from simsched.live.ga3c.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def batches(count):
    for _ in range(count):
        frames = np.zeros((160, 4, 84, 84), dtype=np.uint8)
        frames[:] = 1
        halves = [frames.astype(np.float32) for _ in range(2)]

if sys.argv[1] == "keep":
    assert keep_freed_memory()
batches(3)
before = faults()
batches(10)
def work():
    global of_a_thread
    batches(3)
    before = faults()
    batches(10)
    of_a_thread = faults() - before
own = faults() - before
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(own, of_a_thread)
"""


def faults(how: str, folder: Path) -> tuple[int, int]:
    """Page faults of ten batches of some 40 MB, in the main thread and in another."""
    script = folder / "batches.py"
    script.write_text(BATCHES)
    words = [sys.executable, str(script), how]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    own, of_a_thread = map(int, done.stdout.split())
    return own, of_a_thread


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_not_mapped_anew_for_each_batch(tmp_path: Path) -> None:
    kept, of_a_thread = faults("keep", tmp_path)
    given_back, _ = faults("as it is", tmp_path)
    assert max(kept, of_a_thread) < 100
    assert given_back > 1000  # that is what there is to save
