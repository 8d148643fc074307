"""The live world: one asyncio loop around the control plane and real processes.

`reports` turns what workers say and what becomes of them into events, `feed` gives the events to
the control plane and the journal, `orders` carries out the commands that come of it.
"""

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from simsched.control import Control
from simsched.events import Interrupted, NodeUp, Recovered
from simsched.live.attempt import Attempt, Line
from simsched.live.feed import Feed, How
from simsched.live.nodes import Node
from simsched.live.orders import Orders
from simsched.live.reports import Reports
from simsched.live.settings import LiveSettings
from simsched.live.staff import Staff
from simsched.live.workshop import Workshop

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TICK_S = 0.5


class World:
    """Runs one search on this machine's nodes."""

    def __init__(
        self,
        settings: LiveSettings,
        control: Control,
        nodes: Sequence[Node],
        workshop: Workshop,
        *,
        clock_us: int,
        tick: Callable[["World"], None],
    ) -> None:
        """Prepare it.

        Args:
            settings: of the search.
            control: coordinator, ledger and journal, up to date with the journal.
            nodes: to use, numbered from 0.
            workshop: the run's folder: curves, checkpoints, logs; starts processes.
            clock_us: the run's time now: 0 at its beginning.
            tick: called twice a second while the search runs.
        """
        self.settings = settings
        self.control = control
        self.nodes = nodes
        self.workshop = workshop
        self.sign = -1.0 if settings.mode == "min" else 1.0
        self._staff = Staff()
        self._feed = Feed(control, workshop, clock_us)
        spoke = clock_us > 0
        self._reports = Reports(settings, workshop, self._feed, self._staff, anybody_spoke=spoke)
        self._socket_folder = socket_folder(workshop.run)
        self._orders = Orders(
            settings, nodes, workshop, self._feed, self._staff, self._reports,
            self._socket_folder / "workers",
        )  # fmt: skip
        self._tick = tick
        self._ticked_s = time.monotonic()
        self._interrupts = 0

    def now_us(self) -> int:
        """Return the run's time, in µs."""
        return self._feed.now_us()

    @property
    def attempts(self) -> dict[int, Attempt]:
        """The newest of each node."""
        return self._staff.by_node

    @property
    def withdrawn(self) -> set[int]:
        """Nodes that are out of service."""
        return self._orders.withdrawn

    async def run(self, *, recovered: bool) -> How:
        """Run the search to its end, or until it is interrupted.

        Raises:
            LiveError: it cannot go on; all workers are ended, and it can be resumed.
            OSError: the journal cannot be written.
        """
        loop = asyncio.get_running_loop()
        over = self._feed.begin(self._orders.carry_out)
        reports = self._reports
        with _made(self._socket_folder) as folder:
            server = await loop.create_unix_server(
                lambda: Line(reports.greet, reports.hear, reports.blame, reports.hung_up),
                str(folder / "workers"),
            )
            ticker = loop.create_task(self._keep_ticking())
            ignored = signal.SIG_IGN  # as nohup does
            signals = [number for number in INTERRUPTS if signal.getsignal(number) != ignored]
            for number in signals:
                loop.add_signal_handler(number, self.interrupt)
            try:
                if recovered:
                    self._feed.offer(Recovered(self.now_us()))
                known = self.control.coordinator.nodes if recovered else set()
                for node in self.nodes:
                    if node.number not in known:
                        self._feed.offer(NodeUp(self.now_us(), node.number))
                return await over
            finally:
                ticker.cancel()
                server.close()
                await self._orders.end_all()
                for number in signals:
                    loop.remove_signal_handler(number)

    async def _keep_ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                now_s = time.monotonic()
                stood_s = max(0.0, now_s - self._ticked_s - 2 * TICK_S)
                self._ticked_s = now_s
                self._reports.look_after_the_silent(now_s, stood_s)
                self._tick(self)
            except Exception as error:  # noqa: BLE001 - whatever it is, the search ends with it
                self._feed.fail(error)

    def interrupt(self) -> None:
        """Ctrl-C: once saves and stops, twice stops now."""
        self._interrupts += 1
        if self._interrupts == 1 and not self._feed.over:
            self.workshop.say("Interrupted: saving, then stopping. Once more stops at once.")
            self._feed.offer(Interrupted(self.now_us()))
            return
        self._feed.stop()
        self._orders.kill_all()


def socket_folder(run: str) -> Path:
    """Return where the socket of a run's coordinator is, while it runs or if it was killed."""
    return Path(tempfile.gettempdir(), f"simsched-{run[:12]}")


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """Make a folder that only this user can enter."""
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
