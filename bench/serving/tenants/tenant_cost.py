#!/usr/bin/env python3
"""Times searches of tenants beside searches of the same documents by their ids.

    tenant_cost.py --bin build/release/bin --out tenant_cost.json

README.md in this folder says what is compared. Needs NumPy and grpcio.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import grpc
import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from data import write_int8_vectors  # noqa: E402
from servers import Maxsimd, benchmark_parser, build_collection, has_gpu, provenance  # noqa: E402
from maxsim import token_matrix  # noqa: E402
from maxsim.v1 import rerank_pb2, rerank_pb2_grpc  # noqa: E402

PLAIN = "plain-token"


def token_of(tenant):
    return f"token-of-tenant-{tenant}-0123456789abcdef"


def make_collection(options, folder):
    """Builds a collection of INT8 vectors whose document i belongs to tenant i % options.tenants."""
    random = np.random.default_rng(5)
    write_int8_vectors(options.scratch, options.documents, options.tokens, options.dim, random)
    with open(options.scratch / "docs.jsonl", "w") as lines:
        for i in range(options.documents):
            lines.write(f'{{"id":{i},"owner":"t{i % options.tenants}"}}\n')
    build_collection(
        options.bin, options.scratch, folder, "documents", "i8", "--fields", "owner:keyword", ids="docs.jsonl"
    )


def write_tokens(options):
    path = options.scratch / "tokens.txt"
    with open(path, "w") as lines:
        lines.write(f"{PLAIN}\n")
        for tenant in range(options.tenants):
            settings = {"tenant": f"t{tenant}", "collections": ["documents"], "filter": f'owner = "t{tenant}"'}
            lines.write(f"{token_of(tenant)} {json.dumps(settings)}\n")
    return path


def ids_of(result):
    return list(result.int_ids.ids)


def compare(options, address):
    """Returns the medians in microseconds, at the client and within the server."""
    random = np.random.default_rng(6)
    reranker = rerank_pb2_grpc.RerankerStub(grpc.insecure_channel(address))
    client_us, server_us = {"tenant": [], "list": []}, {"tenant": [], "list": []}

    def ask(name, request, token):
        begin = time.perf_counter()
        answer = reranker.Rerank(request, metadata=[("authorization", f"Bearer {token}")])
        client_us[name].append(1e6 * (time.perf_counter() - begin))
        server_us[name].append(answer.timings.total_us)
        return answer.results[0]

    for turn in range(options.requests):
        if turn == options.requests // 10:  # the first tenth warms up
            for times in (*client_us.values(), *server_us.values()):
                times.clear()
        tenant = int(random.integers(options.tenants))
        own = rerank_pb2.RerankRequest(collection="documents", top_k=10)
        own.queries.add(tokens=token_matrix(random.standard_normal((32, options.dim)).astype(np.float16)))
        listed = rerank_pb2.RerankRequest()
        listed.CopyFrom(own)
        own.candidates.whole_collection.SetInParent()
        listed.candidates.int_ids.ids.extend(range(tenant, options.documents, options.tenants))
        if random.integers(2) == 0:
            by_tenant, by_list = ask("tenant", own, token_of(tenant)), ask("list", listed, PLAIN)
        else:
            by_list, by_tenant = ask("list", listed, PLAIN), ask("tenant", own, token_of(tenant))
        if ids_of(by_tenant) != ids_of(by_list) or list(by_tenant.scores) != list(by_list.scores):
            raise RuntimeError(f"tenant {tenant}: the answers differ")
    p50 = {name: statistics.median(times) for name, times in client_us.items()}
    within = {name: statistics.median(times) for name, times in server_us.items()}
    return {
        "p50_us": p50,
        "server_p50_us": within,
        "beside_list": p50["tenant"] / p50["list"],
        "beside_list_within_server": within["tenant"] / within["list"],
    }


def tenants_parser(description):
    """Returns a parser with the options of a benchmark of tenants that share one collection."""
    parser = benchmark_parser(description)
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents to make (default: 1000000)")
    parser.add_argument("--tenants", type=int, default=10_000, help="tenants that share them (default: 10000)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a document (default: 32)")
    parser.add_argument("--dim", type=int, default=128, help="values of a token (default: 128)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    return parser


def measure(options, prefix, write_tokens, compare):
    """Serves a new collection to the tenants of `write_tokens`, and writes what `compare` returns to options.out."""
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix=prefix) as name:
        options.scratch = pathlib.Path(name)
        folder = options.scratch / "collection"
        make_collection(options, folder)
        residency = "gpu" if has_gpu() else "host"
        keys = {"auth.tokens_file": str(write_tokens(options))}
        result = provenance(options.bin)
        with Maxsimd(options.bin, options.scratch, "server", {"documents": folder}, residency, keys, 400, True) as server:
            result.update(compare(options, server.unix_target))
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result, indent=1))


def main():
    parser = tenants_parser(__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="searches of tenants (default: 20000)")
    options = parser.parse_args()
    measure(options, "tenant-cost-", write_tokens, compare)


if __name__ == "__main__":
    main()
