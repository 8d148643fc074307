"""The winner: fresh episodes, an honest comparison, and a folder that is whole or not there."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simsched.live import best as best_module  # noqa: E402
from simsched.live import winner  # noqa: E402
from simsched.live.best import About, keep, read_about  # noqa: E402
from simsched.live.errors import DivergedError, LiveError  # noqa: E402
from simsched.live.ga3c.checkpoint import read_checkpoint  # noqa: E402
from simsched.live.ga3c.settings import PRESETS, Settings  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402
from simsched.live.winner import (  # noqa: E402
    Candidate,
    Choice,
    Evaluation,
    Player,
    evaluate,
    mean_interval,
    pick_winner,
)

pytestmark = pytest.mark.torch


def settings(**changes: Any) -> Settings:
    fields = {**PRESETS["repeatable"], "game": "CartPole-v1", "agents": 2, "threads": 1, **changes}
    return Settings(**fields)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints: `even` draws actions as good as evenly; `left` and `right` push one way."""
    folder = tmp_path_factory.mktemp("agents")
    worker = Worker(settings())
    worker.save(folder / "even")
    worker.close()
    for name, action in (("left", 0), ("right", 1), ("nan", 0)):
        state = torch.load(folder / "even", weights_only=True)
        last = [key for key in state["network"] if key.startswith("policy") and "bias" in key][-1]
        state["network"][last][action] = 50.0 if name != "nan" else math.nan
        torch.save(state, folder / name)
    (folder / "broken").write_bytes(b"nothing")
    return folder


def candidate(agents: Path, name: str, trial: int, score: float, **changes: Any) -> Candidate:
    fields: dict[str, Any] = {
        "trial": trial,
        "checkpoint": agents / name,
        "settings": settings(trial=trial),
        "hparams": {"learning_rate": 1e-3 * (trial + 1)},
        "score": score,
    }
    return Candidate(**{**fields, **changes})


def test_a_mean_and_its_interval() -> None:
    mean, interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    # t of 4 degrees of freedom at 0.975 is 2.7764 in every table; s is the root of 2.5.
    assert mean == 3.0
    assert interval == pytest.approx((3 - 2.7764 * math.sqrt(2.5 / 5), 3 + 2.7764 * 0.70711), 1e-4)
    assert mean_interval([7.0]) == (7.0, None)
    assert mean_interval([7.0, 7.0]) == (7.0, (7.0, 7.0))


