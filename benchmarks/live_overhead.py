"""What the coordinator of a live search costs: time at each milestone, and processor time.

    python benchmarks/live_overhead.py --hand-over
    python benchmarks/live_overhead.py --processor 64
    python benchmarks/live_overhead.py --processor 1000 --phases 20

--hand-over has one or two workers that report some 50 milestones a second each, under a scheduler
that always says Continue and with no checkpoints. It gives the time from where a worker sends
`report` to where it has read `train`: the coordinator's way through scheduler, journal and its
fsync. Beside it stands what an fsync of a line alone takes on that disk.

--processor N has N nodes that report each second, and the terminal view off. It gives the processor
time of the coordinator's process, all its threads, as a share of one core, from when all train. The
nodes' processes do nothing: each hands its channel's address and secret to one process, the crowd,
that speaks for all of them.

Results are appended to results/live_overhead.jsonl. --processor is processor time, whatever others
do on the machine. --hand-over is wall time: where others use the cores it has to wait for them, a
tick of the system's clock (4 ms) at a time. `chrt -f 1 python …` shows what an idle machine would.
"""

import argparse
import datetime
import heapq
import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from simsched.live import machine
from simsched.live.nodes import Node
from simsched.live.search import run_search
from simsched.live.settings import LiveSettings, code_digest
from simsched.live.status import Status

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "live_overhead.jsonl"
WORKER = HERE.parent / "tests" / "live" / "fast_worker.py"
SPACE = {
    "rate": {"type": "real", "low": 0.02, "high": 0.3, "log": True},
    "level": {"type": "real", "low": 0.1, "high": 1.0},
}
# The program of a node in a crowd:
HAND_ON = """sh -c 'echo "$SIMSCHED_SOCKET $SIMSCHED_TOKEN $$" >"$0"; exec sleep 9999' {fifo}"""
TICK = os.sysconf("SC_CLK_TCK")


class Silent:
    """Shows nothing."""

    def update(self, status: Status) -> None:
        """Draw nothing."""

    def line(self, text: str) -> None:
        """Tell nothing."""


def settings_for(command: str, nodes: int, **changes: Any) -> LiveSettings:
    """Return the settings of a search in which every trial trains to its end."""
    fields: dict[str, Any] = {
        "version": "benchmark", "code": code_digest(), "command": command, "nodes": nodes,
        "workers": nodes, "phase_length": 1, "unit": "steps", "space": SPACE,
        "scheduler": "random", "checkpoints": "scheduler", "metric": "score",
    }  # fmt: skip
    return LiveSettings(**{**fields, **changes})


def nodes_for(count: int) -> list[Node]:
    """Return nodes that share this machine's cores."""
    cores = sorted(os.sched_getaffinity(0))
    return [Node(number=k, name=f"node {k}", cores=(cores[k % len(cores)],)) for k in range(count)]


def coordinate(folder: Path) -> None:
    """Run the search whose settings are in the folder: a process of its own."""
    settings = msgspec.json.decode((folder / "asked.json").read_bytes(), type=LiveSettings)
    (folder / "run").mkdir()
    nodes = nodes_for(settings.nodes)
    run_search(settings, nodes, folder / "run", resume=False, show=Silent())


def start(folder: Path, settings: LiveSettings) -> "subprocess.Popen[bytes]":
    """Start a coordinator."""
    (folder / "asked.json").write_bytes(msgspec.json.encode(settings))
    return subprocess.Popen([sys.executable, __file__, "--coordinate", str(folder)])


# Hand-over.


def hand_over(nodes: int, milestones: int) -> dict[str, Any]:
    """Measure how long workers wait for `train`."""
    with tempfile.TemporaryDirectory(dir=RESULTS.parent) as name:
        folder = Path(name)
        waits = folder / "waits"
        words = (sys.executable, "-S", "-E", WORKER, "--pace", 0.02, "--every", 1)
        command = " ".join(map(str, (*words, "--hand-over", waits)))
        process = start(folder, settings_for(command, nodes, phases=milestones))
        assert process.wait() == 0
        waited_ms = [1e3 * float(line) for line in waits.read_text().split()]
        synced_ms = [1e3 * wait_s for wait_s in fsyncs(folder / "probe", 200)]
    assert len(waited_ms) == nodes * (milestones - 1)
    return {
        "what": "hand-over",
        "nodes": nodes,
        "milestones": len(waited_ms),
        "median_ms": statistics.median(waited_ms),
        "p90_ms": statistics.quantiles(waited_ms, n=10)[-1],
        "fsync_median_ms": statistics.median(synced_ms),
        "load": os.getloadavg()[0],
    }


def fsyncs(path: Path, count: int) -> list[float]:
    """Return how long it takes to make a line durable, in seconds."""
    found = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            since = time.perf_counter()
            file.write(b"x" * 250)
            os.fsync(file.fileno())
            found.append(time.perf_counter() - since)
            time.sleep(0.01)
    return found


# Processor time.


