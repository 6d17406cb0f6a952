#!/usr/bin/env python3
"""Makes docs/performance/serving.md from serving.json.

    bench/serving/cases/make_tables.py docs/performance/serving.json [--output docs/performance/serving.md]
"""

import argparse
import json
import pathlib
import sys

# Device memory counts as flat if it changes by at most this much: requests allocate nothing, and a generation of the
# soak's collection (1,024 x 180 tokens x 128 columns, FP16) takes 45 MiB, and twice that while a new one is swapped
# in.
DEVICE_MIB_ALLOWED = 64
# Host memory counts as flat if its median grows by at most this much from the second quarter of the soak to the last. A
# soak of ten minutes has 15 reloads in between: if one in ten leaked a generation, that would be 67 MiB. Memory before
# the soak is no baseline: the allocator takes memory, and keeps it, until the number of concurrent requests has peaked
# and two generations have existed at once.
HOST_MIB_ALLOWED = 64


def flat_device_memory(row):
    return row["device_mib_most"] - row["device_mib_least"] <= DEVICE_MIB_ALLOWED


def flat_host_memory(row):
    return row["host_bytes_quarter_4"] - row["host_bytes_quarter_2"] <= HOST_MIB_ALLOWED << 20


LATENCY_GOAL = "p50 <= 210 us, p99 <= 1 ms"


def meets_latency_goal(row):
    return row["p50_us"] <= 210 and row["p99_us"] <= 1000


# Each entry has the name of a case, what it measures, the goal as text, and a test of the case's row, which returns
# None if the row lacks the figures.
GOALS = [
    ("engine:f16-1000of100000",
     "1,000 of 100,000 documents of 8 to 512 tokens, 121 in the mean, FP16, inside the engine: host memory to host memory",
     "p50 <= 27 us", lambda row: row["p50_us"] <= 27),
    ("engine:f16-1000x180", "the same, 180 tokens each", "", None),
    ("latency:i8-1000x180", "1,000 candidates by id x 180 tokens, 32 query tokens, INT8 resident, one client",
     LATENCY_GOAL, meets_latency_goal),
    ("latency-unix:i8-1000x180", "the same over a Unix socket (`grpc.unix_socket`)", LATENCY_GOAL, meets_latency_goal),
    ("wire:i8-1000x180", "the same requests and answers without reranking: gRPC, TCP and the load tester", "", None),
    ("wire-unix:i8-1000x180", "likewise over a Unix socket", "", None),
    ("saturated:i8-1000x180", "1,000 candidates by id x 180 tokens, INT8 resident, saturated, one query a request",
     ">= 25,000 queries/s", lambda row: row["qps"] >= 25_000),
    ("saturated8:i8-1000x180", "the same, 8 queries a request",
     ">= 80,000 queries/s, kernel time >= 0.7 s a second or the host shown to be the bound",
     lambda row: row["qps"] >= 80_000 and (row["gpu_busy"] >= 0.7 or host_is_the_bound(row))),
    ("shard32:f16-1024x180", "a whole shard of 1,024 x 180, FP16, 32 queries a request", ">= 150,000 queries/s",
     lambda row: row["qps"] >= 150_000),
    ("baseline", "the Python baseline, INT8, at its own best", "", None),
    ("against-baseline-i8", "maxsimd under the same load", ">= 5 x the baseline",
     lambda row: row["times_baseline"] >= 5),
    ("baseline:f16", "the Python baseline, FP16, at its own best", "", None),
    ("against-baseline-f16", "maxsimd under the same load", ">= 5 x the baseline",
     lambda row: row["times_baseline"] >= 5),
    *[(f"host-scan:{storage}-{queries}",
       f"whole collection in host memory, pages of 1,024 tokens, {storage}, {queries} quer{'y' if queries == 1 else 'ies'} a request",
       f">= 95 % of the link, device memory within {DEVICE_MIB_ALLOWED} MiB",
       lambda row: row["link_share"] >= 0.95 and flat_device_memory(row))
      for storage in ("f16", "i8") for queries in (1, 32)],
    ("host-lists:f16-1000x300", "1,000 scattered candidates x 300 tokens from host memory, FP16",
     ">= 80 % of the link", lambda row: row["link_share"] >= 0.8),
    ("two-gpus:one", "a resident scan on one GPU", "", None),
    ("two-gpus", "the same on two", ">= 1.9 x one", lambda row: row["times_one"] >= 1.9),
    ("overload:capacity", "one query a request over the whole INT8 collection, saturated", "", None),
    ("overload:80", "80 % of that, open loop", "", None),
    ("overload", "twice that, open loop", "accepted p99 <= 2 x that at 80 %, nothing lost",
     lambda row: row["p99_ratio"] <= 2 and row["errors"] == 0 and row["errors_after"] == 0),
    ("start", "shards from the page cache until ready", ">= 5 GB/s", lambda row: row["gbs"] >= 5),
    ("soak", "80 % load with reloads",
     f"no error, device memory within {DEVICE_MIB_ALLOWED} MiB, host memory grown by at most {HOST_MIB_ALLOWED} MiB "
     "from the second quarter to the last",
     lambda row: row["errors"] == 0 and row["failed_reloads"] == 0 and flat_device_memory(row) and flat_host_memory(row)),
]  # fmt: skip


