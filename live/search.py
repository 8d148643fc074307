"""A live search from its settings to its results; every death of it can be survived."""

import asyncio
import fcntl
import resource
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.journal import Header, Journal, read_journal
from simsched.ledger import Ledger
from simsched.live.completion import completing
from simsched.live.errors import LiveError, NothingRanError
from simsched.live.feed import How
from simsched.live.launch import adopt_orphans
from simsched.live.logs import RunLog
from simsched.live.nodes import Node
from simsched.live.outcome import Outcome, finish
from simsched.live.parts import write_atomically
from simsched.live.process_groups import kill_run
from simsched.live.rehearsal import SAVE_S
from simsched.live.settings import LiveSettings, code_digest
from simsched.live.status import Status
from simsched.live.storage import sync_folder
from simsched.live.watch import ALIVE, Watch
from simsched.live.workshop import ATTEMPTS, Workshop
from simsched.live.world import World, socket_folder
from simsched.messages import Hparams
from simsched.recovery import replay
from simsched.retries import Policy
from simsched.schedulers import Scheduler, build, configuration
from simsched.searchers import Given, RandomSearcher

SETTINGS = "settings.json"
JOURNAL = "journal.jsonl"
COMPLETION = "completion.jsonl"
LOCK_PATIENCE_S, LOCK_POLL_S = 3.0, 0.05
HEADER = b'{"record":"header",'
"""How a journal begins."""
OPEN_FILES, OPEN_FILES_OF_A_NODE = 256, 6
"""Logs, libraries and the like; a worker's channel, output, process and curve."""


class Show(Protocol):
    """Where people look while a search runs."""

    def update(self, status: Status) -> None:
        """Draw the search as it is."""
        ...

    def line(self, text: str) -> None:
        """Tell something."""
        ...


def configurations(settings: LiveSettings) -> list[Hparams]:
    """Return the configuration of every trial: those given first, then draws."""
    searcher = RandomSearcher(settings.search_space, settings.seed)
    return [
        settings.first[trial] if trial < len(settings.first) else configuration(searcher, trial)
        for trial in range(settings.workers)
    ]


def make_scheduler(settings: LiveSettings) -> Scheduler:
    """Return the search's scheduler, in its first state."""
    searcher = Given(configurations(settings), settings.search_space, settings.seed)
    return build(settings.scheduler, settings.plan, searcher)


def policy_of(settings: LiveSettings) -> Policy:
    """Return how the coordinator treats failures, checkpoints and time."""
    limit = settings.max_time_s
    saving = settings.saving
    # What a program takes to save is not known before; GA3C was measured.
    save_s = SAVE_S if settings.command is None else 0.0
    return Policy(
        save_at=saving.save_at,
        save_every_us=saving.interval_us(save_s, None),
        lazy=settings.preemption == "lazy",
        retries=settings.retries,
        backoff_us=round(settings.backoff_s * 1e6),
        max_time_us=None if limit is None else round(limit * 1e6),
        delete=True,
        keep_stopped=settings.complete,
    )


def run_search(
    settings: LiveSettings, nodes: Sequence[Node], folder: Path, *, resume: bool, show: Show
) -> Outcome:
    """Run a search on these nodes, or go on with one.

    Args:
        settings: of the search; when resuming, those in its folder.
        nodes: to run on, numbered from 0.
        folder: the run's; it exists, and is empty unless resuming.
        resume: whether to go on with what is in the folder.
        show: is told how it gets on.

    Returns what came of it.

    Raises:
        LiveError: it cannot be run, or not go on; what was done stays, and can be resumed.
    """
    with ExitStack() as stack:
        _allow_open_files(len(nodes))
        stack.enter_context(_locked(folder))
        if not resume:
            stack.enter_context(_nothing_left_of_nothing(folder))
        search = _Search(settings, folder, stack, resume=resume)
        log = stack.enter_context(RunLog(folder))
        workshop = Workshop(folder, settings, search.run, log, show.line)
        stack.callback(workshop.close)
        control = search.control(JOURNAL, _first(settings))
        coordinator = control.coordinator

        def sweep() -> None:
            if not _has_a_line(folder / COMPLETION):
                workshop.store.sweep(frozenset(coordinator.shelf.durable))

        sweep()
        watch = Watch(folder, settings, configurations(settings), nodes, show.update)
        stack.callback(watch.close)
        adopt_orphans()

        def run(control: Control, *, recovered: bool) -> tuple[World, How]:
            clock_us = search.clock_us
            world = World(settings, control, nodes, workshop, clock_us=clock_us, tick=watch)
            if recovered and control.coordinator.finished:
                return world, "done"
            how = asyncio.run(world.run(recovered=recovered))
            search.clock_us = world.now_us()
            watch.last(world, done=how == "done")
            return world, how

        world, how = run(control, recovered=search.recovered)
        sweep()  # a worker that died last may have left a checkpoint that nobody waited for
        completed: Ledger | None = None
        if how == "done" and settings.complete:
            policy = msgspec.structs.replace(policy_of(settings), delete=False, max_time_us=None)
            rest = completing(coordinator, control.ledger, settings.plan, policy)
            if not rest.finished:
                show.line("the search is over; training on what it stopped")
                second = search.control(COMPLETION, rest)
                workshop.store.sweep(frozenset(coordinator.shelf.durable | rest.shelf.durable))
                _, how = run(second, recovered=search.recovered)
                completed = second.ledger
                if how == "done":
                    best = (*coordinator.shelf.best(), *rest.shelf.best())
                    workshop.store.sweep(frozenset(checkpoint for _, _, checkpoint in best))
        return finish(world, how, folder, show, completed)


