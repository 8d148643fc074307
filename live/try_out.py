"""Whether GA3C can train a game with these settings at all: tried in a process of its own.

`python -m simsched.live.try_out` makes the environment and the network that standard input
describes, and prints why that cannot be. The coordinator of a search never imports torch.
"""

import subprocess
import sys
from contextlib import closing
from typing import Any

import msgspec

from simsched.errors import SimschedError
from simsched.live.errors import LiveError
from simsched.live.search import configurations
from simsched.live.settings import LiveSettings

PATIENCE_S = 300.0
DECIDING = ("network", "device", "stride")
"""Settings that an environment, a network or a machine may not fit."""


def try_out(settings: LiveSettings) -> None:
    """Make the first trial's environment and network once, in another process.

    An Atari game is not tried where none of the settings that might not fit is given: that is
    known to work, and importing torch takes seconds.

    Raises:
        LiveError: they cannot be made; the reason.
    """
    from simsched.live.ga3c.games import is_atari

    given = {*settings.training, *settings.space}
    if settings.game is not None and is_atari(settings.game) and given.isdisjoint(DECIDING):
        return
    fields = {
        "game": settings.game,
        "seed": settings.seed,
        **settings.training,
        **configurations(msgspec.structs.replace(settings, workers=1))[0],
    }
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, no arguments of the user's
            [sys.executable, "-P", "-m", __name__],
            input=msgspec.json.encode(fields),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LiveError(
            f"{settings.game}: its environment was not made in {PATIENCE_S:g} s"
        ) from None
    if done.returncode != 0:
        said = (done.stdout or done.stderr).decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {done.returncode}"
        raise LiveError(reason if done.stdout else f"{settings.game}: a worker fails: {reason}")


def main() -> int:
    """Try out the settings on standard input; 2 where they cannot be, the reason printed."""
    fields: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())
    try:
        _make(fields)
    except SimschedError as error:
        print(error)
        return 2
    return 0


def _make(fields: dict[str, Any]) -> None:
    from simsched.live.ga3c.environment import EnvironmentGroup
    from simsched.live.ga3c.network import build
    from simsched.live.ga3c.settings import settings_from
    from simsched.live.ga3c.transfer import choose_device

    settings = settings_from(fields)
    choose_device(settings.device)
    with closing(EnvironmentGroup(settings, 1)) as group:
        shape, dtype = group.observation_shape, group.observation_dtype
        build(settings, shape, dtype, group.actions, seed=0)


if __name__ == "__main__":
    sys.exit(main())
