"""Whatever a worker does, a search survives it, and its scheduler does not notice."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fast_checks import Naive, Past, check_end
from fast_runs import Coordinator, Server, make_settings, until, worker

from simsched.events import Failed, Reported, SetTimer, Start, TimerFired, Withdraw
from simsched.live.settings import LiveSettings
from simsched.messages import Checkpoint

PATIENCE_S = 20.0
"""With a worker that says nothing: more than any other needs on a busy machine."""
GARBAGE = {
    "garbage": r"it sent garbage \(b'\\x00\\xff no message'\) on its channel",
    "literal-nan": r"it sent garbage \(b'.*NaN.*'\) on its channel",
    "second-hello": "it sent a second hello on its channel",
    "saves-unasked": "it sent 'saved' while training on its channel",
    "wrong-report": "it sent a report of 12345, when 20 was awaited, on its channel",
    "negative": "it sent 'beat' with counters that cannot be on its channel",
    "huge": r"it sent a row that cannot be \(\[9e\+300, 10+.*\) on its channel",
    "zero-row": r"it sent a row that cannot be \(\[0.0, 0, 0, 1.0\]\) on its channel",
    "backwards": r"it sent a row that goes back \(\[0.001, 1, 1, 1.0\] after .*\) on its channel",
    "same-episode": r"it sent a row that goes back \(\[99.0, 99, 4, .*\] after .*\) on its channel",
    "long-line": "it sent a line of more than 1,048,576 bytes on its channel",
    "flood": "it sent a flood of messages on its channel",
    "bad-state": r"it sent a state that cannot be \(Expected `int`.*steps`\) on its channel",
}
"""What a worker says that it may not, and what is made of it."""
ENDS = {
    "crash": "it ended with exit code 7; its last line: Segmentation fault",
    "fail": "CUDA error: an illegal memory access",
    "exit": "it ended with exit code 3; its last line: cannot find the data",
    "protocol": "it sent protocol 99, not 1, on its channel",
    "token": "it ended with exit code 0",
    "claim": "it said that it had saved, but there is no checkpoint",
    "link": ".*data: a checkpoint is made of files and folders alone",
    "crash-save": "it was killed by SIGKILL",
    "die-saved": "it was killed by SIGKILL",
}
"""How else a worker fails, and what is made of it."""
SILENCE = {
    "mute": "it did not begin to train within 20 s",
    "hang": "it said nothing within 20 s",
    "hang-save": "it said nothing within 20 s",
}
"""How a worker falls silent, and what is made of it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def trials_of(past: Past) -> dict[int, int]:
    """Return the trial of each attempt."""
    commands = [each for record in past.records for each in record.commands]
    return {each.attempt: each.trial for each in commands if isinstance(each, Start)}


def failures(past: Past) -> dict[int, list[str]]:
    """Return the reasons of failures by trial."""
    trials, found = trials_of(past), defaultdict(list)
    for event in past.events(Failed):
        found[trials[event.attempt]].append(event.reason)
    return dict(found)


def starts(past: Past, trial: int) -> list[Start]:
    """Return the starts of a trial."""
    commands = [each for record in past.records for each in record.commands]
    return [each for each in commands if isinstance(each, Start) and each.trial == trial]


class Case:
    """A search that is to be run in a test."""

    def __init__(self, server: Server, folder: Path, settings: LiveSettings) -> None:
        self.server, self.folder, self.settings = server, folder, settings

    def start(self, *, resume: bool = False) -> Coordinator:
        return self.server.start(self.folder, self.settings, self.settings.nodes, resume=resume)

    def run(self, *, resume: bool = False, sound: bool = True) -> Past:
        coordinator = self.start(resume=resume)
        assert coordinator.wait() == 0, coordinator.output
        return check_end(self.folder, self.settings, sound=sound)


@pytest.fixture
def case(server: Server, tmp_path: Path, marks: Path) -> Any:
    def make(*words: object, faults: Sequence[str] = (), **changes: Any) -> Case:
        settings = make_settings(
            worker(*words, faults=faults, marks=marks), **{"scheduler": "random", **changes}
        )
        return Case(server, tmp_path / "run", settings)

    return make


