#!/usr/bin/env python3
"""Times maxsim.Client.rerank against the bare gRPC stub, which sends a ready-made message and does not read the answer.
Both send the same request to the same server, in turn, so that the machine's load affects both alike.

    build/release/bin/maxsimd --collection demo=build/demo &
    PYTHONPATH=client/python bench/client/top_k.py --collection demo --candidates 100 --top-k 100

Prints a JSON object with the median times in microseconds: of the stub; of the client; and of the client when the
caller then reads `ids` and `scores`, or every Document.
"""

import argparse
import json
import statistics
import time

import google.protobuf
import grpc
import numpy as np

from maxsim import Client, Request

QUERY_TOKENS = 32


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="HOST:PORT; default: $MAXSIM_SERVER, else localhost")
    parser.add_argument("--collection", default="demo")
    parser.add_argument("--candidates", type=int, default=100, help="how many ids a request lists")
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    name, top_k = options.collection, options.top_k
    with Client(options.server) as client:
        [dim] = [one.dim for one in client.info().collections if one.name == name]
        query = np.random.default_rng(1).standard_normal((QUERY_TOKENS, dim)).astype(np.float16)
        ids = client.rerank(name, query, top_k=options.candidates).ids
        message = Request(name, query, ids, top_k=top_k).to_message()

        def stub():
            client.reranker.Rerank(message, timeout=30)

        def plain():
            client.rerank(name, query, ids, top_k=top_k)

        def columns():
            ranking = client.rerank(name, query, ids, top_k=top_k)
            return ranking.ids, ranking.scores

        def documents():
            return [*client.rerank(name, query, ids, top_k=top_k)]

        calls = {"stub": stub, "client": plain, "client_columns": columns, "client_documents": documents}
        times = {one: [] for one in calls}
        names = [*calls]
        for i in range(options.rounds):
            for one in names[i % len(names) :] + names[: i % len(names)]:
                times[one].append(timed(calls[one]))
        medians = {one: round(statistics.median(some[len(some) // 10 :]), 1) for one, some in times.items()}
        what = {"candidates": len(ids), "top_k": top_k, "rounds": options.rounds}
        versions = {"grpcio": grpc.__version__, "protobuf": google.protobuf.__version__}
        over_stub = round(medians["client"] / medians["stub"], 3)
        print(json.dumps({**what, **versions, "median_us": medians, "client_over_stub": over_stub}))


if __name__ == "__main__":
    main()
