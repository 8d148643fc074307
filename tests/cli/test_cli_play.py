"""`simsched play`: finds the agent of a run, films and shows it, and executes nothing of it."""

import contextlib
import json
import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ale_py")
pytest.importorskip("psutil")

from cli_outcome import Outcome  # noqa: E402

from simsched.live.best import About, keep  # noqa: E402
from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.plan import Plan  # noqa: E402
from simsched.live.settings import LiveSettings  # noqa: E402
from simsched.live.storage import Store  # noqa: E402
from simsched.live.winner import evaluate  # noqa: E402
from simsched.messages import Checkpoint  # noqa: E402

pytestmark = pytest.mark.torch
torch.set_num_threads(1)  # on a busy machine several wait for each other

Run = Callable[..., Outcome]
TRAINING = {**PRESETS["repeatable"], "agents": 2, "threads": 1}
HPARAMS = {"learning_rate": 1e-3, "gamma": 0.95}


def settings(trial: int, game: str = "Breakout") -> Settings:
    return Settings(**{"game": game, "trial": trial, **TRAINING, **HPARAMS})


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of trial 3: an agent that plays Breakout at random."""
    path = tmp_path_factory.mktemp("trained") / "c"
    worker = Worker(settings(3))
    worker.save(path)
    worker.close()
    return path


def live_run(folder: Path, **changes: Any) -> Path:
    """The folder of a live search without a checkpoint."""
    fields: dict[str, Any] = {
        "version": "0", "code": "0", "game": "Breakout", "training": TRAINING, "nodes": 1,
        "phase_length": 100, "space": {"gamma": {"type": "real"}, "learning_rate": {}},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    told = LiveSettings(**{**fields, **changes})
    (folder / "settings.json").write_bytes(msgspec.json.encode(told))
    return folder


def saved(run: Path, checkpoint: Path, trial: int, step: int) -> None:
    """Put a checkpoint into a live search's folder, as its worker and coordinator do."""
    store = Store(run / "checkpoints")
    store.scratch(1).write_bytes(checkpoint.read_bytes())
    store.commit(1, Checkpoint(trial, step), {"steps": step})


def winner(run: Path, checkpoint: Path, trial: int = 3) -> None:
    keep(run, checkpoint, About(trial, HPARAMS, settings(trial)), {})


def picture_count(path: Path) -> int:
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(container.streams.video[0]))


