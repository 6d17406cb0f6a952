#!/usr/bin/env python3
"""Makes the table and the plot of docs/performance from the JSON of maxsim_bench_gpu and compare_peers.py.

    python3 bench/kernels/report.py docs/performance/kernels.json

Writes the table into the Markdown file beside it (kernels.md), between the two marks, and the plot into kernels.svg.
The text outside the marks stays as it is. --check writes nothing, and fails if the files are not what this program
would write, or if the JSON lacks something. Needs only Python.

The sweep may come from another run than the rows. It is then copied into the JSON by hand, with that run's "commit",
"date", "command" and "limits" beside the sweep's "rows".
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
from html import escape

BEGIN = "<!-- made from the JSON by bench/kernels/report.py -->\n"
END = "<!-- end of what bench/kernels/report.py made -->\n"

INTRODUCTION = """# Kernels on one GPU

Shapes are queries x documents x query tokens x document tokens; `lists:` gives every query its own candidates out of a
ragged set, `shard:` scores a whole ragged set (lengths of passages: log-normal, 8 to 512, mean near 121), `topk:` is
selection alone.

- *Ours* is the scoring on the device: medians, CUDA events, the cache flushed by reading 256 MB before each call.
- *Limit* is the larger of the bytes over the read limit and the operations over the multiply limit.
- *Best peer* is the fastest of all methods of the peers that can do the row, as called or as a CUDA graph's replay, timed
  in the same run on the same numbers; on rows of INT8 with equally long documents, of their 8-bit variants.
- *Error* is the largest one of sampled scores against FP64, relative to the score's magnitude.

[Measuring kernels](../internals/kernels-measuring.md) says how to run it again.
"""

LIMIT, RATE, TIME, PEER, PEER_8, PEER_ANY = "x limit", "rate", "ms", "peer", "8-bit peer", "peer in any precision"

# The goals of rows, by (shape, storage, columns). LIMIT and TIME have upper bounds. RATE (TFLOP/s, TOP/s) and PEER (how
# many times as fast as the best peer) have lower bounds.
GOALS = {
    ("1x1000x32x300", "f16", 128): {LIMIT: 1.40, PEER: 1.1},
    ("1x10000x32x300", "f16", 128): {LIMIT: 1.04},
    ("1x10000x32x300", "i8", 128): {LIMIT: 1.10, PEER_8: 1.35},
    ("1x1000x32x1024", "f16", 128): {LIMIT: 1.12},
    ("1x1000x128x1024", "f16", 128): {LIMIT: 1.20},
    ("1x1000x512x1024", "f16", 128): {RATE: 720, PEER: 1.7},
    ("1x1000x1024x1024", "f16", 128): {RATE: 780, PEER: 1.7},
    ("1x1000x1024x1024", "i8", 128): {RATE: 1650, PEER_ANY: 3},
    ("32x1024x32x180", "f16", 128): {RATE: 640, PEER: 4},
    ("32x1024x32x1024", "f16", 128): {RATE: 780, PEER: 3.4},
    ("32x1024x32x180", "i8", 128): {RATE: 1200},
    ("128x128x32x300", "f16", 128): {PEER: 3},
    ("8x10000x32x300", "f16", 128): {PEER: 3.8},
    ("lists:32x1000of100000", "f16", 128): {LIMIT: 1.10, PEER: 2.7},
    ("lists:1x1000of100000", "f16", 128): {TIME: 0.0145, PEER: 1.6},
    ("shard:1x100000", "f16", 128): {LIMIT: 1.02},
    ("shard:32x100000", "f16", 128): {LIMIT: 1.02, PEER: 12},
    ("1x1000x32x300", "f16", 48): {PEER: 1},
    ("1x1000x32x300", "f16", 96): {PEER: 1},
    ("1x1000x32x300", "f16", 768): {PEER: 1},
    ("topk:1000000k100", "-", None): {TIME: 0.016},
    ("topk:10000000k1000", "-", None): {TIME: 0.030},
}
SWEEP_SHARE, SWEEP_WORST = 0.9, 2.5
SWEEP_LIMITS = {"read_gbs", "fp16_tflops", "int8_tops"}

TOP_KEYS = {"device", "driver", "commit", "command", "date", "limits", "rows"}
# A sweep that was taken from another run has all of these members. A sweep of this run has none of them.
RUN_KEYS = {"commit", "command", "date", "limits"}
ROW_KEYS = {"shape", "storage", "d", "ours_ms", "limit_ms", "tflops", "gbs", "max_rel_error", "peers"}


def problems(report):
    """Returns what the JSON lacks, as text."""
    found = [f"no {key!r}" for key in sorted(TOP_KEYS - report.keys())]
    found += [f"limits: {key} is {value!r}" for key, value in report.get("limits", {}).items() if not is_number(value)]
    run = RUN_KEYS & report.get("sweep", {}).keys()
    found += [f"sweep: no {key!r}, but {min(run)!r}" for key in sorted(RUN_KEYS - run) if run]
    seen = set()
    for index, row in enumerate(report.get("rows", [])):
        name = f"row {index} ({row.get('shape')})"
        found += [f"{name}: no {key!r}" for key in sorted(ROW_KEYS - row.keys())]
        found += [f"{name}: {key} is {row[key]!r}" for key in ("ours_ms", "limit_ms") if not positive(row.get(key, 1))]
        peers = row.get("peers", {})
        found += [f"{name}: {peer} took {ms!r}" for peer, ms in peers.items() if ms is not None and not positive(ms)]
        key = row_key(row) + (row.get("isa"), row.get("threads"))
        if key in seen:
            found.append(f"{name}: twice")
        seen.add(key)
    return found


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def positive(value):
    return is_number(value) and value > 0


def row_key(row):
    return row.get("shape"), row.get("storage"), row.get("d")


def best_peer(*rows):
    """Returns (ms, name) of the fastest peer of these rows, or None if no peer has a time."""
    times = [(ms, name) for row in rows for name, ms in row["peers"].items() if ms is not None]
    return min(times, default=None)


def measured(row, bound, rows):
    """Returns the value that the goal's bound is compared with, or None."""
    if bound == LIMIT:
        return row["ours_ms"] / row["limit_ms"]
    if bound == RATE:
        return row["tflops"]
    if bound == TIME:
        return row["ours_ms"]
    others = [row]
    if bound == PEER_ANY:
        others = [other for other in rows if (other["shape"], other["d"]) == (row["shape"], row["d"])]
    best = best_peer(*others)
    return best[0] / row["ours_ms"] if best else None


