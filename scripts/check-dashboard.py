#!/usr/bin/python3
"""Checks that the Grafana dashboard shows every metric family that the server exports.

  scripts/check-dashboard.py

A family is shown if a panel's query names it; for a histogram, its _bucket, _sum or _count is enough. Panels must
have different numbers, lie within the 24 columns and not overlap. (scripts/check-docs.py checks that the dashboard
names no other metric.)
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "maxsimd.json"
SOURCES = ROOT / "server" / "observability"
COLUMNS = 24
FEWEST_FAMILIES = 40  # if fewer are found, the source has changed in a way that this script cannot read


def exported():
    """Returns the names of the metric families in the server's sources."""
    names = set()
    for path in SOURCES.glob("*.cc"):
        names.update(re.findall(r'"((?:maxsim|process)_[a-z_]+)"', path.read_text(encoding="utf-8")))
    return names


def panels_of(dashboard):
    """Returns every panel, including those in collapsed rows."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def overlaps(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    problems = []
    families = exported()
    if len(families) < FEWEST_FAMILIES:
        problems.append(f"found only {len(families)} families in {SOURCES.relative_to(ROOT)}")
    panels = list(panels_of(json.loads(DASHBOARD.read_text(encoding="utf-8"))))
    queries = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    shown = set(re.findall(r"\b(?:maxsim|process)_[a-z_]+\b", queries))
    shown |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    problems += [f"no panel shows {name}" for name in sorted(families - shown)]

    seen = []
    for panel in panels:
        place, name = panel["gridPos"], f"panel {panel['id']}, {panel['title']!r}"
        if place["x"] < 0 or place["x"] + place["w"] > COLUMNS:
            problems.append(f"{name} leaves the {COLUMNS} columns")
        for other in seen:
            if other["id"] == panel["id"]:
                problems.append(f"{name} has the number of {other['title']!r}")
            if overlaps(other["gridPos"], place):
                problems.append(f"{name} covers {other['title']!r}")
        seen.append(panel)

    for problem in problems:
        print(f"dashboard: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"dashboard: {len(families)} families on {len(panels)} panels")


if __name__ == "__main__":
    main()
