"""What may change while a worker trains: population based training changes it."""

from typing import Any, get_type_hints

import msgspec

from simsched.live.errors import LiveError
from simsched.live.ga3c.settings import Settings

CHANGEABLE = ("learning_rate", "t_max", "gamma", "entropy_weight", "clip_norm")
"""Settings that can change at run time."""
OF_WEIGHTS = (
    "game", "algorithm", "optimizer", "preprocessing", "full_action_space", "network", "stride",
)  # fmt: skip
"""Settings that weights and optimizer state belong to: no trial with others can take them."""


class Knobs:
    """Holds the settings of a worker; every part of it reads them here, each time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def change(self, **changes: Any) -> None:
        """Change settings at run time; t_max counts from each agent's next segment.

        Raises:
            LiveError: a value cannot work, or the setting cannot change; nothing changes then.
        """
        for name in changes:
            if name not in CHANGEABLE:
                raise LiveError(
                    f"{name}: cannot change while training, only {', '.join(CHANGEABLE)} can"
                )
        hints = get_type_hints(Settings)
        for name, value in changes.items():
            try:
                msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                raise LiveError(f"{name}: {value!r} cannot be used: {error}") from error
        self.settings = msgspec.structs.replace(self.settings, **changes)

    def learning_rate(self, steps: int) -> float:
        """Return the learning rate after so many agent steps."""
        settings = self.settings
        return settings.learning_rate * _left(steps, settings.anneal_steps)

    def entropy_weight(self, steps: int) -> float:
        """Return the weight of the entropy bonus after so many agent steps."""
        settings = self.settings
        return settings.entropy_weight * _left(steps, settings.entropy_anneal_steps)


def _left(steps: int, total: int) -> float:
    return max(0.0, 1.0 - steps / total) if total else 1.0
