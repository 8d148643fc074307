"""What people see of a live search while it runs: a picture on a terminal, plain lines elsewhere.

The view never ends a search: when nobody can be written to any more, it falls silent.
"""

import time
from collections import deque
from typing import Protocol, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from simsched.live.picture import MOST_LOG_LINES, best, draw, fates, tally, times, title
from simsched.live.settings import LiveSettings
from simsched.live.status import Status
from simsched.live.wording import printable, share

PLAIN_EVERY_S = 30.0
"""How often plain lines say how far the search is."""
DRAWN_EVERY_S = 0.25
"""A picture is drawn no more often than this."""


class View(Protocol):
    """Shows a search; to be entered before it begins and left at its end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def update(self, status: Status) -> None:
        """Show how the search stands; cheap enough to be called at any rate."""
        ...

    def line(self, text: str) -> None:
        """Say that something happened: a milestone, a failure, an end."""
        ...


def make_view(stream: TextIO | None, settings: LiveSettings) -> View:
    """Return the view for a stream: a picture on a terminal that can, else plain lines.

    Args:
        stream: standard error, most often; None where it is closed.
        settings: of the search.
    """
    if stream is not None and stream.isatty():
        console = Console(file=stream)
        if not console.is_dumb_terminal:
            return PictureView(console, settings)
    return LineView(stream, settings)


def status_line(status: Status) -> str:
    """Return how the search stands, on one line."""
    said = [times(status), ", ".join(text for text, _ in fates(status, zeros=False))]
    if status.progress is not None:
        said[0] = f"{share(status.progress)}, {said[0]}"
    if status.best_score is not None:
        said.append(f"best {best(status).partition(':')[0]}")
    return "; ".join([*said, tally(status)])


class LineView:
    """Writes each line as it comes, and one on the whole now and then."""

    def __init__(self, stream: TextIO | None, settings: LiveSettings) -> None:
        self._stream = stream
        self._settings = settings
        self._said_s = time.monotonic()
        self._status: Status | None = None
        """The newest one, while it has not been said."""

    def __enter__(self) -> Self:
        self.line(title(self._settings))
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._say(self._status)

    def update(self, status: Status) -> None:
        """Say how the search stands, if it was not said lately."""
        self._status = status
        if time.monotonic() - self._said_s >= PLAIN_EVERY_S:
            self._say(status)

    def _say(self, status: Status) -> None:
        self._said_s = time.monotonic()
        self._status = None
        self.line(status_line(status))

    def line(self, text: str) -> None:
        """Write a line."""
        if self._stream is None:
            return
        try:
            self._stream.write(f"{printable(text)}\n")
            self._stream.flush()
        except (OSError, ValueError):  # whoever read it is gone, or the stream is closed
            self._stream = None


class PictureView:
    """Keeps a picture of the search on a terminal up to date."""

    def __init__(self, console: Console, settings: LiveSettings) -> None:
        self._settings = settings
        self._status: Status | None = None
        self._log: deque[str] = deque(maxlen=MOST_LOG_LINES)
        self._over = False
        self._drawn_s = -DRAWN_EVERY_S
        self._gone = False
        self._live = Live(self, console=console, auto_refresh=False, vertical_overflow="crop")

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the lines of the picture for the terminal's size at this moment."""
        if self._status is not None:
            # One line is left to the cursor.
            yield from draw(
                self._settings, self._status, self._log, options.max_width,
                max(1, options.size.height - 1), over=self._over,
            )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self._live.start()
        except (OSError, ValueError):
            self._gone = True
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        try:
            self._live.stop()
        except (OSError, ValueError):
            self._gone = True

    def update(self, status: Status) -> None:
        """Draw the picture anew, if it was not drawn just now."""
        self._status = status
        now_s = time.monotonic()
        if self._gone or now_s - self._drawn_s < DRAWN_EVERY_S:
            return
        self._drawn_s = now_s
        try:
            self._live.refresh()
        except (OSError, ValueError):
            self._gone = True

    def line(self, text: str) -> None:
        """Put a line at the picture's end; the next picture shows it."""
        self._log.append(printable(text))
