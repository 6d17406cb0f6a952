#!/usr/bin/env python3
"""Measures the gain of a second group. Compares a server with a whole collection on one GPU with a router over two
groups, each of which has half of the collection on its own GPU. Needs two GPUs.

    bench/cluster/two_gpus.py --bin build/release/bin --out out.json

The collection is synthetic, --documents of --tokens x --dim F16, and `maxsim-shard split` cuts it. Every request scans
all of it. maxsim-loadtest keeps --concurrency requests in flight (--check exact: the same request has the same bits
each time), to the server and to the router in turns. The report has medians over the rounds. Before that, a few
rankings of both are compared.
"""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving/live"))

import numpy as np  # noqa: E402

from live_server import describe, gpu_query, need  # noqa: E402
from loadtest import loadtest as run_loadtest  # noqa: E402
from maxsim import Client  # noqa: E402
from servers import Maxsimd, benchmark_parser, run_shard  # noqa: E402
from synthetic import make_collection  # noqa: E402

NAME = "passages"
# Lifts the limits on a batch and on the queue, so that scans of the whole collection can share a batch.
BATCHING = {
    "batching.max_batch_work": "256Gi", "batching.max_queue_work": "4Ti", "batching.max_queue_time": "0s",
}  # fmt: skip
COMPARED = 20  # rankings


def loadtest(options, folder, target, concurrency):
    """Returns maxsim-loadtest's report of scans of the whole collection."""
    found = run_loadtest(
        options.bin, folder, target, NAME, "all", seconds=options.seconds, warmup="2s", pool_requests=256,
        concurrency=concurrency, threads=4, exits=(0, 3),
    )  # fmt: skip
    if found["rejected"]:
        raise RuntimeError(f"{found['rejected']} rejections at {target}")
    return found


def compare_rankings(options, targets):
    """Ends the program if the two give different answers to a query."""
    rng = np.random.default_rng(7)
    clients = [Client(target) for target in targets]
    for number in range(COMPARED):
        query = rng.standard_normal((32, options.dim)).astype(np.float16)
        rankings = [client.rerank(NAME, query, top_k=100) for client in clients]
        one, other = ([(hit.id, hit.score) for hit in ranking] for ranking in rankings)
        if one != other:
            raise SystemExit(f"query {number} has other results behind the router: {one[:3]} and {other[:3]}")


def measure(options, folder, targets):
    found = {}
    for label, concurrency in (("one request at a time", 1), (f"{options.concurrency} requests", options.concurrency)):
        rows = {way: [] for way in targets}
        for number in range(options.rounds):
            ways = list(targets)
            for way in ways if number % 2 == 0 else reversed(ways):
                report = loadtest(options, folder, targets[way], concurrency)
                rows[way].append((report["rps"], report["latency_us"]["p50"], report["latency_us"]["p99"]))
                print(f"{label}, round {number}: {way}: {report['rps']:.1f}/s", flush=True)
        names = ("requests_per_second", "p50_us", "p99_us")
        found[label] = {
            way: {name: float(np.median([value[i] for value in values])) for i, name in enumerate(names)}
            for way, values in rows.items()
        }
        ratios = [two[0] / one[0] for one, two in zip(rows["one GPU"], rows["two groups"])]
        found[label]["ratio"] = {"median": float(np.median(ratios)), "least": min(ratios), "most": max(ratios)}
    return found


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of a turn")
    parser.add_argument("--cpu", action="store_true", help="on the processors instead, to try this program")
    options = parser.parse_args()
    need(options.bin, "maxsimd", "maxsim-loadtest", "maxsim-shard")
    if not options.cpu and len(gpu_query("name")) < 2:
        raise SystemExit("this machine has fewer than two GPUs")
    result = describe(options.bin)
    result["shape"] = {name: getattr(options, name) for name in ("documents", "tokens", "dim")}
    with tempfile.TemporaryDirectory(prefix="maxsim-two-gpus-") as folder:
        folder = pathlib.Path(folder)
        real = make_collection(options, folder, NAME, "f16", 8)
        run_shard(options.bin, "split", folder / NAME, "--into", 2, "--output", folder / "parts")
        parts = sorted((folder / "parts").glob("partition-*"))
        def serve(name, path, device, partition=None):
            keys = BATCHING | {"store.verify_checksums": real}
            keys |= {"backend.kind": "cpu"} if options.cpu else {"backend.kind": "cuda", "backend.devices": [device]}
            keys |= {"cluster.partition": partition} if partition else {}
            return Maxsimd(options.bin, folder, name, {NAME: path}, "auto", keys)

        with (
            serve("whole", folder / NAME, 0) as whole,
            serve("first", parts[0], 0, "0/2") as first,
            serve("second", parts[1], 1, "1/2") as second,
        ):
            groups = [f"g0={first.target}", f"g1={second.target}"]
            with Maxsimd(options.bin, folder, "router", {}, "auto", {"cluster.groups": groups}) as router:
                targets = {"one GPU": whole.target, "two groups": router.target}
                compare_rankings(options, targets.values())
                result["figures"] = measure(options, folder, targets)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
