"""A router over three groups of two replicas gives exactly the answers of one server that holds all documents.

    equality_test.py FOLDER_OF_THE_PROGRAMS [--requests 2000] [--seed S]

Sends random requests of every kind, valid and invalid, to the router and to the single server. Answers must be equal
except for times. Errors must have the same code and name the same field. MAXSIM_TEST_SEED and MAXSIM_CLUSTER_REQUESTS
also set the seed and the number of requests.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import time

import compare
import nodes
import traffic
from corpus import Built, Corpus
from maxsim.v1 import rerank_pb2

PARTS, BATCH = 3, 200


def make_corpora(seed):
    return [
        Corpus("words", "f16", "string", seed, fields="n:integer,title:keyword,book:keyword"),
        Corpus("numbers", "i8", "int64", seed + 1, fields="n:integer,title:keyword,book:keyword"),
    ]


def build_cluster(programs, folder, corpora, **options):
    """Returns a cluster that is not started yet, and its collections on disk by name."""
    built = {one.name: Built(programs, folder, one, PARTS) for one in corpora}
    whole = {name: one.whole for name, one in built.items()}
    parts = [{name: one.parts[index] for name, one in built.items()} for index in range(PARTS)]
    return nodes.Cluster(programs, folder, whole, parts, **options), built


class Equality:
    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.both = [cluster.single, cluster.router]
        self.traffic = traffic.Traffic(seed, make_corpora(seed))
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.counts, self.words = collections.Counter(), []

    def ask(self, function):
        """Returns the answers of both."""
        return self.pool.map(function, self.both)

    def expect_equal(self, what, request, found):
        if found:
            raise AssertionError(f"{what}:\n{compare.short(request)}\n{found}")

    def check(self, what, request, wanted, got):
        self.expect_equal(what, request, compare.difference(wanted, got))
        if isinstance(wanted, compare.Failure):
            self.counts[f"code {wanted.code}"] += 1
            if wanted.message != got.message:
                self.words.append((wanted.message, got.message))
        else:
            self.counts["answers"] += 1

    def streams(self, count):
        requests = [self.traffic.next() for _ in range(count)]
        wanted, got = self.ask(lambda node: compare.stream(node.reranker, requests))
        for request in requests:
            name = request.request_id
            assert name in wanted and name in got, f"request {name} of a stream was not answered"
            self.check("RerankStream", request, wanted[name], got[name])
        self.counts["RerankStream"] += count

    def unary(self, count):
        for _ in range(count):
            request = self.traffic.next()
            if self.traffic.chooser.random() < 0.1:
                request.request_id = "r" * 257
            self.check("Rerank", request, *self.ask(lambda node: compare.call(node.reranker.Rerank, request)))
            self.counts["Rerank"] += 1
        for _ in range(count):
            request = self.traffic.explain()
            self.check("Explain", request, *self.ask(lambda node: compare.call(node.reranker.Explain, request)))
            request = self.traffic.get()
            self.check("Get", request, *self.ask(lambda node: compare.call(node.documents.Get, request)))
            request = self.traffic.counting()
            self.check("Count", request, *self.ask(lambda node: compare.call(node.documents.Count, request)))
            request = self.traffic.facets()
            self.check("Facets", request, *self.ask(lambda node: compare.call(node.documents.Facets, request)))
            request = self.traffic.scroll()
            self.check("Scroll", request, *self.ask(lambda node: compare.call(node.documents.Scroll, request)))
            for method in ("Explain", "Get", "Count", "Facets", "Scroll"):
                self.counts[method] += 1

    def http(self, count):
        for _ in range(count):
            path, body = self.traffic.body()
            wanted, got = self.ask(lambda node: node.post(path, body))
            self.expect_equal(path, body, compare.http_difference(wanted, got))
            self.counts[f"{path} {wanted[0]}"] += 1

    def info(self):
        """GetInfo describes the collections as the single server does."""
        said = [
            {one.name: one for one in node.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=60).collections}
            for node in self.both
        ]
        assert said[0].keys() == said[1].keys(), f"collections {sorted(said[1])} instead of {sorted(said[0])}"
        for name, wanted in said[0].items():
            for field in ("state", "generation", "dim", "storage", "id_type", "num_documents", "num_tokens",
                          "token_bytes", "has_payloads", "rotation_seed"):  # fmt: skip
                a, b = getattr(wanted, field), getattr(said[1][name], field)
                assert a == b, f"GetInfo of {name}: {field} is {b} instead of {a}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=int(os.environ.get("MAXSIM_CLUSTER_REQUESTS", 2000)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("equality") as folder:
        cluster, _ = build_cluster(arguments.programs, folder, make_corpora(arguments.seed))
        with cluster:
            cluster.start()
            equality = Equality(cluster, arguments.seed)
            equality.info()
            begin = time.monotonic()
            while (done := equality.counts["RerankStream"]) < arguments.requests:
                equality.streams(min(BATCH, arguments.requests - done))
                equality.unary(6)
                equality.http(12)
                if done % 10_000 == 0:
                    print(f"{done} requests: {time.monotonic() - begin:.0f} s", flush=True)
            cluster.stop()
    print(dict(sorted(equality.counts.items())))
    for wanted, got in {a[-20:]: (a, b) for a, b in equality.words}.values():
        print(f"other words: {got}\n  instead of {wanted}")
    if equality.counts["answers"] < arguments.requests // 3 or not equality.counts["code 3"]:
        sys.exit("too little was answered, or refused, for this to mean something")


if __name__ == "__main__":
    main()