@pytest.mark.parametrize(
    ("kinds", "patience"),
    [
        ({**GARBAGE, **ENDS}, {}),
        (SILENCE, {"silent_after_s": PATIENCE_S, "start_timeout_s": PATIENCE_S}),
    ],
    ids=["at once", "silence"],
)
def test_a_worker_that_fails_is_started_again(
    case: Any, kinds: dict[str, str], patience: dict[str, float]
) -> None:
    """A search in which each trial fails once, in its own way; the scheduler does not notice."""
    faults = [f"{kind},trial={trial},step=14,times=1" for trial, kind in enumerate(kinds, 1)]
    search = case(
        faults=faults, workers=1 + len(kinds), nodes=4, heartbeat_s=0.1, **patience
    )  # fmt: skip
    past = search.run()
    found = failures(past)
    for trial, (kind, reason) in enumerate(kinds.items(), 1):
        (told,) = found.pop(trial)
        assert re.fullmatch(reason, told), kind
    assert found == {}
    assert past.courses == Naive(search.settings).courses()


def test_it_goes_on_from_its_newest_checkpoint(case: Any) -> None:
    past = case(faults=["crash,trial=1,step=25,times=1"], workers=2).run()
    (start,) = [start for start in starts(past, 1) if start.source is not None]
    assert start.source == Checkpoint(1, 20)
    assert (start.since, start.until, start.count) == (20, 30, 21)  # its row has the count 21
    assert start.redo_until == 24  # the last that it told
    (failed,) = past.events(Failed)
    assert failed.reached == 24
    assert past.ledger.node_us["redo"] > 0


def test_without_a_checkpoint_it_begins_anew_and_tells_nothing_twice(case: Any) -> None:
    search = case(
        faults=["crash,trial=1,step=25,times=1"], workers=2, checkpoints="scheduler"
    )  # fmt: skip
    past = search.run()
    first, again = starts(past, 1)
    assert (first.source, again.source) == (None, None)
    assert (again.since, again.until) == (20, 30)
    assert past.courses == Naive(search.settings).courses()


def test_retries_are_spent_and_waits_grow(case: Any) -> None:
    search = case(faults=["crash,trial=1,step=14"], workers=3, retries=3, backoff_s=0.05)
    coordinator = search.start()
    assert coordinator.wait() == 0
    past = check_end(search.folder, search.settings)
    assert past.courses[1].fate == "lost"
    assert "trial 1 is over: lost" in coordinator.output
    assert len(past.courses[1].milestones) == 1
    assert [len(reasons) for reasons in failures(past).values()] == [4]
    assert [past.courses[trial].fate for trial in (0, 2)] == ["finished"] * 2
    ends = [event.at for event in past.events(Failed)]
    fired = [event.at for event in past.events(TimerFired)]
    waits_us = [later - end for end, later in zip(ends, fired, strict=False)]
    commands = [each for record in past.records for each in record.commands]
    delays_us = [each.delay_us for each in commands if isinstance(each, SetTimer)]
    assert delays_us == [50_000, 100_000, 200_000]
    # How much longer than that it takes is up to the machine.
    for wait_us, delay_us in zip(waits_us, delays_us, strict=True):
        assert wait_us >= delay_us


def test_without_retries_the_first_failure_is_the_last(case: Any) -> None:
    past = case(faults=["crash,trial=1,step=14"], workers=3, retries=0).run()
    assert past.courses[1].fate == "lost"
    assert len(past.events(Failed)) == 1


def test_who_dies_while_its_checkpoint_is_taken_in_leaves_none(case: Any) -> None:
    past = case(faults=["die-saved,step=14"], workers=6, retries=0, nodes=2).run()
    assert {course.fate for course in past.courses.values()} == {"lost"}


