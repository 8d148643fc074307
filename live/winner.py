"""The winner of a search: the best trials play fresh episodes, and the best of them is kept.

A score that a scheduler saw was made while training, and the best of many is partly luck. So the
best few play episodes that none has seen, with frozen weights, on the same seeds; their means
are compared episode by episode. `best` keeps the winner.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from simsched.live.best import About, keep
from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.settings import Settings
from simsched.messages import Hparams, TrialId
from simsched.processes import side_by_side

PLAYERS = 3
"""Candidates that play; the others are passed over."""
CONFIDENCE = 0.95


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that could be the winner."""

    trial: TrialId
    checkpoint: Path
    settings: Settings | None
    """None for a program of the user's: it cannot be played here."""
    hparams: Hparams
    score: float
    """What the search saw, in the metric's own sense."""


class Evaluation(msgspec.Struct, frozen=True):
    """Fresh episodes of one trial."""

    scores: tuple[float, ...]
    mean: float
    interval: tuple[float, float] | None
    """95 %, by Student's t; None for a single episode."""
    steps: tuple[int, ...] = ()
    """Agent steps of each episode."""


class Player(msgspec.Struct, frozen=True):
    """A candidate, and what it came to."""

    trial: TrialId
    hparams: Hparams
    search_score: float
    evaluation: Evaluation | None = None
    failure: str | None = None
    """Why it could not play."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which trial won, and how sure that is."""

    winner: TrialId
    runner_up: TrialId | None
    difference: float | None
    """By which the winner's mean is above the runner-up's."""
    interval: tuple[float, float] | None
    """95 % interval of the difference, from the episodes in pairs; None where they are too few."""
    clear: bool
    """Whether the interval is above 0."""
    episodes: int
    seed: int
    players: tuple[Player, ...]
    """The winner first, then by mean; those that could not play come last."""

    @property
    def line(self) -> str:
        """What people are told, in a line."""
        first = self.players[0]
        if first.evaluation is None:
            return (
                f"trial {self.winner}, by its score in the search ({_number(first.search_score)})"
            )
        said = f"trial {self.winner}, mean score {_number(first.evaluation.mean)}"
        said += _range(first.evaluation.interval)
        said += f" over {self.episodes} fresh episode{'s' if self.episodes > 1 else ''}"
        if self.difference is None:
            return said
        said += f"; {_number(self.difference)} more than trial {self.runner_up}"
        if self.clear:
            return f"{said}{_range(self.interval)}, which is more than chance"
        if self.interval is None:
            return f"{said}; whether by chance, one episode cannot tell"
        return f"{said}{_range(self.interval)}, which may be chance"


def evaluate(checkpoint: Path, settings: Settings, episodes: int, seed: int) -> Evaluation:
    """Play fresh episodes with a checkpoint's frozen weights, on this thread.

    Args:
        checkpoint: what a GA3C worker saved.
        settings: those that it was trained with.
        episodes: how many, 1 or more.
        seed: they depend on it and their place alone, so trials can be compared on the same ones.

    Returns unclipped, undiscounted scores, and their mean.

    Raises:
        DivergedError: the policy is not finite.
        LiveError: the checkpoint cannot be read, or is not of this game or network.
    """
    from simsched.live.ga3c import evaluation
    from simsched.live.ga3c.trained import load_network

    network = load_network(checkpoint, settings)
    return _summed(evaluation.evaluate(network, settings, seed=seed, episodes=episodes))


def _summed(played: Sequence[tuple[float, int]]) -> Evaluation:
    scores = tuple(score for score, _ in played)
    mean, interval = mean_interval(scores)
    return Evaluation(scores, mean, interval, tuple(steps for _, steps in played))


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of some values and its 95 % interval, None for one value.

    By Student's t with n - 1 degrees of freedom (Student 1908, Biometrika 6).
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, None
    from scipy.special import stdtrit

    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * math.sqrt(variance / n)
    return mean, (mean - half, mean + half)


