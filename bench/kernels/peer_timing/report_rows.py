"""The rows of a report: their shapes, and the figures that peers have there."""

import json
import os
import re

PASSAGES = (8, 512)
# Reasons why a method has no figure: it took longer than --seconds-per-method; it did so and its process had to be
# ended; or --seconds had passed before it started.
OUT_OF_TIME, STUCK, NO_TIME_LEFT = "out of time", "out of time, and stuck", "no time left"


def parse_shape(name):
    """Parses the name of a shape (bench/kernels/gpu_shapes.h has the grammar). Returns None if it is not a shape's
    name."""
    selection = re.fullmatch(r"topk:(\d+)k(\d+)", name)
    if selection:
        return {"kind": "topk", "scores": int(selection[1]), "k": int(selection[2])}
    match = re.fullmatch(r"(lists:|shard:)?(\d+)x(?:(\d+)of)?(\d+)(?:x(\d+)x(passages|\d+(?:-\d+)?))?", name)
    if not match or (match[1] == "lists:") != bool(match[3]) or (match[1] is None and match[5] is None):
        return None
    shape = {
        "kind": "lists" if match[3] else "all",
        "queries": int(match[2]),
        "documents": int(match[4]),
        "list_size": int(match[3] or 0),
        "query_tokens": int(match[5] or 32),
    }
    lengths = match[6] or "passages"
    low, high = PASSAGES if lengths == "passages" else (lengths.split("-") * 2)[:2]
    shape["min_tokens"], shape["max_tokens"] = int(low), int(high)
    shape["ragged"] = shape["min_tokens"] != shape["max_tokens"]
    return shape


def tell_rows(report, sweep_rows):
    """Returns the rows that peers are timed on: all rows except FP32's, and `sweep_rows` rows from all over the
    sweep."""
    rows = [row for row in report.get("rows", []) if row["storage"] != "f32"]
    sweep = report.get("sweep", {}).get("rows", [])
    count = min(sweep_rows, len(sweep))
    return rows, [sweep[n * len(sweep) // count] for n in range(count)]


def add_timing(row, label, timing):
    """Adds one method's figures to a row, and the peer's best so far."""
    row.setdefault("peer_methods", []).append({"peer": label, **timing})
    times = [t for t in (timing.get("eager_ms"), timing.get("graph_ms")) if t is not None]
    best = row.setdefault("peers", {}).get(label)
    row["peers"][label] = min(times + ([best] if best is not None else []), default=None)


def given_up(rows, row, peer, method):
    """Returns the name of a row on which the method ran out of time although that row has no more query tokens and
    columns than `row`. Returns None if there is no such row."""
    shape, dim = parse_shape(row["shape"]), row["d"]
    if shape["kind"] == "topk":
        return None
    for other in rows:
        for timing in other.get("peer_methods", []):
            if (timing["peer"], timing["method"]) == (peer, method) and timing.get("error") in (OUT_OF_TIME, STUCK):
                asked_for = parse_shape(other["shape"])["query_tokens"] <= shape["query_tokens"] and other["d"] <= dim
                if asked_for and timing.get("eager_ms") is None:
                    return other["shape"]
    return None


def save(report, path):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)
