"""Whether coordinator, ledger and shelf agree with the model of a run, and with each other."""

from simsched.control import Control
from simsched.coordinator import Coordinator
from simsched.events import Event
from simsched.failures import DEADLINE
from simsched.ledger import Ledger
from simsched.messages import TrialId
from simsched.testing.invariants import Books, Violation
from simsched.timeline import Timeline

State = tuple[object, ...]


def check(control: Control, books: Books) -> None:
    """Compare after an event. Raises Violation."""
    coordinator = control.coordinator
    check_trials(coordinator, books)
    check_nodes(coordinator, books)
    check_ledger(control.ledger, books)
    if coordinator.shelf.durable != books.durable:
        raise Violation(f"durable: {coordinator.shelf.durable ^ books.durable} should not differ")


def check_trials(coordinator: Coordinator, books: Books) -> None:
    """Each trial is in exactly one state, and in the same one for everybody."""
    on: dict[TrialId, int] = {}
    for node, slot in coordinator.slots.items():
        if slot.trial in on:
            raise Violation(f"trial {slot.trial} is on nodes {on[slot.trial]} and {node}")
        on[slot.trial] = node
        if (books.lives[slot.trial].phase == "over") != slot.last:
            raise Violation(f"trial {slot.trial} on node {node}: {books.lives[slot.trial]}")
    down = coordinator._down
    if on != coordinator._node_of:
        raise Violation(f"trials are on nodes {on}, but are sought on {coordinator._node_of}")
    if not down.keys().isdisjoint(on):
        raise Violation(f"trials {down.keys() & on.keys()} are on a node and wait for one")
    if ready := set(coordinator._ready) - set(down):
        raise Violation(f"ready {ready}, but down are {sorted(down)}")
    for trial, life in books.lives.items():
        if (life.phase == "over") == (trial in coordinator.members):
            raise Violation(f"trial {trial} is {life.phase}, but is not for the coordinator")
        somewhere = trial in on or trial in down
        if life.phase == "running" and not somewhere:
            raise Violation(f"trial {trial} is running, but nowhere")
        if life.phase == "over" and trial in down:
            raise Violation(f"trial {trial} is over, and waits for a node")
    if coordinator.failures != books.failures:
        raise Violation(f"{coordinator.failures} failures are counted, not {books.failures}")
    for trial in coordinator.members.keys() - books.lives.keys():
        if trial not in down or down[trial].waiting is None:
            raise Violation(f"the coordinator knows trial {trial}, which never began")
    if coordinator.scheduler.done() and any(not slot.last for slot in down.values()):
        raise Violation("the scheduler is done, but trials wait for a node")


def check_nodes(coordinator: Coordinator, books: Books) -> None:
    """Each node in service is idle, busy or leaving; no other one is anything."""
    idle, busy, nodes = set(coordinator._idle), set(coordinator.slots), coordinator.nodes
    if nodes != books.serving:
        raise Violation(f"in service are {nodes}, not {books.serving}")
    if idle & busy:
        raise Violation(f"idle {idle}, busy {busy}")
    if not idle <= nodes or not busy <= nodes:
        raise Violation(f"idle {idle}, busy {busy}, but in service {nodes}")
    if coordinator._leaving != books.leaving:
        raise Violation(f"leaving are {coordinator._leaving}, not {books.leaving}")
    if idle & books.leaving or nodes - idle - busy - books.leaving:
        raise Violation(f"idle {idle}, busy {busy}, leaving {books.leaving} of {nodes}")
    for node, here in books.on.items():
        slot = coordinator.slots.get(node)
        if slot is None or (slot.trial, slot.attempt) != (here.trial, here.attempt):
            raise Violation(f"on node {node} is {here}, not {slot}")
        if slot.waiting is None and slot.empty:
            raise Violation(f"nobody works on node {node}: {slot}")


def check_ledger(ledger: Ledger, books: Books) -> None:
    """Node time adds up to time in service; the books say the same of every trial."""
    booked = sum(ledger.node_us.values())
    for node, (_, since, trial, _, _) in ledger._open.items():
        booked += books.at - since
        here = books.on.get(node)
        if trial != (-1 if here is None else here.trial):
            raise Violation(f"node {node} is booked on trial {trial}, but there is {here}")
    service = sum(books.at - since for since in books.nodes.values())
    if booked != service:
        raise Violation(f"{booked} µs of nodes are booked, {service} have passed")
    if (ledger.milestones, ledger.failures) != (books.milestones, books.failed):
        raise Violation(
            f"{ledger.milestones} milestones and {ledger.failures} failures are booked, "
            f"not {books.milestones} and {books.failed}"
        )
    for trial, record in ledger.trials.items():
        if (record.fate is None) == (books.lives[trial].phase == "over"):
            raise Violation(f"trial {trial}: {books.lives[trial].phase}, booked {record.fate}")


def fingerprint(control: Control) -> State:
    """Return all that a message of an older attempt must not change."""
    coordinator, ledger = control.coordinator, control.ledger
    return (
        repr(coordinator.slots), repr(coordinator._down), list(coordinator._ready),
        sorted(coordinator._idle), repr(coordinator.members), coordinator.shelf.durable,
        coordinator.failures, repr(coordinator.scheduler.snapshot()),
        ledger.milestones, ledger.failures, len(ledger.intervals), repr(ledger._open),
    )  # fmt: skip


def check_silent(control: Control, event: Event) -> None:
    """Feed a message of an older attempt: nobody answers, and nothing changes."""
    before = fingerprint(control)
    commands = control.feed(event)
    answered = commands or control.coordinator.decision or control.coordinator.abandoned
    if answered or fingerprint(control) != before:
        raise Violation(f"{event} is of an older attempt, and is answered or changes something")


def check_end(control: Control, books: Books, timers: set[str]) -> Timeline:
    """At the end nothing is running, paused or leaked. Returns the timeline."""
    coordinator, ledger = control.coordinator, control.ledger
    left = [trial for trial, life in books.lives.items() if life.phase != "over"]
    if left or coordinator.members or coordinator._down or books.on:
        raise Violation(f"the run is over, but trials {left} are not; on nodes: {books.on}")
    if left_over := {name for name in timers - {DEADLINE} if not name.startswith("save-")}:
        raise Violation(f"timers are left: {left_over}")
    fates = {trial for trial, record in ledger.trials.items() if record.fate == "lost"}
    if fates != books.lost:
        raise Violation(f"lost are {books.lost}, booked as lost {fates}")
    for trial, record in ledger.trials.items():
        steps = [milestone.step for milestone in record.curve]
        if steps != sorted(set(steps)) or len(steps) != record.milestones:
            raise Violation(f"trial {trial} has milestones {steps}")
    if coordinator._deletes:
        keep = books.best()
        if coordinator.policy.keep_stopped:
            newest = {life.newest for life in books.lives.values()}
            keep |= {each for each in books.durable if each in newest}
        if leaked := books.durable - keep:
            raise Violation(f"checkpoints are left that nobody needs: {leaked}")
    timeline = ledger.close(books.at)
    _check_timeline(timeline, books)
    return timeline


def _check_timeline(timeline: Timeline, books: Books) -> None:
    """Each node's intervals follow each other without gap or overlap, up to the end."""
    ends = dict(books.nodes)
    for interval in timeline.intervals:
        if interval.start_us != ends[interval.node]:
            raise Violation(f"{interval} does not begin where the one before ended")
        ends[interval.node] = interval.end_us
    if any(end != timeline.end_us for end in ends.values()):
        raise Violation(f"intervals end at {ends}, the run at {timeline.end_us}")
