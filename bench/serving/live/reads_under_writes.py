#!/usr/bin/env python3
"""Measures latencies of reads while documents are written, in turns with latencies of the same server without writes.

    bench/serving/live/reads_under_writes.py --bin build/release/bin --out out.json

The live collection has --documents documents of --tokens x --dim in F16. maxsim-loadtest sends lists of --candidates
ids and scans of the whole collection, in rounds of three turns: without writes; while --rate documents per second are
replaced, in calls of --batch; and while the collection is also compacted. With --codes, a scan reads codes with that
many planes, chooses documents by them and scores these exactly.
"""

import contextlib
import json
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

from live_server import LiveServer, describe, need  # noqa: E402
from loadtest import loadtest  # noqa: E402
from servers import benchmark_parser, run_shard  # noqa: E402
from synthetic import disk_rate, make_collection  # noqa: E402
from writer import Writers  # noqa: E402

NAME = "passages"


@contextlib.contextmanager
def compacting(server, wanted):
    """If `wanted`, compacts the collection again and again during a block. Yields the list of the compactions'
    results."""
    done, stop = [], threading.Event()

    def compact():
        while not stop.is_set():
            done.append(server.compact())
            stop.wait(0.05)

    thread = threading.Thread(target=compact)
    if wanted:
        thread.start()
    yield done
    stop.set()
    if wanted:
        thread.join()


def turn(options, server, state, kind, concurrency, folder):
    writers = None
    if state != "idle":
        writers = Writers(
            options.writers, target=server.unix_target, collection=NAME, dim=options.dim, tokens=options.tokens,
            batch=options.batch, rate=options.rate, seconds=600, num_ids=options.documents, shuffle=True,
            threads=8,
        )  # fmt: skip
    with compacting(server, state == "compacting") as compactions:
        report = loadtest(
            options.bin, folder, server.unix_target, NAME, options.candidates if kind == "list" else "all",
            num_ids=options.documents, seconds=options.seconds, concurrency=concurrency, exits=(0, 1, 3),
            check="order",  # answers may change while documents are written
        )  # fmt: skip
    latency = report["latency_us"]
    row = {
        "state": state, "kind": kind, "concurrency": concurrency, "requests_per_second": report["rps"],
        "p50_ms": latency["p50"] / 1e3, "p99_ms": latency["p99"] / 1e3, "errors": report["errors"],
        "rejected": report["rejected"], "client_bound": report.get("client_bound"),
    }  # fmt: skip
    if writers:
        row["writes"] = writers.finish(stop=True)
    if state == "compacting":
        row["compactions"] = sum(compactions)
    return {**row, "live": server.live()}


def summary(rows):
    """Returns the medians over rounds, for each kind, concurrency and state, and their ratios to the idle state."""
    found = []
    for kind, concurrency in dict.fromkeys((row["kind"], row["concurrency"]) for row in rows):
        idle = None
        for state in dict.fromkeys(row["state"] for row in rows):
            mine = [r for r in rows if (r["kind"], r["concurrency"], r["state"]) == (kind, concurrency, state)]
            if not mine:
                continue
            values = {name: float(np.median([row[name] for row in mine])) for name in ("p50_ms", "p99_ms")}
            idle = idle or values
            ratios = {f"{name}_to_idle": values[name] / idle[name] if idle[name] else None for name in values}
            found.append({"kind": kind, "concurrency": concurrency, "state": state, **values, **ratios})
    return found


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--work", type=pathlib.Path, help="a folder for the collection, 3.5 GB by default")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--codes", type=int, choices=(0, 1, 2, 4), default=0, help="planes of codes; 0: none")
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=1000, help="documents a second")
    parser.add_argument("--batch", type=int, default=4, help="documents of a write call")
    parser.add_argument("--writers", type=int, default=2, help="processes")
    parser.add_argument("--concurrency", default="1,16")
    parser.add_argument("--kinds", default="list,scan")
    parser.add_argument("--states", default="idle,writes,compacting")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3, help="of a turn")
    options = parser.parse_args()
    need(options.bin, "maxsimd", "maxsim-loadtest", *(["maxsim-shard"] if options.codes else []))
    result = {**describe(options.bin), "rows": []}
    with tempfile.TemporaryDirectory(prefix="maxsim-live-", dir=options.work) as folder:
        folder = pathlib.Path(folder)
        result["disk"] = disk_rate(folder, num_bytes=256 << 20)
        real = make_collection(options, folder, NAME, "f16", 8)
        if options.codes:
            run_shard(options.bin, "encode", folder / NAME, "--codes", options.codes, "--quiet")
        keys = {"store.verify_checksums": real, "live.compact": False, "live.max_segment_bytes": "32GiB"}
        with LiveServer(options.bin, folder, NAME, folder / NAME, keys) as server:
            result["start_seconds"] = server.start_seconds
            for number in range(options.rounds):
                for kind in options.kinds.split(","):
                    for concurrency in map(int, options.concurrency.split(",")):
                        for state in options.states.split(","):
                            row = turn(options, server, state, kind, concurrency, folder)
                            result["rows"].append({"round": number, **row})
                            shown = {k: row[k] for k in ("state", "kind", "concurrency", "p50_ms", "p99_ms")}
                            print(shown, row.get("writes", ""), flush=True)
                            result["summary"] = summary(result["rows"])
                            options.out.write_text(json.dumps(result, indent=1))
    for row in result["summary"]:
        print(row)


if __name__ == "__main__":
    main()
