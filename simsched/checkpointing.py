"""When trials are saved: as the scheduler needs it, at every milestone, or every so often.

The intervals are those of Young (1974) and Daly (2006): with saves that take C and failures M
apart in the mean, Young's sqrt(2 C M) is the best to first order. Daly's is closer where C is no
small part of M:

    sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) + 1/9 C / 2M) - C    for C < 2M, else M.
"""

import math
import re

import msgspec

from simsched.cluster import Fleet
from simsched.errors import SimschedError, nearest
from simsched.retries import SavePolicy
from simsched.timeline import US_PER_S

KINDS = ("scheduler", "milestone", "every", "young", "daly")
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
USAGE = "scheduler, milestone, every:10m, young, daly, daly:24h or milestone+every:10m"


class Saving(msgspec.Struct, frozen=True):
    """A policy as it was asked for."""

    kind: str
    seconds: float | None = None
    """Of every: the interval; of young and daly: the mean time between failures."""
    milestones: bool = False
    """Every milestone is saved, too."""

    @property
    def save_at(self) -> SavePolicy:
        """Which milestones are saved; what is saved in between comes on top."""
        return "milestone" if self.milestones else "scheduler"

    def interval_us(self, save_s: float, between_s: float | None) -> int | None:
        """Return the time between two saves in mid-phase; None where there are none.

        Args:
            save_s: what a save takes.
            between_s: mean time between failures of a node, where the policy does not say it.

        Raises:
            SimschedError: the formula has no failures to go by, or saves cost nothing.
        """
        if self.kind in ("scheduler", "milestone"):
            return None
        if self.kind == "every":
            assert self.seconds is not None  # noqa: S101 - parsed so
            return round(self.seconds * US_PER_S)
        between_s = self.seconds or between_s
        if between_s is None:
            raise SimschedError(
                f"checkpoints: {self.kind} needs to know how often nodes fail: say "
                f"{self.kind}:24h, or give the nodes of the cluster failures, or spot preemption "
                "with a notice that is shorter than a save"
            )
        if not save_s > 0:
            raise SimschedError(
                f"checkpoints: {self.kind}: saving costs nothing, so there is no best interval; "
                "say what it costs, or every:10m"
            )
        formula = young_s if self.kind == "young" else daly_s
        return max(1, round(formula(save_s, between_s) * US_PER_S))


def parse_saving(text: str) -> Saving:
    """Return the policy that a text names. Raises SimschedError, with what would be right."""
    stripped = "".join(text.split())
    rest = stripped.removeprefix("milestone+")
    milestones = rest != stripped or stripped == "milestone"
    kind, colon, length = rest.partition(":")
    if kind not in KINDS:
        raise SimschedError(
            f"checkpoints: {text!r} is no policy{nearest(kind, list(KINDS))}; there are: {USAGE}"
        )
    if not colon and (kind in ("young", "daly") or rest == stripped) and kind != "every":
        return Saving(kind, None, milestones)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", length)
    seconds = float(match[1]) * UNITS_S[match[2] or "s"] if match else 0.0
    if kind in ("scheduler", "milestone") or not 0.001 <= seconds <= 1e9:
        raise SimschedError(f"checkpoints: {text!r} is no policy; there are: {USAGE}")
    return Saving(kind, seconds, milestones)


def young_s(save_s: float, between_s: float) -> float:
    """Return Young's interval of training between two saves (1974), in seconds."""
    return math.sqrt(2 * save_s * between_s)


def daly_s(save_s: float, between_s: float) -> float:
    """Return Daly's interval of training between two saves (2006), in seconds."""
    if save_s >= 2 * between_s:
        return between_s
    part = save_s / (2 * between_s)
    return young_s(save_s, between_s) * (1 + math.sqrt(part) / 3 + part / 9) - save_s


def lost_s(interval_s: float, save_s: float, between_s: float) -> float:
    """Return what a failure costs in training that is done again, in the mean, in seconds.

    Failures are exponential with mean M, cycles are τ of training and C of saving, and a
    failure while a save is made loses the whole τ: ∫ min(t, τ) f(t) dt over a cycle, where f(t),
    t < τ + C, is the exponential density given that the failure falls into the cycle.
    """
    cycle, tau, mean = interval_s + save_s, interval_s, between_s
    norm = -math.expm1(-cycle / mean)
    # ∫0..τ t e^(-t/M)/M dt = M - (M + τ) e^(-τ/M);  ∫τ..cycle τ e^(-t/M)/M dt
    within = mean - (mean + tau) * math.exp(-tau / mean)
    saving = tau * (math.exp(-tau / mean) - math.exp(-cycle / mean))
    return (within + saving) / norm


def between_losses_s(fleet: Fleet) -> float | None:
    """Return the mean time between losses of a node, over the nodes of a fleet; None: never.

    A spot instance whose notice is long enough for a save (that has the store for itself) loses
    nothing.
    """
    rate = nodes = 0.0
    save_s = save_cost_s(fleet)
    for kind in fleet.nodes:
        count = fleet.most(kind)
        nodes += count
        if kind.failures is not None and kind.failures.mean_time_between_s is not None:
            rate += count / kind.failures.mean_time_between_s
        if kind.spot is not None and kind.spot.notice_s < save_s:
            rate += count / kind.spot.mean_time_between_s
    return nodes / rate if rate else None


def save_cost_s(fleet: Fleet) -> float:
    """Return what a save takes that has the store for itself."""
    store = fleet.store
    transfer_s = 0.0 if store is None else store.checkpoint_mb / store.bandwidth_mb_per_s
    return fleet.costs.save_s + transfer_s
