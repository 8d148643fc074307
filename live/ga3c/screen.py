"""A window that shows pictures as they are made."""

import importlib
import os
import warnings
from types import TracebackType
from typing import Any, Self

import numpy as np

from simsched.live.errors import LiveError
from simsched.live.ga3c.twins import Picture, has_display

LEAST_WIDTH = 480
UNSEEN = ("dummy", "evdev", "offscreen")
"""What SDL falls back to where it finds no display: windows that nobody can see."""


class ScreenClosed(Exception):  # noqa: N818 - no error: somebody has seen enough
    """The window was closed."""


class Screen:
    """A window, in a `with` block; Escape, Q and its cross close it."""

    def __init__(self, title: str, *, fps: float) -> None:
        """Prepare it.

        Args:
            title: of the window.
            fps: pictures a second.

        Raises:
            LiveError: pygame is not installed, or there is no display.
        """
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its own imports, of things that are deprecated
                self._pygame: Any = importlib.import_module("pygame")
        except ImportError as error:
            raise LiveError(
                "pygame is not installed, --window needs it: pip install pygame; or make a film "
                "with --video"
            ) from error
        if not has_display():
            raise _no_display("neither DISPLAY nor WAYLAND_DISPLAY is set")
        self._asked = os.environ.get("SDL_VIDEODRIVER")
        self._title = title
        self._fps = fps
        self._window: Any = None

    def __enter__(self) -> Self:
        """Find the display; LiveError if there is none."""
        display = self._pygame.display
        try:
            display.init()
        except self._pygame.error as error:
            raise _no_display(error) from error
        if self._asked is None and display.get_driver() in UNSEEN:
            display.quit()
            raise _no_display("none can be opened")
        display.set_caption(self._title)
        self._clock = self._pygame.time.Clock()
        return self

    def show(self, picture: Picture) -> None:
        """Show a picture (height, width, 3) when its time has come.

        Raises:
            LiveError: no window can be opened.
            ScreenClosed: somebody has closed it.
        """
        pygame = self._pygame
        height, width = picture.shape[:2]
        factor = max(1, LEAST_WIDTH // width)
        if self._window is None:
            try:
                self._window = pygame.display.set_mode((factor * width, factor * height))
            except pygame.error as error:
                raise LiveError(f"--window: no window can be opened: {error}") from error
        pixels = np.ascontiguousarray(picture).tobytes()
        surface = pygame.image.frombuffer(pixels, (width, height), "RGB")
        self._window.blit(pygame.transform.scale(surface, self._window.get_size()), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)
        for event in pygame.event.get():
            key = event.key if event.type == pygame.KEYDOWN else None
            if event.type == pygame.QUIT or key in (pygame.K_ESCAPE, pygame.K_q):
                raise ScreenClosed

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the window."""
        self._window = None
        self._pygame.display.quit()


def _no_display(reason: object) -> LiveError:
    return LiveError(f"--window: there is no display here: {reason}; make a film with --video")