def test_95_intervals_in_100_hold_the_mean() -> None:
    random = np.random.default_rng(5)
    held = 0
    for values in random.normal(3.0, 2.0, (2000, 6)):
        _, interval = mean_interval(values.tolist())
        assert interval is not None
        held += interval[0] <= 3.0 <= interval[1]
    assert abs(held / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


def test_fresh_episodes_are_the_same_for_everybody_and_change_nothing(agents: Path) -> None:
    before = (agents / "even").read_bytes()
    first = evaluate(agents / "even", settings(), 6, seed=4)
    assert len(first.scores) == len(first.steps) == 6
    assert first.scores == first.steps  # CartPole pays 1 a step
    assert first.mean == pytest.approx(np.mean(first.scores))
    assert len(set(first.scores)) > 2
    assert evaluate(agents / "even", settings(trial=9, learning_rate=0.5), 6, seed=4) == first
    assert evaluate(agents / "even", settings(), 3, seed=4).scores == first.scores[:3]
    assert evaluate(agents / "even", settings(), 6, seed=5).scores != first.scores
    assert evaluate(agents / "left", settings(), 6, seed=4).mean < 11
    assert (agents / "even").read_bytes() == before


def test_scores_are_not_clipped(tmp_path: Path) -> None:
    """MountainCar pays -1 a step, and 200 of them."""
    played = settings(game="MountainCar-v0")
    worker = Worker(played)
    worker.save(tmp_path / "c")
    worker.close()
    assert evaluate(tmp_path / "c", played, 2, seed=0).scores == (-200.0, -200.0)


def test_what_cannot_be_played_says_why(agents: Path) -> None:
    with pytest.raises(DivergedError, match="the policy is not finite"):
        evaluate(agents / "nan", settings(), 1, seed=0)
    with pytest.raises(LiveError, match=r"broken: not a readable checkpoint: "):
        evaluate(agents / "broken", settings(), 1, seed=0)
    with pytest.raises(LiveError, match=r"even: the weights are not those .* for Acrobot-v1: "):
        evaluate(agents / "even", settings(game="Acrobot-v1"), 1, seed=0)


def test_the_winner_is_who_plays_best_not_who_scored_best(agents: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    candidates = [
        candidate(agents, "left", 2, 90.0),
        candidate(agents, "right", 7, 10.0),  # the fourth: does not play
        candidate(agents, "even", 5, 80.0),
        candidate(agents, "nan", 1, 95.0),
    ]
    choice = pick_winner(
        candidates, tmp_path, episodes=8, seed=3, processes=2,
        progress=lambda *counts: told.append(counts),
    )  # fmt: skip
    assert told == [(k, 24) for k in range(1, 25)]
    assert (choice.winner, choice.runner_up, choice.clear) == (5, 2, True)
    assert [player.trial for player in choice.players] == [5, 2, 1]
    assert choice.players[2].failure == "the policy is not finite"
    assert choice.players[2].evaluation is None
    even = evaluate(agents / "even", settings(), 8, seed=3)
    left = evaluate(agents / "left", settings(), 8, seed=3)
    assert [player.evaluation for player in choice.players[:2]] == [even, left]
    differences = [a - b for a, b in zip(even.scores, left.scores, strict=True)]
    assert (choice.difference, choice.interval) == mean_interval(differences)
    assert choice.difference == pytest.approx(even.mean - left.mean)

    best = tmp_path / "best"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best"]
    assert sorted(path.name for path in best.iterdir()) == [
        "checkpoint.pt", "evaluation.json", "hparams.json",
    ]  # fmt: skip
    assert (best / "checkpoint.pt").read_bytes() == (agents / "even").read_bytes()
    assert read_about(best) == About(5, {"learning_rate": 6e-3}, settings(trial=5))
    written = msgspec.json.decode((best / "evaluation.json").read_bytes(), type=Choice)
    assert written == choice
    assert "settings" in json.loads((best / "hparams.json").read_text())


def player(trial: int, scores: list[float], search_score: float = 0.0) -> Player:
    mean, interval = mean_interval(scores)
    return Player(trial, {}, search_score, Evaluation(tuple(scores), mean, interval))


def line(*players: Player, episodes: int = 4) -> str:
    return winner._choose(players, episodes, 0).line


def test_it_says_who_won_by_how_much_and_whether_that_is_chance() -> None:
    # 0.5 s / root 4 is 0.5; t of 3 degrees of freedom is 3.182.
    assert line(player(4, [10.0, 11, 12, 13]), player(2, [5.0, 7, 7, 9])) == (
        "trial 4, mean score 11.5 (95 % interval 9.446 to 13.55) over 4 fresh episodes; 4.5 more "
        "than trial 2 (95 % interval 3.581 to 5.419), which is more than chance"
    )
    assert line(player(4, [10.0, 11, 12, 13]), player(2, [13.0, 7, 16, 5])) == (
        "trial 4, mean score 11.5 (95 % interval 9.446 to 13.55) over 4 fresh episodes; 1.25 more "
        "than trial 2 (95 % interval -7.879 to 10.38), which may be chance"
    )
    assert line(player(4, [1234.5]), player(2, [7.0]), episodes=1) == (
        "trial 4, mean score 1,234 over 1 fresh episode; 1,228 more than trial 2; whether by "
        "chance, one episode cannot tell"
    )
    assert line(player(4, [3.0, 3.0])) == (
        "trial 4, mean score 3 (95 % interval 3 to 3) over 4 fresh episodes"
    )
    assert line(Player(4, {}, 17.5)) == "trial 4, by its score in the search (17.5)"


def test_ties_are_broken_by_the_search_and_are_not_clear() -> None:
    """`players` come by their scores in the search."""
    same = [500.0] * 4
    choice = winner._choose([player(9, same), player(2, same), player(3, [499.0] * 4)], 4, 0)
    assert (choice.winner, choice.runner_up, choice.clear) == (9, 2, False)
    assert (choice.difference, choice.interval) == (0.0, (0.0, 0.0))
    assert winner._choose([player(9, same), player(3, [499.0] * 4)], 4, 0).clear


def test_one_that_is_no_better_is_rarely_called_better() -> None:
    """Three equal trials: the best of them is clear in less than 5 of 100 comparisons."""
    random = np.random.default_rng(11)
    clear = 0
    for scores in random.normal(100.0, 15.0, (1500, 3, 10)):
        players = [player(k, each.tolist()) for k, each in enumerate(scores)]
        clear += winner._choose(players, 10, 0).clear
    assert 0 < clear / 1500 < 0.05


def test_without_candidates_or_any_that_plays_nothing_is_written(
    agents: Path, tmp_path: Path
) -> None:
    with pytest.raises(LiveError, match="no checkpoint to choose the winner from"):
        pick_winner([], tmp_path)
    broken = [candidate(agents, "broken", 3, 1.0), candidate(agents, "nan", 4, 2.0)]
    with pytest.raises(LiveError) as caught:
        pick_winner(broken, tmp_path, episodes=1)
    assert str(caught.value).startswith(
        "no trial can be played: trial 4: the policy is not finite; trial 3: "
    )
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_episodes_the_search_decides(agents: Path, tmp_path: Path) -> None:
    candidates = [candidate(agents, "left", 2, 9.0), candidate(agents, "even", 5, 8.0)]
    choice = pick_winner(candidates, tmp_path, episodes=0)
    assert (choice.winner, choice.runner_up, choice.episodes, choice.clear) == (2, None, 0, False)
    assert choice.line == "trial 2, by its score in the search (9)"
    assert read_about(tmp_path / "best").trial == 2


def test_a_program_of_the_users_is_kept_as_it_saved_itself(tmp_path: Path) -> None:
    saved = tmp_path / "data"
    (saved / "deep").mkdir(parents=True)
    (saved / "deep" / "weights").write_text("1 2 3")
    own = {"settings": None, "checkpoint": saved}
    low, high = candidate(tmp_path, "", 1, 0.5, **own), candidate(tmp_path, "", 2, 0.7, **own)
    run = tmp_path / "run"
    run.mkdir()
    assert pick_winner([low, high], run, episodes=10).winner == 2
    assert pick_winner([low, high], run, episodes=10, mode="min").winner == 1
    assert (run / "best" / "checkpoint" / "deep" / "weights").read_text() == "1 2 3"
    assert read_about(run / "best") == About(1, {"learning_rate": 2e-3})


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """A run with a winner that is there already."""
    (tmp_path / "old").write_text("old weights")
    keep(tmp_path, tmp_path / "old", About(1, {}, settings()), {})
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "new").write_text("new weights")
    yield tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "new"]
    assert len(list((tmp_path / "best").iterdir())) == 3


