#!/usr/bin/env python3
"""Times searches with a filter and the same without one, the first use of filters that the server has not seen
before, and groups, counts, facets and pages.

    filter_cost.py --bin build/release/bin --documents 1000000 --tokens 72 --out filter_cost.json

README.md in this folder says what is compared. Needs NumPy and grpcio.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from data import write_int8_vectors  # noqa: E402
from loadtest import loadtest  # noqa: E402
from servers import Maxsimd, benchmark_parser, build_collection, has_gpu, provenance  # noqa: E402
from call_cost import time_cached_filter, time_calls  # noqa: E402
from maxsim import Client, token_matrix  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

BLOCK = 100_000  # documents that are made at once
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
FIELDS = "percent:integer,half:boolean,lang:keyword,year:integer,price:number,book:keyword"
DOCUMENTS_PER_BOOK = 10


def make_collection(options, folder):
    """Builds a collection of INT8 vectors in one shard. Its documents have random values of FIELDS."""
    random = np.random.default_rng(5)
    write_int8_vectors(options.scratch, options.documents, options.tokens, options.dim, random)
    with open(options.scratch / "docs.jsonl", "w") as lines:
        for begin in range(0, options.documents, BLOCK):
            size = min(BLOCK, options.documents - begin)
            percent, half = random.integers(0, 100, size), random.integers(0, 2, size)
            lang, year = random.integers(0, len(LANGUAGES), size), random.integers(1990, 2030, size)
            price = random.random(size).round(6)
            for i in range(size):
                lines.write(
                    f'{{"id":{begin + i},"percent":{percent[i]},"half":{"true" if half[i] else "false"},'
                    f'"lang":"{LANGUAGES[lang[i]]}","year":{year[i]},"price":{price[i]},'
                    f'"book":"b{(begin + i) // DOCUMENTS_PER_BOOK}"}}\n'
                )
    build_collection(
        options.bin, options.scratch, folder, "documents", "i8", "--fields", FIELDS, "--max-shard-bytes", "64GiB",
        ids="docs.jsonl", planes=options.planes,
    )  # fmt: skip


def load(options, address, candidates, text=None):
    """Runs the load tester with the filter `text`, or without a filter if that is None."""
    result = loadtest(
        options.bin, options.scratch, address, "documents", candidates, num_ids=options.documents, filter=text,
        seconds=options.seconds, pool_requests=64, timeout="60s", quiet=None,
    )  # fmt: skip
    return {key: result[key] for key in ("command", "requests", "latency_us", "server_us", "errors")}


def compare(options, address):
    """Times each case in several turns. Returns the median of each case's p50 in microseconds, and the reports."""
    percent = options.documents // 100
    cases = {
        "whole_collection": ("all",),
        "half_of_it": ("all", "half = true"),
        "list_of_1_percent": (percent,),
        "filter_of_1_percent": ("all", "percent = 7"),
    }
    reports = {name: [] for name in cases}
    for _ in range(options.turns):
        for name, case in cases.items():
            reports[name].append(load(options, address, *case))
    p50 = {name: statistics.median(report["latency_us"]["p50"] for report in turns) for name, turns in reports.items()}
    return {
        "p50_us": p50,
        "1_percent_beside_list": p50["filter_of_1_percent"] / p50["list_of_1_percent"],
        "half_beside_whole": p50["half_of_it"] / p50["whole_collection"],
        "half_limit_us": 0.6 * p50["whole_collection"] + 200,  # the goal for half_of_it
        "reports": reports,
    }


def new_filters(count):
    """Returns the texts of `count` filters of each kind, all different."""
    return {
        "integer equals": [f"percent = {i}" for i in range(count)],
        "integer range": [f"year >= {1991 + i}" for i in range(count)],
        "number range": [f"price >= {0.1 + i / 100}" for i in range(count)],
        "keyword equals": [f'lang = "{LANGUAGES[i]}"' for i in range(min(count, len(LANGUAGES)))],
        "not keyword": [f'not lang = "{LANGUAGES[i]}"' for i in range(min(count, len(LANGUAGES)))],
        "and of three": [f'lang = "{LANGUAGES[i % 10]}" and half = true and year < {1995 + i}' for i in range(count)],
    }


def time_new_filters(options, address):
    """Returns, for each kind of filter, the median milliseconds of its first request and of repeated requests.

    The candidates are only a few ids, so that scoring takes almost no time.
    """
    query = np.random.default_rng(6).standard_normal((4, options.dim)).astype(np.float16)
    with Client(address) as client:

        def ask(text):
            request = rerank_pb2.RerankRequest(collection="documents", top_k=1, filter_text=text)
            request.queries.add(tokens=token_matrix(query))
            request.candidates.int_ids.ids.extend(range(10))
            begin = time.perf_counter()
            client.reranker.Rerank(request)
            return 1000 * (time.perf_counter() - begin)

        rows = {}
        for kind, texts in new_filters(options.new_filters).items():
            first, again = [ask(text) for text in texts], [min(ask(text) for _ in range(5)) for text in texts]
            rows[kind] = {"filters": len(texts), "first_ms": statistics.median(first), "again_ms": statistics.median(again)}
            rows[kind]["evaluated_ms"] = rows[kind]["first_ms"] - rows[kind]["again_ms"]
        return rows


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents to make (default: 1000000)")
    parser.add_argument("--tokens", type=int, default=72, help="tokens of a document (default: 72)")
    parser.add_argument("--dim", type=int, default=128, help="values of a token (default: 128)")
    parser.add_argument("--planes", type=int, choices=(0, 1, 2, 4), default=0, help="planes of codes (default: 0, none)")
    parser.add_argument("--new-only", action="store_true", help="measure new filters only")
    parser.add_argument("--new-filters", type=int, default=20, help="new filters of each kind (default: 20)")
    parser.add_argument("--calls", type=int, default=50, help="calls of each kind: groups, facets, ... (default: 50)")
    parser.add_argument("--cached-requests", type=int, default=2000, help="requests with a cached filter (default: 2000)")
    parser.add_argument("--turns", type=int, default=3, help="turns of the comparison (default: 3)")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of each measurement (default: 4)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="filter-cost-") as name:
        options.scratch = pathlib.Path(name)
        folder = options.scratch / "collection"
        make_collection(options, folder)
        result = provenance(options.bin)
        residency = "gpu" if has_gpu() else "host"
        keys = {"batching.max_queue_work": 1 << 44, "batching.max_queue_time": "0s"}
        with Maxsimd(options.bin, options.scratch, "server", {"documents": folder}, residency, keys, 400, True) as server:
            result["new_filters"] = time_new_filters(options, server.unix_target)
            result["cached_filter"] = time_cached_filter(options, server.unix_target)
            if not options.new_only:
                result["calls"] = time_calls(options, server.unix_target)
                result["comparison"] = compare(options, server.unix_target)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps({**result, "comparison": {**result.get("comparison", {}), "reports": None}}, indent=1))


if __name__ == "__main__":
    main()
