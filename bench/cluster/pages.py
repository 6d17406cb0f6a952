"""Makes the plot and the table of docs/performance/cluster from the rows of fanout.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]

BEGIN = "<!-- made from fanout.json by bench/cluster/simulate.py -->\n"
END = "<!-- end of what bench/cluster/simulate.py made -->\n"
FACTOR = 1.5  # the table counts groups up to this multiple of one group's p99
SHOWN = (1, 8, 64)  # fan-outs of the table

# The colours and sizes of docs/performance/kernels.svg.
COLORS = {"none": "#9aa4b2", "hedge-eject": "#1f6feb", "hedge": "#bf5700"}  # by policy
GRID, TEXT = "#d0d7de", "#24292f"
WIDTH, PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 900, 350, 220, 60, 84, 90, 70
PANELS = (("cpu", "none"), ("h200", "none"), ("cpu-single", "none"), ("cpu", "slow"))
TITLES = {
    "none": "all replicas well",
    "slow": "one replica 4 times as slow",
    "paused": "one replica stands still for half of the run",
    "dead": "one replica lost for half of the run",
}
LOWEST, HIGHEST = 0.5, 20.0


def find(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Returns the rows with these values, sorted by fan-out."""
    found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda row: int(row["fan_out"]))


def one_group(rows: Sequence[Row], profile: str, load: float) -> float | None:
    """Returns the p99 (in us) of a request to one healthy group, without hedges (second calls to another replica). The
    plot and the table show other p99s as multiples of it. None if it was not measured."""
    found = find(rows, profile=profile, load=load, fault="none", policy="none", fan_out=1)
    return float(found[0]["p99_us"]) if found else None


