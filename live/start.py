"""Starting a program on a node: on its cores, with its GPU, one pipe for all it prints."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from simsched.live.errors import LiveError
from simsched.live.nodes import Node, ranges

THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def start(
    argv: Sequence[str], node: Node, environment: Mapping[str, str], folder: Path | None
) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a program as the leader of a new session, on the cores of a node.

    Args:
        argv: the program and its arguments; no shell reads them.
        node: whose cores it is kept on, with all it starts.
        environment: all of its environment.
        folder: its working folder; None is this process's.

    Returns the process, and the end of the pipe that has its standard output and error.

    Raises:
        LiveError: it cannot be started.
    """
    try:
        output, its_end = os.pipe()
    except OSError as error:
        raise LiveError(f"{argv[0]}: cannot be started: {error.strerror}") from None
    try:
        with _on_cores(node):
            process = subprocess.Popen(  # noqa: S603 - the user's own program, no shell
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=its_end,
                stderr=its_end,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
    except (OSError, ValueError, LiveError) as error:
        os.close(output)
        if isinstance(error, LiveError):
            raise
        # ValueError: a null byte, which no operating system takes.
        reason = error.strerror if isinstance(error, OSError) else error
        place = f" in {folder}" if folder is not None and not folder.is_dir() else ""
        raise LiveError(f"{argv[0]}: cannot be started{place}: {reason}") from None
    finally:
        os.close(its_end)
    return process, output


@contextmanager
def _on_cores(node: Node) -> Iterator[None]:
    """Keep this thread, and what it starts, on a node's cores for a while."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, node.cores)
    except OSError as error:
        raise LiveError(
            f"{node.name}: cores {ranges(node.cores)} cannot be used: {error.strerror}"
        ) from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment_of(node: Node) -> dict[str, str]:
    """Return what a node's worker has in its environment: thread counts, and its GPU.

    On a node of cores CUDA_VISIBLE_DEVICES is empty: a GPU that is there but not the node's, such
    as one that was hidden from the search, is not the worker's either.
    """
    threads = dict.fromkeys(THREAD_COUNTS, str(len(node.cores)))
    return {**threads, "CUDA_VISIBLE_DEVICES": node.gpu_uuid or ""}