def test_the_winner_of_a_search_is_filmed(checkpoint: Path, simsched: Run) -> None:
    pytest.importorskip("av")
    run = live_run(Path("runs/live-1"))
    winner(run, checkpoint)
    outcome = simsched("play", run, "--episodes", 2, "--json", "a.json").good
    document = json.loads(Path("a.json").read_text())
    first, second = document["episodes"]
    expected = evaluate(checkpoint, settings(3), 2, seed=0)
    assert tuple(each["score"] for each in (first, second)) == expected.scores
    assert (first["steps"], second["steps"]) == expected.steps
    assert outcome.out == (
        "trial 3, Breakout: learning_rate 0.001, gamma 0.95\n"
        f"episode 1: score {first['score']:g} in {first['steps']} steps\n"
        f"episode 2: score {second['score']:g} in {second['steps']} steps\n"
        f"mean of 2: {expected.mean:g}\n"
        "film: runs/live-1/best/play.mp4\n"
    )
    assert document["video"] == "runs/live-1/best/play.mp4"
    assert document["mean_score"] == expected.mean
    # A picture at the start of each episode, and one after each step.
    assert picture_count(run / "best" / "play.mp4") == sum(expected.steps) + 2
    assert document["trial"] == 3

    again = simsched("play", run / "best", "--video", "b.mp4", "--seed", 1, "--json", "-")
    assert again.code == 0
    document = json.loads(again.out)
    assert again.err.startswith("trial 3, Breakout: ")
    assert again.err.endswith("film: b.mp4\n")
    assert document["episodes"][0]["score"] == evaluate(checkpoint, settings(3), 1, 1).scores[0]
    assert Path("b.mp4").is_file()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let nobody play: notes who would, and how."""
    from simsched.live import play as playing

    asked: list[dict[str, Any]] = []

    def play(agent: Any, **options: Any) -> list[Any]:
        asked.append({"agent": agent, **options})
        options["ready"]()
        return []

    monkeypatch.setattr(playing, "play", play)
    return asked


@pytest.mark.usefixtures("quickly")
def test_a_trials_newest_checkpoint_is_found(
    checkpoint: Path, simsched: Run, quickly: list[dict[str, Any]]
) -> None:
    run = live_run(Path("run"))
    saved(run, checkpoint, 3, 900)
    saved(run, checkpoint, 3, 1000)
    saved(run, checkpoint, 12, 100)
    assert simsched("play", run).refusal == (
        "run: the search has no winner yet; use --trial: 3, 12 have one"
    )
    simsched("play", run, "--trial", 3, "--greedy").good  # noqa: B018 - it is a check
    agent = quickly[-1]["agent"]
    assert agent.checkpoint == Path("run/checkpoints/trial-0003-step-1000/data").absolute()
    assert agent.hparams == {"gamma": 0.95, "learning_rate": 1e-3}
    assert agent.settings == settings(3)
    assert quickly[-1]["greedy"]
    assert quickly[-1]["video"] == Path("run/play.mp4")
    assert simsched("play", run, "--trial", 5).refusal == (
        "--trial 5: it has no checkpoint; use: 3, 12 have one"
    )
    # The folder of a checkpoint, and the file in it, say themselves whose they are.
    folder = run / "checkpoints" / "trial-0003-step-900"
    for path in (folder, folder / "data"):
        assert simsched("play", path).good.out.startswith("trial 3, Breakout: learning_rate 0.001")
        assert quickly[-1]["agent"].checkpoint == folder / "data"
        # Not in the folder of the checkpoint: that is the search's to delete.
        assert quickly[-1]["video"] == Path("run/play.mp4")
    assert simsched("play", folder, "--trial", 4).refusal.startswith("--trial 4: ")
    winner(run, checkpoint, trial=7)
    simsched("play", run, "--trial", 7).good  # noqa: B018
    assert quickly[-1]["agent"].checkpoint == run / "best" / "checkpoint.pt"
    assert simsched("play", run / "best", "--trial", 3).refusal == (
        "--trial 3: run/best is of trial 7"
    )


def test_the_agent_of_simsched_train_and_of_a_recording(
    checkpoint: Path, simsched: Run, quickly: list[dict[str, Any]]
) -> None:
    def plan(folder: str, trials: int) -> Path:
        made = Plan(
            game="Breakout", trials=trials, steps=9, seed=0, space={}, training=TRAINING,
            hparams=[HPARAMS] * trials,
        )  # fmt: skip
        Path(folder).mkdir()
        made.save(Path(folder))
        return Path(folder)

    run = plan("train-1", 1)
    assert simsched("play", run).refusal == (
        "--trial 0: it has no checkpoint; no trial has one in train-1"
    )
    (run / "trial-0000.pt").write_bytes(checkpoint.read_bytes())
    simsched("play", run, "--seed", 6).good  # noqa: B018
    assert quickly[-1]["agent"].checkpoint == run / "trial-0000.pt"
    assert (quickly[-1]["video"], quickly[-1]["seed"]) == (run / "play.mp4", 6)
    parts = plan("curves.parquet.parts", 3)
    (parts / "trial-0002.pt").write_bytes(checkpoint.read_bytes())
    assert "a recording of 3 trials; use --trial: 2 have one" in simsched("play", parts).refusal
    simsched("play", parts, "--trial", 2).good  # noqa: B018
    assert quickly[-1]["agent"].trial == 2
    # An older checkpoint has no settings in it: its folder has them.
    state = torch.load(checkpoint, weights_only=True)
    del state["settings"]
    torch.save(state, run / "trial-0000.pt")
    simsched("play", run).good  # noqa: B018
    assert "it does not say what it was trained on" in simsched(
        "play", run / "trial-0000.pt"
    ).refusal  # fmt: skip


def test_what_is_no_run_is_one_line(checkpoint: Path, simsched: Run) -> None:
    Path("empty").mkdir()
    assert simsched("play", "nowhere").refusal == "nowhere: there is no such folder or file"
    assert simsched("play", "empty").refusal.startswith("empty: not the folder of a run: it has")
    run = live_run(Path("own"), game=None, command="python train.py --lr {lr}")
    assert simsched("play", run).refusal == (
        "own: its trials are 'python train.py --lr {lr}'; only GA3C can be played here"
    )
    run = live_run(Path("live"))
    assert simsched("play", run).refusal == (
        "live: the search has no winner yet; no trial has one in live"
    )
    (run / "settings.json").write_text("{")
    assert simsched("play", run).refusal.startswith("live/settings.json: these are no settings")
    winner(live_run(Path("ok")), checkpoint)
    for options, reason in (
        (("--video", "a.gif"), "a.gif: videos are written as MP4"),
        (("--video", "no/a.mp4"), "no/a.mp4: there is no folder no"),
        (("--episodes", 0), "--episodes"),
        (("--json", "no/a.json"), "--json no/a.json: there is no folder"),
    ):
        outcome = simsched("play", "ok", *options)
        assert outcome.code == 2
        assert reason in outcome.err
        assert outcome.err.count("\n") == 1
    assert sorted(path.name for path in Path("ok/best").iterdir()) == [
        "checkpoint.pt", "evaluation.json", "hparams.json",
    ]  # fmt: skip


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self._folder),))


def trapped(path: Path, trap: Trap, kind: str, good: Path) -> None:
    """Write a file that executes something when it is unpickled."""
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"network": trap}))
    else:
        state = torch.load(good, weights_only=True)
        state["random" if kind == "in the state" else "settings"] = trap
        torch.save(state, path)


@pytest.mark.parametrize("kind", ["pickle", "in the state", "in the settings"])
def test_a_run_from_elsewhere_cannot_execute_code(
    kind: str, checkpoint: Path, simsched: Run, tmp_path: Path
) -> None:
    sprung = tmp_path / "sprung"
    bad = tmp_path / "bad"
    trapped(bad, Trap(sprung), kind, checkpoint)
    run = live_run(Path("run"))
    winner(run, bad)
    saved(run, bad, 3, 100)
    train = Path("train")
    train.mkdir()
    made = Plan(
        game="Breakout", trials=1, steps=9, seed=0, space={}, training=TRAINING, hparams=[HPARAMS]
    )
    made.save(train)
    (train / "trial-0000.pt").write_bytes(bad.read_bytes())
    for arguments in (
        (run,),
        (run, "--trial", 3),
        (run / "best",),
        (run / "best" / "checkpoint.pt",),
        (run / "checkpoints" / "trial-0003-step-100",),
        (train,),
    ):
        refusal = simsched("play", *arguments).refusal
        assert refusal.endswith(": not a readable checkpoint: UnpicklingError")
        assert not sprung.exists()
    assert not list(run.rglob("*.mp4"))
    # The trap works, else none of this says anything.
    with contextlib.suppress(RuntimeError):
        torch.load(bad, weights_only=False)
    assert sprung.is_dir()


def test_a_game_from_elsewhere_imports_nothing(checkpoint: Path, simsched: Run) -> None:
    """Gymnasium imports what stands before a colon in a game's name."""
    Path("trap.py").write_text("open('sprung', 'w').close()")
    state = torch.load(checkpoint, weights_only=True)
    state["settings"]["game"] = "trap:Pong-v0"
    torch.save(state, "c.pt")
    sys.path.insert(0, os.getcwd())
    try:
        assert simsched("play", "c.pt").refusal.startswith("game: 'trap:Pong-v0' is unknown")
    finally:
        sys.path.remove(os.getcwd())
    assert not Path("sprung").exists()


def test_a_film_goes_through_no_link(checkpoint: Path, simsched: Run, tmp_path: Path) -> None:
    pytest.importorskip("av")
    run = live_run(Path("run"))
    winner(run, checkpoint)
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in ("play.mp4", ".play.mp4.tmp"):
        (run / "best" / name).symlink_to(mine)
    simsched("play", run).good  # noqa: B018
    assert mine.read_text() == "precious"
    assert not (run / "best" / "play.mp4").is_symlink()


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