# From this share on, processors count as busy. A saturated server stays below 100 %, because its threads wait for one
# another: two machines whose rates differed by a tenth were both at 80 %.
HOST_BUSY = 0.75


def host_is_the_bound(row):
    """Returns whether the processors limit the server: they are busy, and threads of the server take most of the
    known time."""
    processes = {name: sum(threads.values()) for name, threads in row.get("processors", {}).items()}
    return row.get("host_busy", 0) >= HOST_BUSY and processes.get("server", 0) > sum(processes.values()) / 2


def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def outcome(row, test):
    if "failed" in row or "skipped" in row:
        return "not measured"
    if test is None:
        return ""
    try:
        return "met" if test(row) else "**not met**"
    except (KeyError, TypeError):  # a figure that this machine could not give
        return "cannot tell"


def kernel_time(seconds):
    """Returns a text with the kernel seconds per second of the run. It may exceed one, because lanes score at the same
    time."""
    return f"kernel time {seconds:.2f} s a second{' (lanes overlap)' if seconds > 1 else ''}"


def processors(profile):
    """Returns a text with the processors that each process takes, and its four busiest threads."""

    def rounded(value):
        return f"{value:.1f}" if value >= 1 else f"{value:.2f}"

    texts = []
    for process, threads in profile.items():
        most = ", ".join(f"{name} {rounded(value)}" for name, value in sorted(threads.items(), key=lambda item: -item[1])[:4])
        if threads:
            texts.append(f"{process} {rounded(sum(threads.values()))} processors ({most})")
    return "; ".join(texts)


def more(row):
    """Returns the remarks on a row that have no column of their own."""
    shown = {
        "gpu_busy": kernel_time,
        "host_busy": lambda value: f"host {100 * value:.0f} % busy",
        "processors": processors,
        "times_baseline": lambda value: f"{value:.1f} x the baseline",
        "times_one": lambda value: f"{value:.2f} x one",
        "p99_ratio": lambda value: f"p99 {value:.2f} x that at 80 %",
        "max_queue_time": lambda value: f"`batching.max_queue_time` {value}",
        "concurrency": lambda value: f"{value} requests in flight",
        "processes": lambda value: f"{value} server process{'' if value == 1 else 'es'}",
        "seconds": lambda value: f"{value:.1f} s",
        "reloads": lambda value: f"{value} reloads",
        "client_bound": lambda value: "the load tester was the bound" if value else None,
        "stable": lambda value: None if value else "not stable",
        "skipped": str,
        "failed": str,
    }
    texts = [text(row[key]) for key, text in shown.items() if row.get(key) is not None]
    if row.get("device_mib_most") is not None:
        texts.append(f"device memory {row['device_mib_least']:,} to {row['device_mib_most']:,} MiB")
    host = [row.get(f"host_bytes_{when}") for when in ("before", "quarter_2", "quarter_4")]
    if all(host):
        before, second, last = (value / (1 << 20) for value in host)
        texts.append(f"host memory {before:,.0f} MiB before, {second:,.0f} in the second quarter, {last:,.0f} in the last")
    return "; ".join(text for text in texts if text).replace("|", "\\|").replace("\n", " ")


def make(result):
    rows = {}
    for row in result["rows"]:
        rows.setdefault(row["case"], row)
    known = {case for case, *_ in GOALS}
    lines = [
        "# Serving performance",
        "",
        f"{result['device']}, {result['cores']} cores, driver {result.get('driver') or 'none'}, "
        f"{result['date']}. Server and load tester on the same machine, over the loopback.",
        "Made from [serving.json](serving.json) by `bench/serving/cases/make_tables.py`; `bench/serving/cases/run_cases.py` measures.",
        "",
    ]
    if result.get("scale", "full") != "full":
        lines += [f"**Scale `{result['scale']}`: a trial of the machinery, its numbers mean nothing.**", ""]
    lines += [
        "| case | what | goal | | queries/s | p50, us | p99, us | GB/s | link, GB/s | errors | rejected | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, what, goal, test in [*GOALS, *((case, "", "", None) for case in rows if case not in known)]:
        row = rows.get(case)
        if row is None:
            continue
        cells = [f"`{case}`", what, goal, outcome(row, test), number(row.get("qps")), number(row.get("p50_us")),
                 number(row.get("p99_us")), number(row.get("gbs"), 1), number(row.get("link_gbs"), 1),
                 number(row.get("errors")), number(row.get("rejected")), more(row)]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    if result.get("notes"):  # written by hand into the JSON
        lines += ["", "## Notes", ""] + [f"- {note}" for note in result["notes"]]
    lines += ["", "## Commands", ""]
    for case, row in rows.items():
        if row.get("command"):
            lines += [f"- `{case}`: `{row['command']}`"]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Makes serving.md from serving.json.")
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, help="default: serving.md beside the input")
    options = parser.parse_args(arguments)
    output = options.output or options.input.with_suffix(".md")
    output.write_text(make(json.loads(options.input.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
