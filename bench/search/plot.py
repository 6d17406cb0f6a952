"""Draws recall against queries per second as an SVG."""

import math
from html import escape
from typing import Any, Dict, List, Sequence, Tuple

Row = Dict[str, Any]
Point = Tuple[float, float]  # queries a second, recall

WIDTH, HEIGHT = 980, 460
LEFT, TOP, GAP, BOTTOM = 60, 90, 70, 50
PANEL_WIDTH, PANEL_HEIGHT = (WIDTH - LEFT - GAP - 20) // 2, HEIGHT - TOP - BOTTOM
GRID, TEXT = "#d0d7de", "#24292f"
COLORS = {
    "maxsimd": "#1f6feb",
    "fast-plaid": "#bf5700",
    "xtr-warp-rs": "#8250df",
    "tachiom": "#1a7f37",
    "qdrant": "#cf222e",
    "lancedb": "#57606a",
}
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.998, 0.999, 1.0)
BEST = 1e-4  # a smaller 1 - recall is drawn as this, because a logarithmic axis has no place for 0


def height(recall: float) -> float:
    """Returns the place of a recall on its axis, which is logarithmic in 1 - recall."""
    return -math.log10(max(1 - recall, BEST))


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12, color: str = TEXT) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"'
    return f"<text {place}>{escape(words)}</text>"


def panel(left: float, title: str, curves: Sequence[Tuple[str, List[Point]]]) -> List[str]:
    """Returns axes with the systems' curves. Without curves, returns empty axes."""
    points = [point for _, curve in curves for point in curve]
    low = math.floor(math.log10(min([qps for qps, _ in points], default=1)))
    high = max(math.ceil(math.log10(max([qps for qps, _ in points], default=10))), low + 1)
    lowest = min([height(recall) for _, recall in points] + [height(0.9)])
    span = height(1) - lowest

    def place(point: Point) -> Point:
        qps, recall = point
        x = left + PANEL_WIDTH * (math.log10(qps) - low) / (high - low)
        return x, TOP + PANEL_HEIGHT * (height(1) - height(recall)) / span

    parts = [text(left, TOP - 14, title, size=14)]
    for tick in TICKS:
        if height(tick) >= lowest:
            y = place((10**low, tick))[1]
            parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + PANEL_WIDTH}" y2="{y:.1f}" stroke="{GRID}"/>')
            parts.append(text(left - 6, y + 4, f"{tick:g}", "end"))
    for power in range(low, high + 1):
        x = place((10.0**power, 1))[0]
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + PANEL_HEIGHT}" stroke="{GRID}"/>')
        parts.append(text(x, TOP + PANEL_HEIGHT + 18, f"{10.0**power:,g}", "middle"))
    parts.append(text(left + PANEL_WIDTH, TOP + PANEL_HEIGHT + 38, "queries a second", "end"))
    for system, curve in curves:
        placed = [place(point) for point in sorted(curve)]
        color = COLORS.get(system, TEXT)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in placed]
    return parts


def curves_of(rows: Sequence[Row], k: int, rate: str) -> List[Tuple[str, List[Point]]]:
    """Returns a curve for each index of each system. The points of a curve are the settings of searches."""
    curves: Dict[Tuple[str, str], List[Point]] = {}
    for row in rows:
        if row["k"] == k:
            curves.setdefault((row["system"], str(row["build"])), []).append((row[rate], row["recall"]))
    return [(system, curve) for (system, _), curve in curves.items()]


def svg(title: str, rows: Sequence[Row], rate: str) -> str:
    """Returns two panels, recall@10 and recall@100, against `rate`, which is the name of a member of the rows."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 26, title, size=16),
    ]
    names = list(dict.fromkeys(row["system"] for row in rows))
    parts += [text(LEFT + 130 * number, 50, name, color=COLORS.get(name, TEXT)) for number, name in enumerate(names)]
    for number, k in enumerate((10, 100)):
        parts += panel(LEFT + number * (PANEL_WIDTH + GAP), f"recall@{k}", curves_of(rows, k, rate))
    return "\n".join([*parts, "</svg>"]) + "\n"
