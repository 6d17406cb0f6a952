#!/usr/bin/env python3
"""Compares the latency and the throughput of two builds of maxsimd, which are asked in turns. The first build runs as
two servers; the difference between these two is noise.

    compare_builds.py --base before/bin --bin build/release/bin --out two_builds.json

README.md in this folder says what the figures are. Needs NumPy.
"""

import contextlib
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from loadtest import loadtest  # noqa: E402
from servers import Maxsimd, benchmark_parser, build_collection, has_gpu, provenance, server_commit  # noqa: E402

DIM = 128
BLOCK = 1 << 20  # values of vectors that are made at once


def make_collection(options, storage, folder):
    """Builds a collection of random vectors: documents of `options.tokens` tokens, ids 0, 1 and so on."""
    random = np.random.default_rng(7)
    rows = options.documents * options.tokens
    tokens = np.lib.format.open_memmap(options.scratch / "tokens.npy", "w+", np.float16, (rows, DIM))
    block = (random.standard_normal((BLOCK // DIM, DIM)) / DIM**0.5).astype(np.float16)
    for begin in range(0, rows, len(block)):
        # Each block has the same values in another order, because that takes less time than making new values.
        part = tokens[begin : begin + len(block)]
        part[:] = np.roll(block, begin // len(block), axis=1)[: len(part)]
    del tokens
    np.save(options.scratch / "lengths.npy", np.full(options.documents, options.tokens, np.int32))
    (options.scratch / "ids.txt").write_text("\n".join(map(str, range(options.documents))) + "\n")
    build_collection(options.base, options.scratch, folder, storage, storage)


def cases(options):
    """Returns each case's collection, candidates, concurrency and further flags of the load tester."""
    ids = min(1000, options.documents)
    return {
        "latency i8": ("i8", ids, 1, {}),
        "latency f16": ("f16", ids, 1, {}),
        "whole collection f16": ("f16", "all", 1, {}),
        "saturated i8": ("i8", ids, options.concurrency, {"threads": 4, "channels": 8}),
        "32 queries a request f16": ("f16", "all", 8, {"queries_per_request": 32}),
    }


def load(options, server, collection, candidates, concurrency, further):
    """Runs the load tester of the earlier build."""
    result = loadtest(
        options.base, options.scratch, server.unix_target, collection, candidates, num_ids=options.documents,
        seconds=options.seconds, warmup=options.warmup, concurrency=concurrency, pool_requests=128, timeout="60s",
        prefix=["taskset", "-c", options.client_cpus] if options.client_cpus else [], **further,
    )  # fmt: skip
    return {"p50_us": result["latency_us"]["p50"], "qps": result["qps"], "server_us": result["server_us"]}


def medians_of(server_us):
    """Returns the medians over the turns of the times that the server has written into its answers."""
    return {time: statistics.median(turn[time] for turn in server_us) for time in ("kernel_p50", "total_p50")}


def order_of_turn(builds, turn):
    """Returns the builds in the order of this turn. Each build is the first, the second and the last one equally
    often."""
    orders = list(itertools.permutations(builds))
    return orders[turn % len(orders)]


def start_servers(options, stack, folders, start):
    """Starts the three servers, each start in another order. `stack` stops them."""
    servers = {}
    binaries = {"base": options.base, "bin": options.bin, "base_again": options.base}
    for build in order_of_turn(binaries, start):
        residency = "gpu" if has_gpu() else "host"
        servers[build] = stack.enter_context(
            Maxsimd(binaries[build], options.scratch, build, folders, residency, {}, 180, True)
        )
        if options.server_cpus:
            command = ["taskset", "-a", "-c", "-p", options.server_cpus, str(servers[build].process.pid)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {build: servers[build] for build in binaries}


def over_starts(starts):
    """Returns each case's figures, for the results of compare() of several starts of the servers: the medians of the
    starts' ratios, with a 95 % interval by the bootstrap, and the starts."""
    draw = np.random.default_rng(1)
    rows = {}
    for name, first in starts[0].items():
        cases = [start[name] for start in starts]
        ratios = np.array([case["ratio"] for case in cases])
        medians = np.median(draw.choice(ratios, (4000, len(ratios))), axis=1)
        rows[name] = {
            "figure": first["figure"],
            **{build: statistics.median(case[build] for case in cases) for build in first["turns"]},
            "ratio": float(np.median(ratios)),
            "ratio_interval": [float(bound) for bound in np.percentile(medians, [2.5, 97.5])],
            "ratio_of_base_to_itself": statistics.median(case["ratio_of_base_to_itself"] for case in cases),
            "starts": cases,
        }
        print("all starts:", name, json.dumps({key: value for key, value in rows[name].items() if key != "starts"}))
    return rows


def compare(options, servers):
    rows = {}
    for name, (collection, candidates, concurrency, further) in cases(options).items():
        if options.cases not in name:
            continue
        figure = "p50_us" if concurrency == 1 else "qps"
        turns = {build: [] for build in servers}
        server_us = {build: [] for build in servers}
        for turn in range(options.turns):
            for build in order_of_turn(servers, turn):
                report = load(options, servers[build], collection, candidates, concurrency, further)
                turns[build].append(round(report[figure], 1))
                server_us[build].append(report["server_us"])
        medians = {build: statistics.median(turns[build]) for build in turns}
        rows[name] = {
            "figure": figure,
            **medians,
            "ratio": medians["bin"] / statistics.mean([medians["base"], medians["base_again"]]),
            "ratio_of_base_to_itself": medians["base_again"] / medians["base"],
            "server_us": {build: medians_of(times) for build, times in server_us.items()},
            "turns": turns,
        }
        print(name, json.dumps({key: value for key, value in rows[name].items() if key != "turns"}), flush=True)
    return rows


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--base", type=pathlib.Path, required=True, help="folder with the earlier maxsimd, maxsim-shard and maxsim-loadtest")
    parser.add_argument("--documents", type=int, default=100_000, help="documents of each collection (default: 100000)")
    parser.add_argument("--tokens", type=int, default=180, help="tokens of a document (default: 180)")
    parser.add_argument("--concurrency", type=int, default=96, help="queries under way where many are (default: 96)")
    parser.add_argument("--turns", type=int, default=6, help="turns of each case (default: 6, each order of the three servers once)")
    parser.add_argument("--starts", type=int, default=1, help="starts of the three servers, each with all turns (default: 1)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each measurement (default: 2)")
    parser.add_argument("--warmup", default="500ms", help="before each measurement (default: 500ms)")
    parser.add_argument("--cases", default="", help="only the cases with this text in their name, such as latency (default: all)")
    parser.add_argument("--server-cpus", help="processors of the servers, such as 0-7 (default: all)")
    parser.add_argument("--client-cpus", help="processors of the load tester (default: all)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="two-builds-") as name:
        options.scratch = pathlib.Path(name)
        folders = {storage: options.scratch / storage for storage in ("i8", "f16")}
        for storage, folder in folders.items():
            make_collection(options, storage, folder)
        result = {"base": server_commit(options.base), **provenance(options.bin)}
        result["bin"] = result.pop("commit")
        starts = []
        for start in range(options.starts):
            with contextlib.ExitStack() as stack:
                starts.append(compare(options, start_servers(options, stack, folders, start)))
            result["cases"] = over_starts(starts) if options.starts > 1 else starts[0]
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