def _first(settings: LiveSettings) -> Coordinator:
    return Coordinator(make_scheduler(settings), policy_of(settings))


class _Search:
    """The journals of a run's folder, and its clock."""

    def __init__(
        self, settings: LiveSettings, folder: Path, stack: ExitStack, *, resume: bool
    ) -> None:
        self.settings, self.folder, self.stack = settings, folder, stack
        self.run = uuid.uuid4().hex
        self.clock_us = 0
        self.recovered = False
        """Whether the newest control was read from a journal."""
        if resume and (_has_a_line(folder / JOURNAL) or (folder / ATTEMPTS).exists()):
            header = next(read_journal(folder / JOURNAL))
            assert isinstance(header, Header)  # noqa: S101 - read_journal has seen to it
            self.run = _same_search(header, settings, folder / JOURNAL)
            kill_run(self.run)
            shutil.rmtree(socket_folder(self.run), ignore_errors=True)
        else:  # new, or its coordinator died before it had begun
            write_atomically(folder / SETTINGS, _pretty(settings))

    def control(self, name: str, coordinator: Coordinator) -> Control:
        """Return the control plane of a journal, brought to its end if there is one."""
        path = self.folder / name
        ledger = Ledger(self.settings.plan.maximum)
        self.recovered = _has_a_line(path)
        if self.recovered:
            _, at_us, tail = replay(path, coordinator, ledger)
            file = self.stack.enter_context(_opened(path, "r+b"))
            journal = Journal.reopen(file, tail)
            self.clock_us = max(self.clock_us, at_us, _alive_at(self.folder))
        else:
            file = self.stack.enter_context(_opened(path, "wb"))
            about = {"run": self.run, "settings": msgspec.to_builtins(self.settings)}
            journal = Journal(file, about, self.settings.plan.maximum)
            journal.sync()
            sync_folder(self.folder)
        return Control(coordinator, ledger, journal)


@contextmanager
def _opened(path: Path, mode: Literal["r+b", "wb"]) -> Iterator[BinaryIO]:
    """Open a journal; where an error ends the search, it is that which is told, and no other."""
    file = path.open(mode)
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.close()


def _has_a_line(journal: Path) -> bool:
    """Whether there is more of a journal than a part of its first line: before, nothing is done."""
    try:
        with journal.open("rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return False
    is_part = line.startswith(HEADER) or HEADER.startswith(line)
    return line.endswith(b"\n") or not is_part


def _allow_open_files(nodes: int) -> None:
    """Have the system allow as many open files as so many nodes take. Raises LiveError."""
    needed = OPEN_FILES + OPEN_FILES_OF_A_NODE * nodes
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return
    if most != resource.RLIM_INFINITY and most < needed:
        raise LiveError(
            f"--nodes {nodes}: they take {needed:,} open files, and the system allows {most:,} "
            "(ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


@contextmanager
def _nothing_left_of_nothing(folder: Path) -> Iterator[None]:
    """Empty the folder of a search of which no worker ever spoke."""
    try:
        yield
    except NothingRanError:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a run's folder; LiveError if another coordinator holds it.

    One that was killed while it started a worker holds it until that is a program of its own, and
    can be recognized as the run's.
    """
    deadline_s = time.monotonic() + LOCK_PATIENCE_S
    with (folder / "lock").open("ab") as lock:
        while not _lock(lock):
            if time.monotonic() > deadline_s:
                raise LiveError(f"{folder}: another simsched live runs this search")
            time.sleep(LOCK_POLL_S)
        yield


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_settings(folder: Path) -> LiveSettings:
    """Return the settings of a run's folder.

    Raises:
        LiveError: it is no folder of a live search.
    """
    path = folder / SETTINGS
    try:
        return msgspec.json.decode(path.read_bytes(), type=LiveSettings)
    except OSError as error:
        raise LiveError(f"{path}: {error.strerror}; name the folder of a live search") from None
    except msgspec.DecodeError as error:
        raise LiveError(f"{path}: these are no settings of a live search: {error}") from None


def _same_search(header: Header, settings: LiveSettings, path: Path) -> str:
    """Return the run's id. Raises LiveError where the journal is of another search or code."""
    recorded = header.run.get("settings", {})
    given = msgspec.to_builtins(settings)
    for name in sorted({*recorded, *given}):
        if recorded.get(name) != given.get(name):
            raise LiveError(
                f"{path}: the search was begun with {name}={recorded.get(name)!r}, "
                f"and {SETTINGS} says {given.get(name)!r}; put it back to resume"
            )
    if settings.code != code_digest():
        raise LiveError(
            f"{path}: the search was begun by other code (version {settings.version}, "
            f"digest {settings.code}; this is {code_digest()}); resume it with that"
        )
    run: str = header.run["run"]
    if not run.isalnum():  # it becomes part of a path
        raise LiveError(f"{path}: line 1: {run!r} is no run's id")
    return run


def _alive_at(folder: Path) -> int:
    """Return when the last coordinator was last seen alive, in the run's µs."""
    try:
        told: dict[str, Any] = msgspec.json.decode((folder / ALIVE).read_bytes())
        return int(told["at_us"])
    except (OSError, msgspec.DecodeError, KeyError, ValueError):
        return 0  # it never got so far; the journal's last event stands


def _pretty(settings: LiveSettings) -> bytes:
    return msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n"