@pytest.mark.parametrize(
    ("scheduler", "kind"), [("random", "null"), ("hypertrick", "nan"), ("pbt", "null")]
)
def test_nan_is_a_result(case: Any, scheduler: str, kind: str) -> None:
    past = case(faults=[f"{kind},trial=1,step=14"], workers=3, scheduler=scheduler).run()
    assert past.events(Failed) == []
    assert past.courses[1].milestones[1] == (20, None)
    diverged = [record for record in past.records if getattr(record.event, "score", 0) is None]
    assert diverged
    if scheduler != "pbt":  # there it goes on with another's weights
        assert past.courses[1].fate == "diverged"
        assert len(starts(past, 1)) == 1


def test_preemption_is_no_failure(case: Any) -> None:
    search = case(workers=8, scheduler="successive-halving", retries=0, nodes=2)
    past = search.run()
    assert past.ledger.preemptions > 4
    assert past.events(Failed) == []


def test_a_node_that_keeps_failing_is_taken_out_of_service(case: Any, marks: Path) -> None:
    """The other does not get ahead meanwhile: its worker stands still."""
    search = case(faults=["crash,node=1", "gate,node=0,step=4"], workers=6, nodes=2, retries=10)
    coordinator = search.start()
    until(lambda: "out of service" in coordinator.output or coordinator.is_over())
    (marks / "open").touch()
    assert coordinator.wait() == 0, coordinator.output
    past = check_end(search.folder, search.settings)
    assert "node 1 is out of service: workers keep failing on it" in coordinator.output
    commands = [each for record in past.records for each in record.commands]
    assert [each.node for each in commands if isinstance(each, Withdraw)] == [1]
    assert {event.node for event in past.events(Reported)} == {0}
    assert {course.fate for course in past.courses.values()} == {"finished"}
    assert len(past.events(Failed)) == 4


def test_where_no_node_is_left_the_search_can_go_on_later(case: Any, marks: Path) -> None:
    search = case(faults=["crash,times=9"], workers=4, retries=10, scheduler="asha")
    coordinator = search.start()
    assert coordinator.wait() == 2
    last = coordinator.output.splitlines()[-1]
    assert re.fullmatch(
        "error: no node is left in service: workers keep failing on all of them; the last: "
        r"trial \d: it ended with exit code 7; its last line: Segmentation fault", last,
    )  # fmt: skip
    for trial in range(4):  # it is mended
        for times in range(9):
            (marks / f"0-{trial}-{times}").touch()
    past = search.run(resume=True)
    assert {course.fate for course in past.courses.values()} <= {"finished", "stopped"}


def test_what_workers_leave_behind_is_ended(case: Any) -> None:
    """Children, daemons, those that do not listen; what they print cannot harm either."""
    faults = ["child,trial=0", "daemon,trial=1", "stubborn,trial=2", "print,trial=3"]
    faults = [f"{fault},step=14,times=1" for fault in faults]
    faults[2] = "stubborn,trial=2"
    search = case(faults=faults, workers=4, nodes=2, grace_s=0.5)
    past = search.run()  # it looks for processes, too
    assert past.events(Failed) == []
    log = (search.folder / "trials" / "0003" / "worker.log").read_text()
    assert "[cut: longer than 64 KiB]" in log
    assert all(char.isprintable() or char in "\n\t" for char in log)


@pytest.mark.parametrize("scheduler", ["successive-halving", "pbt", "asha"])
def test_a_damaged_checkpoint_is_noticed_and_the_training_done_again(
    case: Any, scheduler: str
) -> None:
    """The disk changes a checkpoint after it was saved."""
    search = case(
        faults=[f"corrupt,trial={trial},times=1" for trial in range(8)],
        workers=8, scheduler=scheduler, retries=10, nodes=1 + (scheduler != "asha"), seed=1,
    )  # fmt: skip
    past = search.run(sound=False)
    reasons = [event.reason for event in past.events(Failed)]
    noticed = [each for each in reasons if "it is not what was saved: its SHA-256 differs" in each]
    assert noticed
    # The worker notices if it changes after the check. The second to notice finds it deleted.
    others = ("JSONDecodeError", "manifest.json: cannot be read")
    assert all(each in noticed or any(other in each for other in others) for each in reasons)
    if scheduler == "successive-halving":
        assert past.courses == Naive(search.settings).courses()
