"""`simsched play --window`: every picture is shown, and what is missing for that is said."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_outcome import Outcome
from cli_play import live_run, picture_count, settings, winner

from simsched.live.winner import evaluate

pytestmark = pytest.mark.torch

Run = Callable[..., Outcome]


class FakeClock:
    def tick(self, fps: float) -> None:
        self.fps = fps


class FakePygame(types.ModuleType):
    """As much of pygame as a window takes; `closes` after so many pictures."""

    QUIT, KEYDOWN, K_ESCAPE, K_q = 1, 2, 3, 4
    error = RuntimeError

    def __init__(self, closes: int | None = None, fails: str = "", driver: str = "x11") -> None:
        super().__init__("pygame")
        self.driver = driver
        self.shown: list[tuple[int, int]] = []
        self.window: tuple[int, int] | None = None
        self.closes, self.fails = closes, fails
        self.display = self
        self.time = types.SimpleNamespace(Clock=FakeClock)
        self.image = types.SimpleNamespace(
            frombuffer=lambda pixels, size, kind: (len(pixels), size)
        )
        self.transform = types.SimpleNamespace(scale=lambda surface, size: (surface, size))
        self.event = self
        self.open = False

    def init(self) -> None:
        self.open = True

    def get_driver(self) -> str:
        return self.driver

    def set_caption(self, title: str) -> None:
        assert title == "simsched: trial 3, Breakout"

    def set_mode(self, size: tuple[int, int]) -> "FakePygame":
        if self.fails:
            raise RuntimeError(self.fails)
        self.window = size
        return self

    def get_size(self) -> tuple[int, int] | None:
        return self.window

    def blit(self, picture: Any, place: tuple[int, int]) -> None:
        (length, (width, height)), size = picture
        assert length == width * height * 3
        assert size == self.window
        assert place == (0, 0)
        self.shown.append((width, height))

    def flip(self) -> None:
        assert self.open

    def get(self) -> list[Any]:
        if self.closes is not None and len(self.shown) >= self.closes:
            return [types.SimpleNamespace(type=self.QUIT)]
        return [types.SimpleNamespace(type=self.KEYDOWN, key=99)]

    def quit(self) -> None:
        self.open = False


def test_a_window_shows_every_picture(
    checkpoint: Path, simsched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pygame = FakePygame()
    monkeypatch.setitem(sys.modules, "pygame", pygame)
    monkeypatch.setenv("DISPLAY", ":7")
    run = live_run(Path("run"))
    winner(run, checkpoint)
    outcome = simsched("play", run, "--window").good
    steps = evaluate(checkpoint, settings(3), 1, seed=0).steps[0]
    assert pygame.shown == [(160, 210)] * (steps + 1)
    assert pygame.window == (480, 630)
    assert not pygame.open
    assert "film" not in outcome.out
    assert not list(run.rglob("*.mp4"))


def test_who_closes_the_window_ends_it(
    checkpoint: Path, simsched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av")
    pygame = FakePygame(closes=5)
    monkeypatch.setitem(sys.modules, "pygame", pygame)
    monkeypatch.setenv("DISPLAY", ":7")
    winner(live_run(Path("run")), checkpoint)
    outcome = simsched("play", "run", "--window", "--video", "a.mp4", "--episodes", 9).good
    assert len(pygame.shown) == 5
    assert "episode" not in outcome.out
    assert picture_count(Path("a.mp4")) == 5  # as far as it was seen


def test_without_a_display_or_pygame_it_says_so(
    checkpoint: Path, simsched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner(live_run(Path("run")), checkpoint)
    monkeypatch.setitem(sys.modules, "pygame", FakePygame())
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    assert simsched("play", "run", "--window").refusal == (
        "--window: there is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set; "
        "make a film with --video"
    )
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setitem(sys.modules, "pygame", FakePygame(driver="offscreen"))
    assert "there is no display here: none can be opened" in simsched(
        "play", "run", "--window"
    ).refusal  # fmt: skip
    monkeypatch.setitem(sys.modules, "pygame", FakePygame(fails="No available video device"))
    assert "no window can be opened: No available video device" in simsched(
        "play", "run", "--window"
    ).err  # fmt: skip
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert simsched("play", "run", "--window").refusal.startswith(
        "pygame is not installed, --window needs it: pip install pygame"
    )
