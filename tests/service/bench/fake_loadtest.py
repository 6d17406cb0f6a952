#!/usr/bin/env python3
"""Replaces maxsim-loadtest in a test. It accepts the same flags, connects to the server but sends no request, and
writes a report.

It fails like the real program if no server listens at --target or serves metrics at --metrics. The numbers in the
report depend only on the flags, so that a test can check which flags were passed."""

import argparse
import json
import socket
import sys
import time
import urllib.request

parser = argparse.ArgumentParser()
for flag in ("target", "collection", "candidates", "int-ids", "query-tokens", "queries-per-request", "shared-candidates",
             "top-k", "timeout", "mode", "concurrency", "rate", "arrivals", "warmup", "duration", "channels", "threads",
             "json", "html", "metrics", "check"):  # fmt: skip
    parser.add_argument(f"--{flag}")
parser.add_argument("--quiet", action="store_true")
options = parser.parse_args()
host, port = options.target.rsplit(":", 1)
if host == "unix":
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(port)
else:
    socket.create_connection((host, int(port)), timeout=5).close()
if options.metrics:
    urllib.request.urlopen(options.metrics, timeout=5).read()
if options.collection.startswith("shard") and options.mode == "closed" and options.candidates == "all":
    print("told to fail for shard32", file=sys.stderr)
    sys.exit(3)
time.sleep(float(options.duration.rstrip("s")))
rps = float(options.rate or 10 * int(options.concurrency or 1))
queries = int(options.queries_per_request)
with open(options.json, "w") as file:
    json.dump({"rps": rps, "qps": rps * queries, "latency_us": {"p50": 100.0, "p99": 900.0}, "server_us": {},
               "errors": {}, "rejected": 0, "stable": True, "client_bound": False, "machine_busy": 0.25,
               "server_metrics": [{"second": n, "kernel_seconds": 0.5 + n, "scored_bytes_per_second": 1e9} for n in range(4)]}, file)  # fmt: skip