def processor(nodes: int, phases: int) -> dict[str, Any]:
    """Measure the processor time of a coordinator whose nodes report each second."""
    with tempfile.TemporaryDirectory(dir=RESULTS.parent) as name:
        folder = Path(name)
        fifo = folder / "fifo"
        os.mkfifo(fifo)
        crowd = subprocess.Popen([sys.executable, __file__, "--crowd", str(fifo)])
        command = HAND_ON.format(fifo=fifo)
        limits = {"start_timeout_s": 600.0, "silent_after_s": 600.0}
        began_s = time.monotonic()
        process = start(folder, settings_for(command, nodes, phases=phases, **limits))
        journal = folder / "run" / "journal.jsonl"
        while reports(journal) < 2 * nodes:
            assert process.poll() is None
            time.sleep(0.5)
        ready_s = time.monotonic() - began_s
        first, since, before = reports(journal), time.monotonic(), cpu_seconds(process.pid)
        while (last := reports(journal)) < nodes * (phases - 2):
            assert process.poll() is None
            time.sleep(0.5)
        used_s, over_s = cpu_seconds(process.pid) - before, time.monotonic() - since
        assert process.wait() == 0
        ended_s = time.monotonic() - since - over_s
        crowd.kill()
        crowd.wait()
        (run,) = json.loads((folder / "run" / "results.json").read_bytes())["runs"]
    assert [trial["fate"] for trial in run["trials"]] == ["finished"] * nodes
    return {
        "what": "processor",
        "nodes": nodes,
        "reports_per_s": (last - first) / over_s,
        "core_percent": 100 * used_s / over_s,
        "us_per_report": 1e6 * used_s / (last - first),
        "over_s": over_s,
        "until_all_train_s": ready_s,
        "ending_s": ended_s,
        "load": os.getloadavg()[0],
    }


def reports(journal: Path) -> int:
    """Return how many milestones a journal holds."""
    return journal.read_bytes().count(b'"type":"reported"') if journal.exists() else 0


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, without its children's (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Speaker:
    """One worker of the crowd."""

    def __init__(self, path: str, token: str, pid: int) -> None:
        self.pid, self.until, self.buffer = pid, 0, b""
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.line.connect(path)
        self.say(type="hello", protocol=1, token=token, pid=pid)

    def say(self, **message: Any) -> None:
        """Tell the coordinator something."""
        self.line.sendall(json.dumps(message).encode() + b"\n")

    def report(self) -> None:
        """Tell the row and the milestone that a second of training makes."""
        step = self.until
        counters = {"steps": step, "episodes": step, "seconds": float(step)}
        self.say(type="rows", rows=[[float(step), step, step, 0.5]])
        self.say(type="report", step=step, score=0.5, reached=step, **counters)

    def hear(self) -> list[dict[str, Any]] | None:
        """Return what the coordinator has said; None where it has hung up."""
        part = self.line.recv(65536)
        if not part:
            return None
        *lines, self.buffer = (self.buffer + part).split(b"\n")
        return list(map(json.loads, lines))


class Crowd:
    """Speaks for all workers of a search."""

    def __init__(self, fifo: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.due: list[tuple[float, int, Speaker]] = []
        self.order = 0
        self.fifo = os.open(fifo, os.O_RDWR)  # both, so that it never ends
        self.begun = b""
        self.selector.register(self.fifo, selectors.EVENT_READ)

    def serve(self) -> None:
        """Speak for ever."""
        while True:
            wait_s = self.due[0][0] - time.monotonic() if self.due else None
            for key, _ in self.selector.select(None if wait_s is None else max(0.0, wait_s)):
                if key.data is None:
                    self.welcome()
                else:
                    self.obey(key.data)
            while self.due and self.due[0][0] <= time.monotonic():
                heapq.heappop(self.due)[2].report()

    def welcome(self) -> None:
        """Connect for those who have handed on their secrets."""
        *lines, self.begun = (self.begun + os.read(self.fifo, 65536)).split(b"\n")
        for line in lines:
            path, token, pid = line.decode().split()
            speaker = Speaker(path, token, int(pid))
            self.selector.register(speaker.line, selectors.EVENT_READ, speaker)

    def obey(self, speaker: Speaker) -> None:
        """Do what the coordinator tells one of them."""
        told = speaker.hear()
        for message in told or ():
            if message["type"] == "welcome":
                speaker.say(type="training")
            if "until" in message:
                speaker.until = message["until"]
                self.order += 1
                heapq.heappush(self.due, (time.monotonic() + 1.0, self.order, speaker))
        if told is None or any(message["type"] == "stop" for message in told):
            self.selector.unregister(speaker.line)
            speaker.line.close()
            os.kill(speaker.pid, signal.SIGTERM)


def keep(found: dict[str, Any]) -> None:
    """Print a result, and append it to the file."""
    real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    found["priority"] = "real time" if real_time else f"nice {os.nice(0)}"
    about = {"date": datetime.date.today().isoformat(), "hardware": machine.processor()}
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
    print(json.dumps(rounded), flush=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(about | rounded) + "\n")


def main() -> None:
    """Measure what the command line asks for."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--hand-over", action="store_true")
    parser.add_argument("--milestones", type=int, default=300, help="of each worker")
    parser.add_argument("--processor", type=int, metavar="N", help="nodes")
    parser.add_argument("--phases", type=int, default=40, help="seconds, with --processor")
    parser.add_argument("--coordinate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.coordinate is not None:
        coordinate(asked.coordinate)
    elif asked.crowd is not None:
        Crowd(asked.crowd).serve()
    for nodes in (1, 2) if asked.hand_over else ():
        keep(hand_over(nodes, asked.milestones))
    if asked.processor is not None:
        keep(processor(asked.processor, asked.phases))


if __name__ == "__main__":
    main()