def is_met(bound, limit, value):
    return value <= limit if bound in (LIMIT, TIME) else value >= limit


def describe(bound, limit, storage):
    if bound == LIMIT:
        return f"<= {limit:.2f} x limit"
    if bound == TIME:
        return f"<= {limit:.4f} ms"
    if bound == RATE:
        return f">= {limit:,} {'TOP/s' if storage == 'i8' else 'TFLOP/s'}"
    return f">= {limit:g} x the {bound}"


def verdict(row, rows):
    """Returns the goal and whether it is met, as two cells."""
    goal = GOALS.get(row_key(row))
    if goal is None:
        return "", ""
    failures, unknown = [], False
    for bound, limit in goal.items():
        value = measured(row, bound, rows)
        if value is None:
            unknown = True
        elif not is_met(bound, limit, value):
            # Adds a third digit if the value would otherwise look equal to the goal.
            ratio = f"{value:.2f} x" if round(value, 2) != limit else f"{value:.3f} x"
            failures.append({TIME: f"{value:.4f} ms", RATE: f"{value:,.0f}"}.get(bound, ratio))
    text = ", ".join(describe(bound, limit, row["storage"]) for bound, limit in goal.items())
    return text, "no: " + ", ".join(failures) if failures else "not measured" if unknown else "yes"


def cells(row, rows):
    best = best_peer(row)
    rate = row["tflops"]
    goal, met = verdict(row, rows)
    return [
        row["shape"],
        row["storage"],
        "-" if row["d"] is None else str(row["d"]),
        f"{row['ours_ms']:.4f}",
        f"{row['limit_ms']:.4f}",
        f"{row['ours_ms'] / row['limit_ms']:.2f}",
        f"{row['gbs']:,.0f}",
        "-" if rate is None else f"{rate:,.0f}",
        f"{best[0]:.4f} ({best[1]})" if best else "-",
        f"{best[0] / row['ours_ms']:.2f}" if best else "-",
        f"{row['max_rel_error']:.1e}",
        goal,
        met,
    ]


HEADERS = ["shape", "storage", "d", "ours ms", "limit ms", "x limit", "GB/s", "TOP/s", "best peer ms", "x peer"]
HEADERS += ["error", "goal", "met"]


def ran_eight_bit(row):
    return best_peer(row)[1].endswith((" int8", " fp8"))


