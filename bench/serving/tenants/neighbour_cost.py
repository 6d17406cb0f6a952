#!/usr/bin/env python3
"""Times a tenant's searches while another tenant sends ten times its quota, beside the same searches without it.

    neighbour_cost.py --bin build/release/bin --out neighbour_cost.json

README.md in this folder says what is compared. Needs NumPy and grpcio.
"""

import json
import pathlib
import statistics
import sys
import threading

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from loadtest import loadtest  # noqa: E402
from tenant_cost import measure, tenants_parser, token_of  # noqa: E402

QUERY_TOKENS = 32
STEADY, GREEDY = 0, 1  # tenants
OVER_QUOTA = 10
NEIGHBOUR_EXTRA_S = 4  # it begins before the measured searches and ends after them
COUNTS = ("requests", "rejected", "errors", "late_sends")


def write_tokens(options):
    """Writes the server's token file, and a file for each of the two load testers."""
    pairs = QUERY_TOKENS * options.tokens * (options.documents // options.tenants)
    quota = pairs * options.quota_requests
    with open(options.scratch / "tokens.txt", "w") as lines:
        for tenant in (STEADY, GREEDY):
            settings = {"tenant": f"t{tenant}", "collections": ["documents"], "filter": f'owner = "t{tenant}"'}
            if tenant == GREEDY:
                settings["token_pairs_per_second"] = quota
            lines.write(f"{token_of(tenant)} {json.dumps(settings)}\n")
            (options.scratch / f"token-{tenant}").write_text(token_of(tenant) + "\n")
    return options.scratch / "tokens.txt"


def load(options, target, tenant, rate, seconds):
    """Runs the load tester with a tenant's token. It ends with 1 if requests were refused, which is right for the
    neighbour, and with 3 if it could not send on time: then `late_sends` of the result says how often."""
    folder = options.scratch / f"load-{tenant}"
    folder.mkdir(exist_ok=True)
    return loadtest(
        options.bin, folder, target, "documents", "all", seconds=seconds, mode="open", rate=rate, top_k=10,
        token_file=options.scratch / f"token-{tenant}", query_tokens=QUERY_TOKENS, pool_requests=64, threads=1,
        concurrency=None, exits=(0, 3) if tenant == STEADY else (0, 1, 3),
    )  # fmt: skip


def load_tenants(options, target, with_neighbour):
    """Returns the report of the steady tenant, and that of its neighbour or None."""
    reports = {}
    if with_neighbour:
        rate, seconds = OVER_QUOTA * options.quota_requests, options.seconds + NEIGHBOUR_EXTRA_S
        thread = threading.Thread(
            target=lambda: reports.update(neighbour=load(options, target, GREEDY, rate, seconds)), daemon=True
        )
        thread.start()
    steady = load(options, target, STEADY, options.rate, options.seconds)
    if with_neighbour:
        thread.join()
        if "neighbour" not in reports:
            raise RuntimeError("the neighbour's load tester failed")
    return steady, reports.get("neighbour")


def compare(options, target):
    """Measures in turns, alone and beside the neighbour. Returns the medians of the latencies in microseconds."""
    found = {"alone": [], "beside_neighbour": []}
    neighbours = []
    for _ in range(options.turns):
        for name, reports in found.items():
            steady, neighbour = load_tenants(options, target, name == "beside_neighbour")
            reports.append(steady)
            if neighbour is not None:
                if neighbour["rejected"] == 0:
                    raise RuntimeError("no request of the neighbour was refused: raise --quota-requests")
                neighbours.append({key: neighbour[key] for key in COUNTS})
    result = {
        name: {key: statistics.median(report["latency_us"][key] for report in reports) for key in ("p50", "p99")}
        for name, reports in found.items()
    }
    return {
        "latency_us": result,
        "p99_beside_alone": result["beside_neighbour"]["p99"] / result["alone"]["p99"],
        "neighbours": neighbours,
        "steady": [{key: report[key] for key in COUNTS} for reports in found.values() for report in reports],
    }


def main():
    parser = tenants_parser(__doc__)
    parser.add_argument("--rate", type=int, default=200, help="searches a second of the measured tenant (default: 200)")
    parser.add_argument("--quota-requests", type=int, default=300,
                        help="the neighbour's quota, in searches a second (default: 300)")  # fmt: skip
    parser.add_argument("--seconds", type=int, default=10, help="seconds of each measurement (default: 10)")
    parser.add_argument("--turns", type=int, default=3, help="turns of the comparison (default: 3)")
    options = parser.parse_args()
    measure(options, "neighbour-cost-", write_tokens, compare)


if __name__ == "__main__":
    main()
