#!/usr/bin/python3
"""Prints which folder includes which, and fails where one includes a folder above it.

  scripts/check-dependencies.py [--print]

The order is the table of docs/internals/architecture.md between the two comments that name this script: a row a level,
the highest first, a folder in backquotes. A folder may include itself and what stands below it. Two folders of one row
may not include each other. A file belongs to the longest folder of the table that holds it. Prints one line a folder
with --print, and otherwise only what is against the order.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "internals" / "architecture.md"
TABLE = re.compile(r"<!-- order: checked by scripts/check-dependencies.py -->\n(.*?)<!-- end of order -->", re.S)
SOURCES = ("*.h", "*.cc", "*.cu", "*.cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def levels():
    """The level of each folder, 0 for the lowest."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    if table is None:
        sys.exit(f"dependencies: {PAGE.relative_to(ROOT)} has no table of the order")
    rows = [line for line in table.group(1).splitlines() if line.startswith("|")][2:]
    order = {}
    for level, row in enumerate(reversed(rows)):
        for folder in re.findall(r"`([^`]+)/`", row.split("|")[1]):
            if not (ROOT / folder).is_dir():
                sys.exit(f"dependencies: {PAGE.relative_to(ROOT)} names {folder}/, which is no folder")
            order[folder] = level
    return order


def folder_of(path, order):
    """The longest folder of the order that holds `path`, or None."""
    holders = [folder for folder in order if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def main():
    order = levels()
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *SOURCES], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = [name for name in names if (ROOT / name).exists()]
    edges = collections.defaultdict(set)
    wrong = []
    for name in names:
        if name.startswith(("tests/", "cmake/", "examples/")):
            continue  # They may include everything, and nothing includes them.
        includer = folder_of(name, order)
        if includer is None:
            wrong.append(f"{name}: its folder stands nowhere in the order")
            continue
        for included in INCLUDE.findall((ROOT / name).read_text(encoding="utf-8")):
            if included.startswith("tests/"):
                wrong.append(f"{name} includes {included}, a test's")
            if not (ROOT / included).exists():
                continue  # A library's, or generated.
            below = folder_of(included, order)
            if below is None or below == includer:
                continue
            edges[includer].add(below)
            if order[below] >= order[includer]:
                wrong.append(f"{name} includes {included}: {below}/ does not stand below {includer}/")
    if "--print" in sys.argv[1:]:
        for folder in sorted(order, key=lambda name: (-order[name], name)):
            print(f"{folder}/ -> {', '.join(sorted(name + '/' for name in edges[folder])) or 'nothing'}")
    for line in wrong:
        print(f"dependencies: {line}", file=sys.stderr)
    print(f"dependencies: {len(order)} folders, {sum(map(len, edges.values()))} arrows, {len(wrong)} against the order")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
