"""What a live search gets that nobody asked for: a preset, the length of a phase; and why."""

from collections.abc import Sequence

from simsched.errors import SimschedError
from simsched.live.errors import LiveError
from simsched.live.nodes import Node
from simsched.messages import Unit

ATARI_STEPS, ATARI_GPU_STEPS, OTHER_STEPS = 20_000, 100_000, 75_000
ATARI_EPISODES, ATARI_GPU_EPISODES, OTHER_EPISODES = 30, 150, 300
PHASE_S = 15
"""Default lengths of a phase. With the preset `repeatable` one core trains some 1,300 steps of an
Atari game a second, and some 600 make an episode; CartPole and MinAtar are ten times as fast. So a
phase takes about 15 s (of other games 5 s), and 5 s to start a worker do not dominate: the default
search of 16 trials takes about 7 minutes on two cores."""


def preset_for(nodes: Sequence[Node]) -> tuple[str, str]:
    """Return the preset of GA3C that suits these nodes, and why."""
    if all(node.gpu is None and len(node.cores) == 1 for node in nodes):
        return "repeatable", "a node is one core"
    return "fast", "a node has a GPU" if nodes[0].gpu is not None else "a node has several cores"


def game_phase_length(game: str, unit: Unit, phases: int, nodes: Sequence[Node]) -> tuple[int, str]:
    """Return the length of a phase of GA3C, and why it is so.

    It is cut to what recorded curves of the game can rehearse, if there are any.
    """
    from simsched.live.ga3c.games import is_atari

    atari, on_gpu = is_atari(game), any(node.gpu is not None for node in nodes)
    if unit == "seconds":
        length = PHASE_S
    elif unit == "steps":
        length = OTHER_STEPS if not atari else ATARI_GPU_STEPS if on_gpu else ATARI_STEPS
    else:
        length = OTHER_EPISODES if not atari else ATARI_GPU_EPISODES if on_gpu else ATARI_EPISODES
    longest = _longest_recorded(game, unit, phases)
    if longest is not None and longest < length:
        return longest, f"the longest that the recorded curves of {game} can rehearse"
    place = f" on {'a GPU' if on_gpu else 'cores'}" if atari else ""
    return length, f"the default of {'Atari games' if atari else 'games that are not Atari'}{place}"


def _longest_recorded(game: str, unit: Unit, phases: int) -> int | None:
    from simsched.live.rehearsal import recorded_curves
    from simsched.recorded import default_phase_length

    recorded = recorded_curves(game)
    try:
        return None if recorded is None else default_phase_length(recorded, unit, phases)
    except SimschedError:  # they are shorter than one unit a phase
        return None


def of_command(unit: Unit | None, phase_length: int | None) -> tuple[Unit, int, list[str]]:
    """Return unit and length of a phase for a command of the user's, and what was derived.

    Raises:
        LiveError: the length is not given, and nothing is known of the unit.
    """
    derived = []
    if unit is None:
        unit = "reports"
        derived.append("unit reports: the default of a command")
    if phase_length is None:
        known: dict[Unit, int] = {"reports": 1, "seconds": PHASE_S}
        if unit not in known:
            raise LiveError(
                f"--phase-length: say how many {unit} a phase of the command has; "
                "there is a default only for --unit reports and seconds"
            )
        phase_length = known[unit]
        derived.append(f"phase length {length_text(phase_length, unit)}: the default of a command")
    return unit, phase_length, derived


def length_text(length: int, unit: str) -> str:
    """Return "20,000 steps" or "1 report"."""
    return f"{length:,} {unit if length != 1 else unit.removesuffix('s')}"
