"""Draws the curves of two trainings as an SVG."""

import dataclasses
from html import escape
from typing import List, Sequence, Tuple

WIDTH, HEIGHT, LEFT, TOP, GAP = 900, 330, 60, 60, 80
PANEL_WIDTH, PANEL_HEIGHT = (WIDTH - LEFT - GAP - 20) // 2, HEIGHT - TOP - 50
GRID, TEXT = "#d0d7de", "#24292f"


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    values: Sequence[float]
    color: str
    dashed: bool = False


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12, color: str = TEXT) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )


def _panel(left: float, title: str, unit: str, lines: Sequence[Line]) -> List[str]:
    """Returns the SVG elements of one pair of axes with its lines. A line's x axis is the index of its values."""
    every = [value for line in lines for value in line.values]
    low, high = min(every), max(every)
    margin = (high - low or 1) * 0.05
    low, high = low - margin, high + margin
    last = max(len(line.values) for line in lines) - 1

    def place(number: int, value: float) -> Tuple[float, float]:
        x = left + PANEL_WIDTH * number / max(1, last)
        return x, TOP + PANEL_HEIGHT * (high - value) / (high - low)

    parts = [_text(left, TOP - 32, title, size=14)]
    for step in range(5):
        value = low + (high - low) * step / 4
        y = place(0, value)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + PANEL_WIDTH}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(left - 6, y + 4, f"{value:.2f}", "end"))
    parts.append(_text(left, TOP + PANEL_HEIGHT + 18, "0"))
    parts.append(_text(left + PANEL_WIDTH, TOP + PANEL_HEIGHT + 18, f"{last} {unit}", "end"))
    for number, line in enumerate(lines):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in enumerate(line.values)))
        dash = ' stroke-dasharray="6 5"' if line.dashed else ""
        width = 2 if line.dashed else 4
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.color}" stroke-width="{width}"{dash}/>')
        parts.append(_text(left + number * 125, TOP - 12, line.name, color=line.color))
    return parts


def svg(title: str, panels: Sequence[Tuple[str, str, Sequence[Line]]]) -> str:
    """Returns an SVG of two panels side by side. A panel is a title, the unit of the x axis, and lines."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for number, (name, unit, lines) in enumerate(panels):
        parts += _panel(LEFT + number * (PANEL_WIDTH + GAP), name, unit, lines)
    return "\n".join([*parts, "</svg>"]) + "\n"