def pick_winner(
    candidates: Sequence[Candidate],
    folder: Path,
    *,
    episodes: int = 10,
    seed: int = 0,
    mode: Literal["max", "min"] = "max",
    processes: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Choice:
    """Let the best candidates play fresh episodes, keep the best of them in `best/`.

    Episodes are played in new processes, each with one thread; they run on the cores that this
    process may use. A candidate that cannot play, because its weights are not finite or its
    checkpoint is damaged, is passed over and the reason noted.

    Args:
        candidates: the best by the search's scores play, at most three.
        folder: the run's; `best` in it is replaced, when all else is done.
        episodes: for each candidate; 0 plays none, then the search's scores decide.
        seed: of the episodes, the same for each candidate.
        mode: whether a high or a low score of the search is good.
        processes: to play in, side by side.
        progress: told how many episodes are over, and of how many.

    Raises:
        LiveError: there is no candidate, or none can play.
        OSError: the winner cannot be written.
    """
    if not candidates:
        raise LiveError("there is no checkpoint to choose the winner from")
    sign = -1.0 if mode == "min" else 1.0
    ranked = sorted(candidates, key=lambda each: (-sign * each.score, each.trial))[:PLAYERS]
    if episodes and any(each.settings is not None for each in ranked):
        ranked = [each for each in ranked if each.settings is not None]
        players = _play(ranked, episodes, seed, processes, progress)
    else:
        episodes = 0
        players = [Player(each.trial, each.hparams, each.score) for each in ranked]
    choice = _choose(players, episodes, seed)
    (winner,) = (each for each in ranked if each.trial == choice.winner)
    keep(folder, winner.checkpoint, About(winner.trial, winner.hparams, winner.settings), choice)
    return choice


class _Game(NamedTuple):
    candidate: int
    episode: int


class _Played(NamedTuple):
    """An episode; `failure` says why there was none."""

    score: float = 0.0
    steps: int = 0
    failure: str | None = None


class _Setup(NamedTuple):
    candidates: Sequence[Candidate]
    seed: int


def _prepare(setup: _Setup) -> Callable[[_Game], _Played]:
    """Return, in a process of its own, what plays an episode."""
    import torch

    from simsched.live.ga3c import evaluation
    from simsched.live.ga3c.trained import load_network

    torch.set_num_threads(1)  # processes share the cores
    networks: dict[int, torch.nn.Module] = {}

    def play(game: _Game) -> _Played:
        candidate = setup.candidates[game.candidate]
        assert candidate.settings is not None  # noqa: S101 - others are not asked to play
        try:
            if game.candidate not in networks:
                network = load_network(candidate.checkpoint, candidate.settings)
                networks[game.candidate] = network
            [played] = evaluation.evaluate(
                networks[game.candidate], candidate.settings, seed=setup.seed, first=game.episode
            )
        except (DivergedError, LiveError) as error:
            return _Played(failure=str(error))
        return _Played(*played)

    return play


def _play(
    candidates: Sequence[Candidate],
    episodes: int,
    seed: int,
    processes: int,
    progress: Callable[[int, int], object] | None,
) -> list[Player]:
    games = [_Game(k, episode) for episode in range(episodes) for k in range(len(candidates))]
    played: dict[int, list[_Played]] = {k: [] for k in range(len(candidates))}
    results = side_by_side(_prepare, _Setup(candidates, seed), games, max(1, processes))
    for done, (game, result) in enumerate(zip(games, results, strict=True), start=1):
        played[game.candidate].append(result)
        if progress is not None:
            progress(done, len(games))
    return [_player(each, played[k]) for k, each in enumerate(candidates)]


def _player(candidate: Candidate, played: Sequence[_Played]) -> Player:
    failure = next((each.failure for each in played if each.failure is not None), None)
    evaluation = None
    if failure is None:
        evaluation = _summed([(each.score, each.steps) for each in played])
    return Player(candidate.trial, candidate.hparams, candidate.score, evaluation, failure)


def _choose(players: Sequence[Player], episodes: int, seed: int) -> Choice:
    """Return who won; `players` come in the order of the search's scores, which breaks ties."""
    able = sorted(
        (player for player in players if player.failure is None),
        key=lambda player: 0.0 if player.evaluation is None else -player.evaluation.mean,
    )
    if not able:
        reasons = "; ".join(f"trial {player.trial}: {player.failure}" for player in players)
        raise LiveError(f"no trial can be played: {reasons}")
    runner_up, difference, interval = None, None, None
    if len(able) > 1 and able[0].evaluation is not None and able[1].evaluation is not None:
        runner_up = able[1].trial
        pairs = zip(able[0].evaluation.scores, able[1].evaluation.scores, strict=True)
        difference, interval = mean_interval([one - other for one, other in pairs])
    return Choice(
        winner=able[0].trial,
        runner_up=runner_up,
        difference=difference,
        interval=interval,
        clear=interval is not None and interval[0] > 0,
        episodes=episodes,
        seed=seed,
        players=(*able, *(player for player in players if player.failure is not None)),
    )


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _range(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    return f" (95 % interval {_number(interval[0])} to {_number(interval[1])})"