def sweep_lines(sweep):
    counted, close, worst = sweep["counted"], sweep["within_1_5"], sweep["worst_ratio"]
    share = close / counted if counted else 0
    lines = [f"## {sweep['shapes']} random shapes, seed {sweep['seed']}", ""]
    met = "met" if counted and share >= SWEEP_SHARE and worst <= SWEEP_WORST else "not met"
    lines.append(
        f"{counted} have a roofline time above 20 us. Of those {share:.0%} are within 1.5 x of it, the worst takes "
        f"{worst:.2f} x ({sweep['worst_shape']}). Goal: {SWEEP_SHARE:.0%} within 1.5 x, the worst within "
        f"{SWEEP_WORST} x: {met}."
    )
    missing = {
        "of a type that is not scored": sweep.get("refused", 0),
        "left out for want of time": sweep.get("left_out", 0),
        "failed": len(sweep.get("failures", [])),
    }
    if any(missing.values()):
        lines += ["", "Beside those: " + ", ".join(f"{n} {what}" for what, n in missing.items() if n) + "."]
    compared = [row for row in sweep["rows"] if row.get("peers") and best_peer(row)]
    slower = [row for row in compared if best_peer(row)[0] < row["ours_ms"]]
    if compared:
        wider = sum(row["storage"] == "i8" and not ran_eight_bit(row) for row in compared)
        in_f16 = f", {wider} of them in FP16 beside INT8" if wider else ""
        median = statistics.median(best_peer(row)[0] / row["ours_ms"] for row in compared)
        faster = ", ".join(
            f"{row['shape']} {row['storage']} d {row['d']} ({best_peer(row)[0] * 1e3:.1f} us, ours {row['ours_ms'] * 1e3:.1f})"
            for row in slower
        )
        lines += [
            "",
            f"Peers ran {len(compared)} of the {len(sweep['rows'])}{in_f16}; in the median the best one took {median:.1f} x "
            f"as long as ours. " + (f"One was faster on {len(slower)}: {faster}." if slower else "None was faster on any."),
        ]
    if "commit" in sweep:
        limits = ", ".join(f"{key} {value:,.0f}" for key, value in sweep["limits"].items() if key in SWEEP_LIMITS)
        lines += ["", f"In a run of its own: {sweep['date']}, `{sweep['command']}`, {limits}."]
    return lines + [""]


def markdown(report, plot):
    limits = report["limits"]
    rows = report["rows"]
    lines = [
        f"{report['device']}, driver {report['driver']}, {report['date']}, `{report['command']}`.",
        "",
        "Limits measured in the same run: " + ", ".join(f"{key} {value:,.0f}" for key, value in limits.items()) + ".",
        "",
        "| " + " | ".join(HEADERS) + " |",
        "|" + "---|" * 3 + "---:|" * 5 + "---|---:|---|---|---|",
    ]
    lines += ["| " + " | ".join(cells(row, rows)) + " |" for row in rows]
    verdicts = [verdict(row, rows)[1] for row in rows]
    lines += ["", f"Goals met: {verdicts.count('yes')} of {len(GOALS)}."]
    absent = [key for key in GOALS if key not in {row_key(row) for row in rows}]
    if absent:
        lines.append("Not run: " + ", ".join(f"{shape} {storage}" for shape, storage, _ in absent) + ".")
    lines += ["", f"![Times over the limits]({plot})", ""]
    if "sweep" in report:
        lines += sweep_lines(report["sweep"])
    return "\n".join(lines)


# The plot shows the time of every row over its limit on a logarithmic axis, for this project and for the best peer.
# The sweep is shown below the rows.
WIDTH, LEFT, RIGHT, ROW_HEIGHT, TOP = 900, 270, 60, 22, 50
OURS, OTHERS, GRID, TEXT = "#1f6feb", "#9aa4b2", "#d0d7de", "#24292f"
SWEEP_HEIGHT = 260


def text(x, y, content, anchor="start", size=12):
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{TEXT}"'
    return f"<text {place}>{escape(content)}</text>"


def line(x1, y1, x2, y2, color=GRID, dash=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{dash}/>'


def log_scale(low, high, begin, end):
    return lambda v: begin + (end - begin) * math.log(min(max(v, low), high) / low) / math.log(high / low)


def ticks(low, high):
    return [m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5) if low <= m * 10.0**e <= high]


