"""The report of a benchmark: one JSON file, to which every measurement is added as soon as it is made."""

import json
import os
import pathlib
from typing import Any, Callable, Dict, List

Row = Dict[str, Any]

# The members that identify a row of each list. A new row replaces an old one with the same values of these.
KEYS = {
    "collections": ("collection",),
    "indexes": ("collection", "system", "build"),
    "rows": ("collection", "system", "build", "search", "k"),
    "failures": ("collection", "system", "build"),
}


def is_same(kind: str, row: Row, other: Row) -> bool:
    return all(row.get(key) == other.get(key) for key in KEYS[kind])


class Report:
    """A report that one process at a time may write. The file is replaced in one step, so an interrupted run leaves a
    complete file."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def read(self) -> Dict[str, Any]:
        empty: Dict[str, Any] = {"runs": [], **{kind: [] for kind in KEYS}}
        return {**empty, **json.loads(self.path.read_text())} if self.path.exists() else empty

    def add(self, kind: str, row: Row) -> None:
        def change(report: Dict[str, Any]) -> None:
            report[kind] = [other for other in report[kind] if not is_same(kind, row, other)] + [row]

        self._change(change)

    def remove(self, kind: str, row: Row) -> None:
        def change(report: Dict[str, Any]) -> None:
            report[kind] = [other for other in report[kind] if not is_same(kind, row, other)]

        self._change(change)

    def find(self, kind: str, **values: Any) -> List[Row]:
        """Rows that have all these values."""
        return [row for row in self.read()[kind] if all(row.get(key) == value for key, value in values.items())]

    def begin_run(self, what: Row) -> None:
        """Says where the next measurements come from."""

        def change(report: Dict[str, Any]) -> None:
            report["runs"].append(what)

        self._change(change)

    def _change(self, change: Callable[[Dict[str, Any]], None]) -> None:
        report = self.read()
        change(report)
        temporary = self.path.with_suffix(".tmp")
        # Writes one row per line, so that a diff of two reports is readable.
        parts = []
        for name, value in report.items():
            if isinstance(value, list) and value:
                lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value)
                parts.append(f"{json.dumps(name)}: [\n  {lines}\n ]")
            else:
                parts.append(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
        temporary.write_text("{\n " + ",\n ".join(parts) + "\n}\n", encoding="utf-8")
        os.replace(temporary, self.path)
