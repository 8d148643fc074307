"""An unreliable cluster that has all there is, and runs with every kind of time."""

from analysis_runs import hand_made, result, settings

from simsched.cluster import (
    CheckpointStore,
    Costs,
    Fleet,
    Maintenance,
    NodeFailures,
    NodeKind,
    NodeOutage,
    Scale,
    Spot,
    Stragglers,
)
from simsched.results import RunResult, Settings
from simsched.timeline import KINDS, US_PER_S, Interval, Timeline

FULL = Fleet(
    nodes=(
        NodeKind(
            name="own",
            count=2,
            price_per_hour=3.25,
            failures=NodeFailures(
                mean_time_between_s=604_800,
                distribution="weibull",
                shape=0.7,
                repair_s=1_800,
                repair="exponential",
                outages=(NodeOutage(node=1, from_s=90, to_s=200),),
            ),
        ),
        NodeKind(
            name="spot",
            count=3,
            speed=0.7,
            price_per_hour=1,
            boot_s=20,
            spot=Spot(mean_time_between_s=7_200, notice_s=0, return_s=300),
        ),
        NodeKind(name="spare"),
    ),
    maintenance=(
        Maintenance(from_s=43_200, to_s=75_600, notice_s=60),
        Maintenance(from_s=300, to_s=1e15, nodes=(0, 1, 2, 7)),
        Maintenance(from_s=5, to_s=9.5, kind="spare"),
    ),
    scale=(
        Scale(at_s=600, count=2, kind="spot", notice_s=20),
        Scale(at_s=120, count=5, kind="spot"),
    ),
    store=CheckpointStore(bandwidth_mb_per_s=30, checkpoint_mb=100),
    stragglers=Stragglers(probability=0.125, slowdown=3),
    costs=Costs(start_s=10, hand_over_s=0.1),
)


def on(fleet: Fleet | None, **changes: object) -> Settings:
    name = None if fleet is None else "cluster.toml"
    nodes = (6,) if fleet is None else (fleet.size,)
    return settings(cluster=fleet, cluster_name=name, nodes=nodes, **changes)


def timeline(nodes: int = 8) -> Timeline:
    """Each node in turn does a different kind of thing for 10 s, and is idle for another 10."""
    intervals = []
    for node in range(nodes):
        kind = KINDS[node % len(KINDS)]
        trial = -1 if kind in ("grace", "down", "idle") else node
        step = -1 if trial < 0 else 2500
        intervals += [
            Interval(node, trial, min(trial, 0), kind, 0, 10 * US_PER_S, step),
            Interval(node, -1, -1, "idle", 10 * US_PER_S, 20 * US_PER_S, -1),
        ]
    return Timeline(nodes, 20 * US_PER_S, intervals)


def run_of(nodes: int = 10, **changes: object) -> RunResult:
    return result(timeline(nodes), hand_made().trials, phases=2, **changes)
