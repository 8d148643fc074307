"""Fixtures of tests of what runs for real."""

import pytest


@pytest.fixture
def one_thread() -> None:
    """On a busy machine the threads of one operation wait for each other."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