def text(x: float, y: float, content: str, anchor: str = "start", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{TEXT}"'
    return f"<text {place}>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, color: str = GRID, dash: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{dash}/>'


def scale(low: float, high: float, begin: float, end: float) -> Any:
    """Returns a logarithmic scale."""
    return lambda v: begin + (end - begin) * math.log(min(max(v, low), high) / low) / math.log(high / low)


def curves(rows: Sequence[Row], profile: str, fault: str, x: Any, y: Any) -> list[str]:
    """Returns SVG elements: for each load and policy, the median over the seeds (random runs), and the band between
    their extremes."""
    parts = []
    for load in sorted({row["load"] for row in rows}):
        base = one_group(rows, profile, load)
        dash = ' stroke-dasharray="5 3"' if load == max(row["load"] for row in rows) else ""
        for policy, color in COLORS.items():
            found = find(rows, profile=profile, load=load, fault=fault, policy=policy)
            if base is None or not found:
                continue
            top = [(x(row["fan_out"]), y(row["p99_us_most"] / base)) for row in found]
            bottom = [(x(row["fan_out"]), y(row["p99_us_least"] / base)) for row in reversed(found)]
            band = " ".join(f"{px:.1f},{py:.1f}" for px, py in [*top, *bottom])
            middle = " ".join(f"{x(row['fan_out']):.1f},{y(row['p99_us'] / base):.1f}" for row in found)
            parts.append(f'<polygon points="{band}" fill="{color}" opacity="0.2"/>')
            parts.append(f'<polyline points="{middle}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
    return parts


def panel(rows: Sequence[Row], profile: str, fault: str, left: float, top: float) -> list[str]:
    fan_outs = sorted({row["fan_out"] for row in rows})
    right, bottom = left + PANEL_WIDTH, top + PANEL_HEIGHT
    x = scale(fan_outs[0], max(fan_outs[-1], 2 * fan_outs[0]), left, right)
    y = scale(LOWEST, HIGHEST, bottom, top)
    parts = [text(left, top - 10, f"{profile}: {TITLES[fault]}", size=13)]
    for tick in (0.5, 1, 1.5, 2, 5, 10, 20):
        dash = ' stroke-dasharray="4 3"' if tick == FACTOR else ""
        parts.append(line(left, y(tick), right, y(tick), TEXT if tick == FACTOR else GRID, dash))
        parts.append(text(left - 8, y(tick) + 4, f"{tick:g}", "end", 11))
    for fan_out in fan_outs:
        parts.append(line(x(fan_out), top, x(fan_out), bottom))
        parts.append(text(x(fan_out), bottom + 16, str(fan_out), "middle", 11))
    return parts + curves(rows, profile, fault, x, y)


def svg(rows: Sequence[Row]) -> str:
    """Returns the plot: p99 by fan-out (number of groups), as multiples of the p99 of one group without hedges and
    faults."""
    height = TOP + 2 * (PANEL_HEIGHT + GAP_Y)
    loads = " and ".join(f"{load:g}" for load in sorted({row["load"] for row in rows}))
    parts = [
        text(LEFT, 22, "99th percentile by number of groups, in multiples of one group's", size=14),
        text(
            LEFT,
            42,
            "grey: no hedges, blue: hedges, orange: hedges that leave no replica out; "
            f"loads {loads}, the higher one dashed; bands: all seeds",
        ),
    ]
    for index, (profile, fault) in enumerate(PANELS):
        left = LEFT + (index % 2) * (PANEL_WIDTH + GAP_X)
        parts += panel(rows, profile, fault, left, TOP + (index // 2) * (PANEL_HEIGHT + GAP_Y))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif"><rect width="{WIDTH}" height="{height}" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def largest_within(found: Sequence[Row], base: float) -> int:
    """Returns the largest fan-out (number of groups) up to which every p99 is at most FACTOR times `base`; 0 if there
    is none."""
    largest = 0
    for row in found:
        if row["p99_us"] > FACTOR * base:
            break
        largest = row["fan_out"]
    return largest


def table(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    cases = list(dict.fromkeys((row["profile"], row["load"], row["fault"]) for row in rows))
    heads = [f"{fan_out} group{'s' if fan_out > 1 else ''}" for fan_out in SHOWN]
    lines = [
        f"{report['replicas']} replicas a group, medians of {len(report['seeds'])} runs of {report['requests']:,} "
        "requests each. Cells: without hedges, with hedges, with hedges that leave no replica out.",
        "",
        f"| replica | load | fault | p99, ms: {' | '.join(heads)} | groups within {FACTOR:g} x "
        "| extra calls | left out |",
        "|---|---|---|" + "---|" * (len(SHOWN) + 3),
    ]
    for profile, load, fault in cases:
        base = one_group(rows, profile, load)
        found_by_policy = [find(rows, profile=profile, load=load, fault=fault, policy=policy) for policy in COLORS]
        if base is None or not all(found_by_policy):
            continue
        cells = []
        for fan_out in SHOWN:
            values = [row["p99_us"] / 1000 for found in found_by_policy for row in found if row["fan_out"] == fan_out]
            cells.append(", ".join(f"{value:.3g}" for value in values) or "-")
        within = ", ".join(str(largest_within(found, base)) for found in found_by_policy)
        extra = [row["hedge_share"] for row in found_by_policy[1]]
        extra_cell = f"{100 * min(extra):.1f} to {100 * max(extra):.1f} %"
        most = max(row["ejections"] / row["fan_out"] for row in found_by_policy[1])
        left_out = f"{most:.1f}"
        lines.append(
            f"| {profile} | {load:g} | {fault} | {' | '.join(cells)} | {within} | {extra_cell} | {left_out} |"
        )
    return "\n".join(lines)


def with_table(existing: str, report: Mapping[str, Any]) -> str:
    """Returns the text of the page with a new table. If the text has no marks for a table, the table is added at its
    end."""
    made = BEGIN + "\n" + table(report) + "\n\n" + END
    begin, end = existing.find(BEGIN), existing.find(END)
    if begin < 0 or end < begin:
        return existing + ("\n" if existing else "") + made
    return existing[:begin] + made + existing[end + len(END) :]
