"""Makes the figure and the table of docs/cluster.md: schedulers on clusters that misbehave.

    python docs/images/cluster.py

Simulated, on the recorded curves of MsPacman. Needs the dev group (playwright) and Chromium.
"""

import math
import tempfile
from pathlib import Path

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright

import simsched
from simsched.analysis.statistics import Row, summarize
from simsched.checkpointing import between_losses_s, daly_s, save_cost_s
from simsched.cluster_file import read_cluster

HERE = Path(__file__).parent
CLUSTERS = HERE.parents[1] / "examples" / "clusters"
SCHEDULERS = ("successive-halving", "hyperband", "asha", "hypertrick")
COLORS = ("#0072b2", "#c07000", "#7a5195", "#009e73")
REPLICATIONS = 30
CASES = (
    ("six equal nodes", None, {}),
    ("a slow store", "storm", {}),
    ("the same, lazy", "storm", {"preemption": "lazy"}),
    ("half of them slow", "mixed", {}),
    ("spot, saved as needed", "spot", {}),
    ("spot, every milestone", "spot", {"checkpoints": "milestone"}),
    ("spot, Daly's interval", "spot", {"checkpoints": "daly"}),
    ("spot with notice", "spot-notice", {}),
)


def rows_of(cluster: str | None, **options: object) -> list[Row]:
    """Return a row per scheduler."""
    place: dict[str, object] = {"nodes": 6} if cluster is None else {}
    if cluster is not None:
        place["cluster"] = CLUSTERS / f"{cluster}.toml"
    options = {"schedulers": SCHEDULERS, **options}
    comparison = simsched.simulate(
        "MsPacman",
        replications=REPLICATIONS,
        jobs=2,
        **place,
        **options,
    )  # type: ignore[arg-type]
    return summarize(comparison)


def figure(found: dict[str, list[Row]]) -> go.Figure:
    """Return wall times, with 95 % intervals over replications."""
    made = go.Figure()
    for k, scheduler in enumerate(SCHEDULERS):
        rows = [each[k] for each in found.values()]
        made.add_bar(
            name=scheduler, x=list(found), y=[row.wall_time_s.mean / 60 for row in rows],
            error_y={"array": [(row.wall_time_s.spread or 0) / 60 for row in rows], "width": 2,
                     "thickness": 1},
            marker_color=COLORS[k],
        )  # fmt: skip
    made.update_layout(
        template="plotly_white", barmode="group", width=1100, height=430,
        yaxis_title="wall time (min), simulated", legend={"orientation": "h", "y": 1.12},
        margin={"l": 60, "r": 20, "t": 20, "b": 40}, font={"size": 13},
    )  # fmt: skip
    return made


INTERVALS_S = (2, 4, 8, 15, 30, 60, 120)
POLICIES = {"scheduler": "#888888", "milestone": "#c07000", "daly": "#009e73"}


def intervals() -> go.Figure:
    """Return what saving every so often costs HyperTrick on spot instances."""
    options = {"schedulers": ("hypertrick",)}
    rows = [rows_of("spot", checkpoints=f"every:{s}s", **options)[0] for s in INTERVALS_S]
    made = go.Figure()
    made.add_scatter(
        name="every so often", x=list(INTERVALS_S),
        y=[row.wall_time_s.mean / 60 for row in rows], mode="lines+markers",
        error_y={"array": [(row.wall_time_s.spread or 0) / 60 for row in rows], "thickness": 1},
        line_color="#0072b2",
    )  # fmt: skip
    for policy, color in POLICIES.items():
        (row,) = rows_of("spot", checkpoints=policy, **options)
        level = row.wall_time_s.mean / 60
        made.add_scatter(
            name=policy, x=[INTERVALS_S[0], INTERVALS_S[-1]], y=[level, level], mode="lines",
            line={"color": color, "dash": "dash"},
        )  # fmt: skip
    fleet = read_cluster(str(CLUSTERS / "spot.toml"))
    between_s = between_losses_s(fleet)
    best_s = daly_s(save_cost_s(fleet), between_s or 0.0)
    made.add_vline(x=best_s, line_dash="dot")
    # Annotations on logarithmic axes are placed by the logarithm.
    made.add_annotation(x=math.log10(best_s), y=36, text="Daly's interval", xanchor="left",
                        showarrow=False)  # fmt: skip
    made.update_layout(
        template="plotly_white", width=760, height=380, font={"size": 13},
        xaxis={"type": "log", "range": [0.2, 2.2], "title": "seconds between two saves",
               "tickvals": list(INTERVALS_S)},
        yaxis={"title": "wall time (min), simulated", "rangemode": "tozero"},
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
    )  # fmt: skip
    return made


def table(found: dict[str, list[Row]]) -> str:
    """Return wall time and share of redone work as Markdown."""
    lines = [f"| | {' | '.join(SCHEDULERS)} |", "|---" * (len(SCHEDULERS) + 1) + "|"]
    for case, rows in found.items():
        cells = []
        for row in rows:
            spread_s = row.wall_time_s.spread or 0.0
            redo = f", {100 * row.redo.mean:.0f} % redone" if row.redo.mean > 0 else ""
            cells.append(f"{row.wall_time_s.mean / 60:.1f} ± {spread_s / 60:.1f}{redo}")
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shoot(made: go.Figure, name: str) -> None:
    """Write a figure as a picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "figure.html")
        made.write_html(page_file)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        size = {"width": made.layout.width + 10, "height": made.layout.height + 10}
        page = browser.new_page(viewport=size)
        page.goto(page_file.as_uri())
        page.wait_for_timeout(1500)
        page.screenshot(path=HERE / f"{name}.png")
        browser.close()


def main() -> None:
    """Simulate, draw, print the table."""
    found = {name: rows_of(cluster, **options) for name, cluster, options in CASES}
    shoot(figure(found), "cluster")
    shoot(intervals(), "checkpoints")
    print(table(found))


if __name__ == "__main__":
    main()
