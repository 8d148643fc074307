"""What a recording is to hold, written down before the first trial starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from simsched.draws import keyed
from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import PRESETS, Settings
from simsched.live.parts import write_atomically
from simsched.live.training import Clock
from simsched.messages import Hparams
from simsched.space import PUBLISHED_GA3C

PLAN_FILE = "plan.json"


class Session(msgspec.Struct, frozen=True):
    """One call that trained for this recording: an interrupted recording has several."""

    date: str
    cores: int
    hardware: str
    versions: dict[str, str]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A recording: its trials with their hyperparameters, and everything they share."""

    game: str
    trials: int
    steps: int
    """Agent steps of each trial, summed over its agents."""
    seed: int
    space: dict[str, Any]
    training: dict[str, Any]
    """The settings that all trials share."""
    cores_per_trial: int = 1
    clock: Clock = "wall"
    """What `seconds` are."""
    hparams: list[Hparams]
    """By trial."""
    sessions: list[Session] = []
    output_sha256: str = ""
    """Of the assembled file, once there is one."""

    def settings(self, trial: int) -> Settings:
        """Return one trial's settings."""
        fields = {**self.training, **self.hparams[trial]}
        try:
            return msgspec.convert(
                {"game": self.game, "seed": self.seed, "trial": trial, **fields}, Settings
            )
        except msgspec.ValidationError as error:  # what Settings itself refuses comes so, too
            raise LiveError(f"trial {trial}: {error}") from error

    def save(self, parts: Path) -> None:
        """Write the plan into the parts folder."""
        content = msgspec.json.format(msgspec.json.encode(self), indent=2)
        write_atomically(parts / PLAN_FILE, content + b"\n")


def make_plan(
    game: str,
    *,
    trials: int,
    steps: int,
    seed: int,
    cores_per_trial: int = 1,
    clock: Clock = "wall",
    training: Mapping[str, Any] = PRESETS["repeatable"],
) -> Plan:
    """Draw the trials of a recording from the published GA3C search space.

    Trial k gets what random search with this seed suggests to its trial k.

    Args:
        game: its canonical name.
        trials: how many configurations.
        steps: agent steps of each.
        seed: keys every draw.
        cores_per_trial: cores that one trial has to itself.
        clock: what `seconds` are: wall time, or processor time of trials in one thread.
        training: settings that all trials share, where they differ from the defaults.

    Raises:
        LiveError: a value makes no sense. Whether the game exists is not checked here.
    """
    for name, value in (("trials", trials), ("steps", steps)):
        if value < 1:
            raise LiveError(f"{name}: {value} is too small, use 1 or more")
    own = {"game", "seed", "trial", *PUBLISHED_GA3C.parameters}
    shared = {name: value for name, value in training.items() if name not in own}
    settings = Settings(game=game, seed=seed, **shared)
    return Plan(
        game=game,
        trials=trials,
        steps=steps,
        seed=seed,
        space=PUBLISHED_GA3C.to_json(),
        training={
            key: value for key, value in msgspec.structs.asdict(settings).items() if key not in own
        },
        cores_per_trial=cores_per_trial,
        clock=clock,
        hparams=[PUBLISHED_GA3C.sample(keyed(seed, "suggest", trial)) for trial in range(trials)],
    )


def read_plan(parts: Path) -> Plan | None:
    """Read the plan of a parts folder; None if there is none yet.

    Raises:
        LiveError: the file cannot be read as a plan.
    """
    path = parts / PLAN_FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except msgspec.DecodeError as error:
        raise LiveError(f"{path}: not the plan of a recording: {error}") from error


def require_same(recorded: Plan, asked: Plan, parts: Path) -> None:
    """Raise LiveError, saying what differs, if two plans are not of the same recording."""
    found = _differences(_comparable(recorded), _comparable(asked))
    if not found:
        # Only now: other options mean other trials, and would bury the reason.
        old, new = (dict(enumerate(plan.hparams)) for plan in (recorded, asked))
        found = [f"trial {t} is {old[t]} there and {new[t]} here" for t in old if old[t] != new[t]]
    if found:
        raise LiveError(
            f"{parts}: holds another recording: {'; '.join(found[:3])}; "
            "use the same options to go on with it, or another --out"
        )


def _comparable(plan: Plan) -> dict[str, Any]:
    ignored = {"sessions", "output_sha256", "hparams"}
    # Through JSON, as the recorded plan has been: tuples become lists.
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan))
    return {name: value for name, value in fields.items() if name not in ignored}


def _differences(recorded: dict[str, Any], asked: dict[str, Any], prefix: str = "") -> list[str]:
    """Return what differs between two plans, one phrase each, nested keys dotted."""
    found = []
    for key in sorted(recorded.keys() | asked.keys()):
        old, new = recorded.get(key), asked.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found.extend(_differences(old, new, f"{prefix}{key}."))
        elif old != new:
            found.append(f"{prefix}{key} is {old} there and {new} here")
    return found
