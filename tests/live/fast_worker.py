"""A worker for tests, written from docs/workers.md alone: fast, repeatable, and it can misbehave.

    python -S -E fast_worker.py [--pace S] [--every N] [--marks DIR] [--fault KIND,NAME=VALUE…]…

A trial has one weight, its skill, which each step brings nearer to the hyperparameter `level`, by
the share `rate`. Every few steps it tells a row: the skill, and a noise that hyperparameters and
step alone decide. So its scores show from which weights it went on, and with what.

A fault happens from `step` on (by default 1) when its moment comes; only in `trial` and on `node`,
if they are given; `times` times in each trial, if that is given: the folder --marks keeps count.

Three faults are none, but let a test say when it goes on: `hold` stands still until the coordinator
says something; `gate` does what it says, but trains on only once there is a file --marks/open;
`late-report` waits as `hold` does before it reports, and is heard only once it has saved, too.
"""

import json
import os
import select
import signal
import socket
import sys
import time
import zlib

from fast_faults import LINES, SAME_EPISODE, Faults

SECONDS_A_STEP = 0.01
"""What a step counts for, however long it takes: so `seconds` is repeatable too."""


def advance(skill, hparams):
    """Return the skill after one more step."""
    return skill + hparams["rate"] * (hparams["level"] - skill)


def score_of(skill, hparams, step):
    """Return the score of a row at a step."""
    text = f"{hparams['rate']!r} {hparams['level']!r} {step}"
    return round(skill + 0.2 * zlib.crc32(text.encode()) / 2**32, 9)


class Over(Exception):  # noqa: N818 - no error
    """Nobody wants this trial any more."""


