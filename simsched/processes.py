"""Jobs side by side in processes of their own, ended at once when something goes wrong.

The pools of the standard library may hang, or print tracebacks, when they are broken off
while they work (Ctrl-C, a process killed for want of memory); a pipe to each process does not.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

from simsched.errors import SimschedError

Job = TypeVar("Job")
Result = TypeVar("Result")
Setup = TypeVar("Setup")
Pipe: TypeAlias = "Connection[Any, Any]"

_HELD_BACK = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def side_by_side(
    prepare: Callable[[Setup], Callable[[Job], Result]],
    setup: Setup,
    jobs: Sequence[Job],
    count: int,
) -> Iterator[Result]:
    """Yield the results of `jobs` in their order.

    Args:
        prepare: called with `setup`, once in each process; what it returns does a job.
            It must be importable, as all that is sent must be picklable.
        setup: for `prepare`.
        jobs: what to do.
        count: the number of processes.

    Raises:
        ValueError, OSError: what a job raised.
        SimschedError: a process ended before its job was done.
    """
    workers: dict[Pipe, BaseProcess] = {}
    places: dict[Pipe, int] = {}
    done: dict[int, Result] = {}
    left = iter(enumerate(jobs))
    try:
        for _ in range(min(count, len(jobs))):
            ours = _start(workers)
            with _blaming(workers[ours]):
                ours.send((prepare, setup))
            _hand_out(ours, workers[ours], left, places)
        for place in range(len(jobs)):
            while place not in done:
                ready = wait(list(places))
                for ours in [each for each in places if each in ready]:
                    done[places.pop(ours)] = _received(ours, workers[ours])
                    _hand_out(ours, workers[ours], left, places)
            yield done.pop(place)
    finally:
        for ours, process in workers.items():
            process.kill()
            process.join()
            ours.close()


def _start(workers: dict[Pipe, BaseProcess]) -> Pipe:
    """Start a process. It is born with signals held back: they are for its parent alone."""
    resource_tracker.ensure_running()  # else it is started below, and takes the mask away
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        workers[ours] = process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return ours


def _hand_out(
    ours: Pipe, process: BaseProcess, left: Iterator[tuple[int, Any]], places: dict[Pipe, int]
) -> None:
    for place, job in left:
        with _blaming(process):
            ours.send(job)
        places[ours] = place
        return


def _received(ours: Pipe, process: BaseProcess) -> Any:
    with _blaming(process):
        result = ours.recv()
    if isinstance(result, ValueError | OSError):
        raise result
    return result


@contextmanager
def _blaming(process: BaseProcess) -> Iterator[None]:
    """Say which process ended when its pipe is found broken."""
    try:
        yield
    except (EOFError, ConnectionError):
        process.join()
        hint = (
            "it was killed; if memory was short, fewer jobs need less"
            if process.exitcode == -signal.SIGKILL
            else 'a script that asks for jobs must do so under `if __name__ == "__main__":`'
        )
        raise SimschedError(
            f"process {process.pid} ended (exit code {process.exitcode}) before its run was "
            f"simulated; {hint}"
        ) from None


def _serve(theirs: Pipe) -> None:
    """Be a process: do the jobs that come, until the other end is closed."""
    try:
        prepare, setup = theirs.recv()
        work = prepare(setup)
        while True:
            job = theirs.recv()
            try:
                theirs.send(work(job))
            except (ValueError, OSError) as error:
                theirs.send(error)
    except (EOFError, ConnectionError):
        return
