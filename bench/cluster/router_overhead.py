#!/usr/bin/env python3
"""Measures the costs of a router: the latency of single requests at a server, and through a router in front of the
same server, in turns. It repeats this with a server whose answers cost nothing, which shows the cost of a gRPC call
on the machine: a hop cannot cost less. It also measures the throughput of a router over one such server, and over
--groups of them, each with a partition.

    bench/cluster/router_overhead.py --bin build/release/bin --out out.json

In each round, every way has its turn, in an order that changes. The result has medians over the rounds, and the
smallest and largest values. Requests are lists of --candidates ids over --documents documents of --tokens x --dim
F16. For the throughput, maxsim-loadtest keeps --concurrency requests in flight through the router to
maxsim_bench_wire, which repeats answers that the server gave. The router's processor time is measured too: it shows
the cost of a request even if clients, router and server share few processors.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving/live"))

import numpy as np  # noqa: E402

from live_server import describe, need  # noqa: E402
from loadtest import loadtest as run_loadtest  # noqa: E402
from servers import Maxsimd, Wire, benchmark_parser, run_shard  # noqa: E402
from synthetic import make_collection  # noqa: E402

NAME = "passages"


def router_over(options, folder, name, targets):
    groups = [f"g{number}={target}" for number, target in enumerate(targets)]
    return Maxsimd(options.bin, folder, name, {}, "auto", {"cluster.groups": groups})


def loadtest(options, folder, target, concurrency, queries):
    """Runs the load tester. Returns its report, in which all answers must be right."""
    found = run_loadtest(
        options.bin, folder, target, NAME, options.candidates, num_ids=options.documents, seconds=options.seconds,
        top_k=10, pool_requests=queries, concurrency=concurrency, exits=(0, 3),
    )  # fmt: skip
    if found["rejected"]:
        raise RuntimeError(f"{found['rejected']} rejections at {target}")
    return found


def spread(values):
    return {"median": float(np.median(values)), "least": float(np.min(values)), "most": float(np.max(values))}


def measure_latency(options, folder, direct, router):
    """Returns p50 and p99 of each way, and by how much the router's latencies exceed the direct ones of the same
    round."""
    targets = {"direct": direct.target, "router": router.target}
    rows = {way: [] for way in targets}
    for number in range(options.rounds):
        ways = list(targets)
        for way in ways if number % 2 == 0 else reversed(ways):
            latency = loadtest(options, folder, targets[way], 1, 256)["latency_us"]
            rows[way].append((latency["p50"], latency["p99"]))
            print(f"round {number}: {way}: p50 {latency['p50']:.0f} us, p99 {latency['p99']:.0f} us", flush=True)
    found = {}
    for way, values in rows.items():
        found[way] = {f"p{p}_us": spread([value[i] for value in values]) for i, p in enumerate((50, 99))}
    added = np.array(rows["router"]) - np.array(rows["direct"])
    found["added_by_router"] = {f"p{p}_us": spread(added[:, i]) for i, p in enumerate((50, 99))}
    return found


def taken(router):
    """Returns the processor seconds that a router has used, and the number of calls that it has made to groups."""
    calls = sum(value for name, value in router.metrics().items() if name.startswith("maxsim_group_calls_total"))
    fields = pathlib.Path(f"/proc/{router.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK"), calls


def measure_throughput(options, folder, router, num_groups):
    """Returns the requests per second through a router, and its processor time per request. Each request calls every
    group."""
    rows = []
    for number in range(options.rounds):
        loadtest(options, folder, router.target, 1, 64)  # from this run, the wire learns the answers
        seconds, calls = taken(router)
        report = loadtest(options, folder, router.target, options.concurrency, 64)
        more_seconds, more_calls = taken(router)
        rows.append((report["rps"], 1e6 * num_groups * (more_seconds - seconds) / (more_calls - calls)))
        print(f"round {number}: {report['rps']:.0f} requests/s, {rows[-1][1]:.0f} us of the router each", flush=True)
    names = ("requests_per_second", "router_cpu_us_per_request")
    found = {name: spread([row[i] for row in rows]) for i, name in enumerate(names)}
    return {"groups": num_groups, **found}


@contextlib.contextmanager
def wires(options, folder, keys):
    """Starts a server for each partition, and in front of each server a Wire, which repeats its answers. Yields the
    Wires' targets."""
    parts = folder / "parts"
    run_shard(options.bin, "split", folder / NAME, "--into", options.groups, "--output", parts)
    with contextlib.ExitStack() as running:
        targets = []
        for number, path in enumerate(sorted(parts.iterdir())):
            server = Maxsimd(options.bin, folder, f"server{number}", {NAME: path}, "auto", keys)
            target = running.enter_context(server).target
            targets.append(running.enter_context(Wire(options.bin, folder, f"wire{number}", target)).target)
        yield targets


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--groups", type=int, default=4, help="of the last measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of a turn")
    options = parser.parse_args()
    need(options.bin, "maxsimd", "maxsim-loadtest", "maxsim-shard", "maxsim_bench_wire")
    result = describe(options.bin)
    result["shape"] = {name: getattr(options, name) for name in ("documents", "tokens", "dim", "candidates")}
    with tempfile.TemporaryDirectory(prefix="maxsim-router-") as folder:
        folder = pathlib.Path(folder)
        real = make_collection(options, folder, NAME, "f16", 4)
        keys = {"backend.kind": "cpu", "store.verify_checksums": real}
        with Maxsimd(options.bin, folder, "server", {NAME: folder / NAME}, "auto", keys) as server:
            with router_over(options, folder, "router", [server.target]) as router:
                result["latency"] = measure_latency(options, folder, server, router)
            with (
                Wire(options.bin, folder, "wire", server.target) as wire,
                router_over(options, folder, "router", [wire.target]) as router,
            ):
                loadtest(options, folder, router.target, 1, 256)  # from this run, the wire learns the answers
                result["latency_of_known_answers"] = measure_latency(options, folder, wire, router)
                result["throughput"] = measure_throughput(options, folder, router, 1)
        with wires(options, folder, keys) as targets, router_over(options, folder, "router", targets) as router:
            result["throughput_of_groups"] = measure_throughput(options, folder, router, len(targets))
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