@pytest.mark.parametrize("breaks", ["copyfile", "_pretty", "_sync", "rename"])
def test_what_was_there_stays_where_writing_fails(
    breaks: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    if breaks == "copyfile":
        monkeypatch.setattr(best_module.shutil, "copyfile", fails)
    elif breaks == "rename":
        rename = Path.rename
        monkeypatch.setattr(
            Path, "rename", lambda path, to: fails() if ".new" in path.name else rename(path, to)
        )
    else:
        monkeypatch.setattr(best_module, breaks, fails)
    with pytest.raises(OSError, match="No space left"):
        keep(kept, kept / "new", About(2, {}, settings()), {})
    assert (kept / "best" / "checkpoint.pt").read_text() == "old weights"
    assert read_about(kept / "best").trial == 1


def test_a_kill_between_two_renames_is_mended(kept: Path) -> None:
    (kept / "best").rename(kept / ".best.old")
    (kept / ".best.new").mkdir()
    keep(kept, kept / "new", About(2, {}, settings()), {})
    assert (kept / "best" / "checkpoint.pt").read_text() == "new weights"
    assert read_about(kept / "best").trial == 2


def test_what_does_not_tell_of_a_winner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LiveError, match=r"hparams\.json: No such file or directory$"):
        read_about(tmp_path)
    wrong = ('{"game": 5}', '{"game": "Pong", "gamma": 7}')
    abouts = [f'{{"trial": 1, "hparams": {{}}, "settings": {each}}}' for each in wrong]
    for text in ("", "{}", "[1]", *abouts):
        (tmp_path / "hparams.json").write_text(text)
        with pytest.raises(LiveError, match=r"hparams\.json: this does not tell of a winner: "):
            read_about(tmp_path)


def test_checkpoints_say_what_they_were_trained_with(agents: Path) -> None:
    assert msgspec.convert(read_checkpoint(agents / "even")["settings"], Settings) == settings()
