#!/usr/bin/env python3
"""Compares the latency and the throughput of two builds of maxsimd, which are asked in turns. The first build runs twice:
what its two servers differ by is noise.

    compare_builds.py --base before/bin --bin build/release/bin --out two_builds.json

README.md in this folder says what the figures are. Needs NumPy.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from servers import Maxsimd, gpu_query, has_gpu, server_commit  # noqa: E402

DIM = 128
BLOCK = 1 << 20  # values of vectors that are made at once


def make_collection(options, storage, folder):
    """Builds a collection of random vectors: documents of `options.tokens` tokens, ids 0, 1 and so on."""
    random = np.random.default_rng(7)
    rows = options.documents * options.tokens
    tokens = np.lib.format.open_memmap(options.scratch / "tokens.npy", "w+", np.float16, (rows, DIM))
    block = (random.standard_normal((BLOCK // DIM, DIM)) / DIM**0.5).astype(np.float16)
    for begin in range(0, rows, len(block)):
        # Each block has the same values in another order, which are made faster than new ones.
        part = tokens[begin : begin + len(block)]
        part[:] = np.roll(block, begin // len(block), axis=1)[: len(part)]
    del tokens
    np.save(options.scratch / "lengths.npy", np.full(options.documents, options.tokens, np.int32))
    (options.scratch / "ids.txt").write_text("\n".join(map(str, range(options.documents))) + "\n")
    command = [
        options.base / "maxsim-shard", "build", "--tokens", options.scratch / "tokens.npy", "--lengths", options.scratch / "lengths.npy",
        "--ids", options.scratch / "ids.txt", "--id-type", "int64", "--storage", storage, "--output", folder, "--name", storage, "--quiet",
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True)


def cases(options):
    """Returns each case's collection, concurrency and further flags of the load tester."""
    ids = ("--candidates", min(1000, options.documents), "--int-ids", options.documents)
    return {
        "latency i8": ("i8", 1, ids),
        "latency f16": ("f16", 1, ids),
        "whole collection f16": ("f16", 1, ("--candidates", "all")),
        "saturated i8": ("i8", options.concurrency, (*ids, "--threads", 4, "--channels", 8)),
        "32 queries a request f16": ("f16", 8, ("--candidates", "all", "--queries-per-request", 32)),
    }


def load(options, server, collection, concurrency, further):
    report = options.scratch / "report.json"
    pinned = ["taskset", "-c", options.client_cpus] if options.client_cpus else []
    command = [
        *pinned, options.base / "maxsim-loadtest", "--target", server.unix_target, "--collection", collection,
        "--concurrency", concurrency, "--query-tokens", 32, "--top-k", 100, "--warmup", "500ms", "--duration", f"{options.seconds}s",
        "--pool-requests", 128, "--timeout", "60s", "--quiet", "--json", report, *further,
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    result = json.loads(report.read_text())
    if result["errors"]:
        sys.exit(f"{server.target}: {result['errors']} {result['error_messages']}")
    return {"p50_us": result["latency_us"]["p50"], "qps": result["qps"]}


def order_of_turn(builds, turn):
    """Returns the builds in the order of the turn: each is the first, the second and the last one equally often."""
    orders = list(itertools.permutations(builds))
    return orders[turn % len(orders)]


def compare(options, servers):
    rows = {}
    for name, (collection, concurrency, further) in cases(options).items():
        if options.cases not in name:
            continue
        figure = "p50_us" if concurrency == 1 else "qps"
        turns = {build: [] for build in servers}
        for turn in range(options.turns):
            for build in order_of_turn(servers, turn):
                report = load(options, servers[build], collection, concurrency, further)
                turns[build].append(round(report[figure], 1))
        medians = {build: statistics.median(turns[build]) for build in turns}
        rows[name] = {
            "figure": figure,
            **medians,
            "ratio": medians["bin"] / statistics.mean([medians["base"], medians["base_again"]]),
            "ratio_of_base_to_itself": medians["base_again"] / medians["base"],
            "turns": turns,
        }
        print(name, json.dumps({key: value for key, value in rows[name].items() if key != "turns"}), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=pathlib.Path, required=True, help="folder with the earlier maxsimd, maxsim-shard and maxsim-loadtest")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder with the maxsimd that is compared with it")
    parser.add_argument("--documents", type=int, default=100_000, help="documents of each collection (default: 100000)")
    parser.add_argument("--tokens", type=int, default=180, help="tokens of a document (default: 180)")
    parser.add_argument("--concurrency", type=int, default=96, help="queries under way where many are (default: 96)")
    parser.add_argument("--turns", type=int, default=6, help="turns of each case (default: 6, each order of the three servers once)")
    parser.add_argument("--seconds", type=int, default=2, help="seconds of each measurement (default: 2)")
    parser.add_argument("--cases", default="", help="only the cases with this text in their name, such as latency (default: all)")
    parser.add_argument("--server-cpus", help="processors of the servers, such as 0-7 (default: all)")
    parser.add_argument("--client-cpus", help="processors of the load tester (default: all)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file to write")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="two-builds-") as name, contextlib.ExitStack() as stack:
        options.scratch = pathlib.Path(name)
        folders = {storage: options.scratch / storage for storage in ("i8", "f16")}
        for storage, folder in folders.items():
            make_collection(options, storage, folder)
        servers = {}
        for build, binaries in (("base", options.base), ("bin", options.bin), ("base_again", options.base)):
            residency = "gpu" if has_gpu() else "host"
            server = Maxsimd(binaries, options.scratch, build, folders, residency, {}, 180, True)
            servers[build] = stack.enter_context(server)
            if options.server_cpus:
                command = ["taskset", "-a", "-c", "-p", options.server_cpus, str(server.process.pid)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = {
            "command": " ".join(sys.argv),
            "base": server_commit(options.base),
            "bin": server_commit(options.bin),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "device": gpu_query("name,driver_version") if has_gpu() else f"no GPU, {os.cpu_count()} processors",
            "cases": compare(options, servers),
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