def bars(rows):
    peers = [(best_peer(row) or (0,))[0] / row["limit_ms"] for row in rows]
    ours = [row["ours_ms"] / row["limit_ms"] for row in rows]
    high = max(ours + peers + [2]) * 1.1
    low = min(ours + [0.7]) * 0.95
    x = log_scale(low, high, LEFT, WIDTH - RIGHT)
    bottom = TOP + ROW_HEIGHT * len(rows)
    parts = [text(LEFT, 20, "time over the device's limit, ours (blue) and the best peer's (grey)", size=14)]
    for tick in ticks(low, high):
        parts += [line(x(tick), TOP - 6, x(tick), bottom), text(x(tick), TOP - 10, f"{tick:g}", "middle", 11)]
    for index, row in enumerate(rows):
        y = TOP + index * ROW_HEIGHT
        width = f" d {row['d']}" if row["d"] not in (None, 128) else ""
        parts.append(text(LEFT - 8, y + 15, f"{row['shape']} {row['storage']}{width}", "end"))
        for value, top, color in ((ours[index], 3, OURS), (peers[index], 11, OTHERS)):
            if value > 0:
                parts.append(
                    f'<rect x="{LEFT}" y="{y + top}" width="{max(x(value) - LEFT, 1):.1f}" height="8" fill="{color}"/>'
                )
        parts.append(text(x(max(ours[index], peers[index])) + 5, y + 15, f"{ours[index]:.2f}", size=11))
    if low < 1:
        parts.append(line(x(1), TOP - 6, x(1), bottom, TEXT, ' stroke-dasharray="4 3"'))
    return parts, bottom


def scatter(sweep, top):
    rows = sweep["rows"]
    high = max([row["ratio"] for row in rows] + [3]) * 1.1
    low = min([row["ratio"] for row in rows] + [0.8]) * 0.9
    longest = max([row["roofline_ms"] for row in rows] + [0.1]) * 1.2
    shortest = min([row["roofline_ms"] for row in rows] + [0.01]) * 0.8
    x = log_scale(shortest, longest, LEFT, WIDTH - RIGHT)
    y = log_scale(low, high, top + SWEEP_HEIGHT - 40, top + 40)
    bottom = top + SWEEP_HEIGHT - 40
    title = f"random shapes (seed {sweep['seed']}): time over roofline, by roofline in ms; dashed: 20 us, 1.5 x"
    parts = [text(LEFT, top + 22, title, size=14)]
    for tick in ticks(low, high):
        parts += [line(LEFT, y(tick), WIDTH - RIGHT, y(tick)), text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end", 11)]
    for tick in ticks(shortest, longest):
        parts += [line(x(tick), top + 40, x(tick), bottom), text(x(tick), bottom + 16, f"{tick:g}", "middle", 11)]
    dash = ' stroke-dasharray="4 3"'
    parts.append(line(x(0.02), top + 40, x(0.02), bottom, TEXT, dash))
    parts.append(line(LEFT, y(1.5), WIDTH - RIGHT, y(1.5), TEXT, dash))
    for row in rows:
        color = OURS if row["storage"] == "f16" else "#bf5700"
        parts.append(
            f'<circle cx="{x(row["roofline_ms"]):.1f}" cy="{y(row["ratio"]):.1f}" r="3" fill="{color}" opacity="0.7"/>'
        )
    parts += [text(WIDTH - RIGHT - 110, top + 56, "f16 blue, i8 orange", size=11)]
    return parts, top + SWEEP_HEIGHT


def svg(report):
    parts, bottom = bars(report["rows"])
    if report.get("sweep", {}).get("rows"):
        more, bottom = scatter(report["sweep"], bottom + 20)
        parts += more
    height = bottom + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif"><rect width="{WIDTH}" height="{height}" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def with_table(existing, table):
    """Returns the Markdown text with a new table. If the text has no marks, adds the marks and the table at its end."""
    begin, end = existing.find(BEGIN), existing.find(END)
    if begin < 0 or end < begin:
        return existing + ("\n" if existing else "") + BEGIN + "\n" + table + "\n" + END
    return existing[:begin] + BEGIN + "\n" + table + "\n" + existing[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=pathlib.Path, help="results")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where something would change")
    options = parser.parse_args()
    report = json.loads(options.json.read_text(encoding="utf-8"))
    wrong = problems(report)
    for problem in wrong:
        print(f"{options.json}: {problem}", file=sys.stderr)
    if wrong:
        return 1
    page, plot = options.json.with_suffix(".md"), options.json.with_suffix(".svg")
    existing = page.read_text(encoding="utf-8") if page.exists() else INTRODUCTION
    for path, content in ((page, with_table(existing, markdown(report, plot.name))), (plot, svg(report))):
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                print(f"{path} is not what bench/kernels/report.py makes of {options.json}", file=sys.stderr)
                wrong.append(path)
        else:
            path.write_text(content, encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