class Channel:
    """The connection to the coordinator."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(os.environ["SIMSCHED_SOCKET"])
        self.buffer = b""
        self.holds_back, self.held_back = False, b""

    def send(self, **message):
        self.held_back += json.dumps(message).encode() + b"\n"
        if self.holds_back:
            return
        data, self.held_back = self.held_back, b""
        try:
            self.socket.sendall(data)
        except OSError:
            raise Over from None

    def receive(self):
        while b"\n" not in self.buffer:
            part = self.socket.recv(65536)
            if not part:
                raise Over
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def something_came(self):
        return b"\n" in self.buffer or bool(select.select([self.socket], [], [], 0)[0])


class Trial:
    """Trains one trial, as it is told."""

    def __init__(self, pace="0", every="3", marks=None, hand_over=os.devnull, faults=(), **ignored):
        self.pace, self.every = float(pace), int(every)
        self.faults = Faults(faults, marks, int(os.environ["SIMSCHED_TRIAL"]))
        self.hand_over, self.waits = hand_over, []
        self.open_file = None

    def hello(self):
        due = self.faults.due
        if due("exit"):
            print("cannot find the data", file=sys.stderr)
            sys.exit(3)
        if due("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if due("mute"):
            time.sleep(600)
        self.channel = Channel()
        protocol = 99 if due("protocol") else 1
        token = "0" * 32 if due("token") else os.environ["SIMSCHED_TOKEN"]
        self.channel.send(type="hello", protocol=protocol, token=token, pid=os.getpid())
        told = self.welcome = self.channel.receive()
        self.hparams, self.until = told["hparams"], told["until"]
        self.skill = 0.0
        self.steps, self.episodes = told["steps"], told["episodes"]
        self.rows, self.last_score, self.last_count = [], None, self.count()
        source = told["source"]
        if source is not None:
            if due("crash-load"):
                os._exit(8)
            self.load(source)
            if source["trial"] == told["trial"]:
                vars(self).update(source["state"])
        self.passes = told["since"] if self.last_count < told["since"] else None
        self.beat_s = time.monotonic()
        self.channel.send(type="training", load_s=0.0)

    def load(self, source):
        with open(source["path"]) as file:
            self.skill = json.load(file)["skill"]

    def count(self):
        counts = {"steps": self.steps, "seconds": self.steps * SECONDS_A_STEP}
        return counts.get(self.welcome["unit"], self.episodes)

    def counters(self):
        seconds = round(self.steps * SECONDS_A_STEP, 6)
        return {"steps": self.steps, "episodes": self.episodes, "seconds": seconds}

    def run(self):
        """Train until somebody says that it is over."""
        while True:
            if self.pace:
                time.sleep(self.pace)
            self.steps += 1
            self.skill = advance(self.skill, self.hparams)
            self.misbehave()
            if self.steps % self.every == 0:
                self.tell_a_row()
            else:
                self.beat()
            self.wait_at_the_gate()
            if self.channel.something_came():
                self.obey(self.channel.receive())

    def wait_at_the_gate(self):
        """Obey, but train on only when the gate is open; the row of this step is told."""
        while self.faults.due("gate", self.steps) and not self.faults.is_open():
            self.stand(self.faults.is_open)
            if self.channel.something_came():
                self.obey(self.channel.receive())

    def beat(self):
        """Say that it is alive, if it is time."""
        if time.monotonic() - self.beat_s > self.welcome["heartbeat_s"]:
            self.beat_s = time.monotonic()
            self.channel.send(type="beat", **self.counters())

    def stand(self, until):
        """Stand still until something holds, or the coordinator says something."""
        while not until() and not self.channel.something_came():
            select.select([self.channel.socket], [], [], 0.05)
            self.beat()

    def tell_a_row(self):
        self.episodes += 1
        for kind, score in (("nan", float("nan")), ("null", None)):  # JSON has no NaN; Python has
            if self.faults.due(kind, self.steps):
                self.report(score)
                return
        score = score_of(self.skill, self.hparams, self.steps)
        row = [self.counters()["seconds"], self.steps, self.episodes, score]
        self.channel.send(type="rows", rows=[row])
        self.rows.append(score)
        if self.passes is not None and self.count() >= self.passes:
            self.passes = None
            self.used_up()
        if self.passes is None:
            self.milestones()

    def milestones(self):
        """Report the milestone if this row reaches it: one row can reach several."""
        known = self.last_score is not None and self.last_count >= self.until
        if not known and self.count() >= self.until:
            self.used_up()
        while self.last_count >= self.until:
            self.report(self.last_score)

    def used_up(self):
        self.last_score, self.last_count = sum(self.rows) / len(self.rows), self.count()
        self.rows = []

    def report(self, score):
        since = time.perf_counter()
        if self.faults.due("late-report", self.steps):
            self.stand(lambda: False)
            self.channel.holds_back = True  # until it is saved: both are heard at once
        self.channel.send(
            type="report", step=self.until, score=score, reached=self.count(), **self.counters()
        )
        while True:
            told = self.channel.receive()
            if told["type"] == "train":
                self.waits.append(time.perf_counter() - since)
            if self.obey(told):
                return

    def obey(self, told):
        """Do what is told; returns whether to train on."""
        kind = told["type"]
        if self.open_file is not None:  # by now the checkpoint is where it is kept
            os.pwrite(self.open_file, b"%", 3)
        if kind == "stop":
            while self.faults.due("stubborn"):
                time.sleep(600)
            raise Over
        if kind in ("save", "park"):
            self.save(told["path"])
            if kind == "park":
                raise Over
            return False
        if kind == "adopt":
            self.load(told["source"])
            self.hparams = told["hparams"]
            self.channel.send(type="training", load_s=0.0)
        self.until = told["until"]
        return True

    def save(self, path):
        due = self.faults.due
        text = json.dumps({"skill": self.skill})
        if due("hang-save", self.steps):
            time.sleep(600)
        crashes = due("crash-save", self.steps)
        if not due("claim", self.steps):
            with open(path, "w") as file:
                file.write(text[:5] if crashes else text)
        if crashes:
            os.kill(os.getpid(), signal.SIGKILL)
        if due("link", self.steps):
            os.unlink(path)
            os.symlink("/etc/passwd", path)
        if due("corrupt", self.steps):
            self.open_file = os.open(path, os.O_WRONLY)
        kept = ("steps", "episodes", "rows", "last_score", "last_count")
        state = {name: getattr(self, name) for name in kept} | self.counters()
        if due("bad-state", self.steps):
            state["steps"] = "many"
        self.channel.holds_back = False
        self.channel.send(type="saved", state=state)
        if due("die-saved", self.steps):
            os.kill(os.getpid(), signal.SIGKILL)

    def misbehave(self):
        """Do what a worker should not, if it is time."""
        now, send, raw = self.steps, self.channel.send, self.channel.socket.sendall
        due = self.faults.due
        due("note", now)  # nothing is wrong, but --marks tells that it is here
        if due("hold", now):
            self.stand(lambda: False)
        if due("crash", now):
            print("Segmentation fault", flush=True)
            os._exit(7)
        if due("fail", now):
            send(type="failed", reason="CUDA error:\n an illegal memory access")
            sys.exit(1)
        if due("hang", now):
            time.sleep(600)
        if due("print", now):
            os.write(1, b"\xff\x00\x1b[2J" + b"no end of line " * 9000 + b"\n" + bytes(range(256)))
        if due("child", now) and os.fork() == 0:
            time.sleep(600)
        if due("daemon", now) and os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.channel.socket.close()
            time.sleep(600)
        for kind, line in (LINES | {"same-episode": SAME_EPISODE % self.episodes}).items():
            if due(kind, now):
                raw(line)
        flooding = due("flood", now)
        while flooding:
            send(type="beat", **self.counters())

    def close(self):
        """Say how long hand-overs took."""
        with open(self.hand_over, "a") as file:
            file.write("".join(f"{wait_s:.9f}\n" for wait_s in self.waits))


def options(words):
    """Return `--name value` pairs; of --fault there can be several."""
    given = {"faults": []}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--fault":
            given["faults"].append(value)
        else:
            given[name.removeprefix("--").replace("-", "_")] = value
    return given


def main():
    trial = Trial(**options(sys.argv[1:]))
    try:
        trial.hello()
        trial.run()
    except Over:
        pass
    finally:
        trial.close()


if __name__ == "__main__":
    main()
