"""A trained network from a checkpoint, to be played with."""

from pathlib import Path

from torch import nn

from simsched.live.errors import LiveError
from simsched.live.ga3c.checkpoint import game_in, read_checkpoint
from simsched.live.ga3c.environment import EnvironmentGroup
from simsched.live.ga3c.games import canonical_game
from simsched.live.ga3c.network import build
from simsched.live.ga3c.settings import Settings


def load_network(checkpoint: Path, settings: Settings) -> nn.Module:
    """Return the network of a checkpoint, on the processor.

    Args:
        checkpoint: what a worker saved; nothing in it is executed.
        settings: those that it was trained with.

    Raises:
        LiveError: the file is no checkpoint, or is one of another game or network.
    """
    state = read_checkpoint(checkpoint)
    if game_in(state) not in (None, canonical_game(settings.game)):
        raise LiveError(
            f"{checkpoint}: the weights are not those of a network for {settings.game}: they are "
            f"of {game_in(state)}"
        )
    group = EnvironmentGroup(settings, 1)
    try:
        network = build(
            settings, group.observation_shape, group.observation_dtype, group.actions, seed=0
        )
    finally:
        group.close()
    try:
        network.load_state_dict(state["network"])
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise LiveError(
            f"{checkpoint}: the weights are not those of a network for {settings.game}: {reason}"
        ) from error
    return network
