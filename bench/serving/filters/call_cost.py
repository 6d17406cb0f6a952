"""Times searches with group_by, counts, facets and pages, and for comparison plain searches. Also times requests with a
filter that the server has evaluated before, and the same requests without a filter. filter_cost.py calls this for its
collection."""

import statistics
import time

import grpc
import numpy as np
from maxsim import token_matrix
from maxsim.v1 import documents_pb2, documents_pb2_grpc, rerank_pb2, rerank_pb2_grpc

FILTERS = {"all": "", "50 percent": "half = true", "1 percent": "percent = 7"}
GROUPS = {"lang": 1, "lang, 3 each": 3, "book": 1, "book, 3 each": 3}
LISTED = 10  # candidates of the requests that show what a cached filter costs


def selected(request, text):
    """Sets the request's collection and, unless `text` is "", its filter. Returns the request."""
    request.collection = "documents"
    if text:
        request.filter_text = text
    return request


def make_calls(stubs, dim):
    """Returns (stub method, a function that makes its request) by the name of the case. Each request has a new
    query."""
    random = np.random.default_rng(8)
    reranker, documents = stubs

    def search(text, group="", size=0):
        request = selected(rerank_pb2.RerankRequest(top_k=10, group_by=group, group_size=size), text)
        request.queries.add(tokens=token_matrix(random.standard_normal((32, dim)).astype(np.float16)))
        request.candidates.whole_collection.SetInParent()
        return request

    calls = {}
    for share, text in FILTERS.items():
        calls[f"search, {share}"] = reranker.Rerank, lambda text=text: search(text)
        for name, size in GROUPS.items():
            field = name.split(",")[0]
            calls[f"groups by {name}, {share}"] = (
                reranker.Rerank,
                lambda text=text, field=field, size=size: search(text, field, size),
            )
        calls[f"count, {share}"] = documents.Count, lambda text=text: selected(documents_pb2.CountRequest(), text)
        for field in ("lang", "book"):
            calls[f"facets of {field}, {share}"] = (
                documents.Facets,
                lambda text=text, field=field: selected(documents_pb2.FacetsRequest(field=field, limit=10), text),
            )
        calls[f"page of 100, {share}"] = (
            documents.Scroll,
            lambda text=text: selected(documents_pb2.ScrollRequest(limit=100), text),
        )
    return calls


def milliseconds(method, request):
    begin = time.perf_counter()
    answer = method(request)
    return 1000 * (time.perf_counter() - begin), answer


def time_calls(options, address):
    """Returns, for each case, the median and the 99th percentile of its calls in milliseconds, which one client sends
    one after the other. The cases take turns, so that the machine's load affects all of them alike."""
    channel = grpc.insecure_channel(address)
    calls = make_calls((rerank_pb2_grpc.RerankerStub(channel), documents_pb2_grpc.DocumentsStub(channel)), options.dim)
    times = {name: [] for name in calls}
    for turn in range(options.calls + 1):
        for name, (method, make) in calls.items():
            taken, _ = milliseconds(method, make())
            if turn > 0:  # the first turn evaluates the filters
                times[name].append(taken)
    rows = {}
    for name, taken in times.items():
        rows[name] = {"p50_ms": statistics.median(taken), "p99_ms": float(np.percentile(taken, 99))}
        plain = "search, " + name.rpartition(", ")[2]
        if name.startswith("groups"):
            rows[name]["beside_search"] = rows[name]["p50_ms"] / rows[plain]["p50_ms"]
    return rows


def time_cached_filter(options, address):
    """Returns the median microseconds, within the server, of requests for a few ids with a filter that is cached and
    without one. Their difference is what a cached filter costs on the host."""
    stub = rerank_pb2_grpc.RerankerStub(grpc.insecure_channel(address))
    random = np.random.default_rng(9)
    times = {"with": [], "without": []}
    for turn in range(options.cached_requests):
        for name, text in (("with", FILTERS["50 percent"]), ("without", "")):
            request = selected(rerank_pb2.RerankRequest(top_k=LISTED), text)
            request.queries.add(tokens=token_matrix(random.standard_normal((4, options.dim)).astype(np.float16)))
            request.candidates.int_ids.ids.extend(random.integers(0, options.documents, LISTED).tolist())
            answer = stub.Rerank(request)
            if turn >= options.cached_requests // 10:  # the first tenth warms up
                times[name].append(answer.timings.total_us)
    p50 = {name: statistics.median(taken) for name, taken in times.items()}
    return {"p50_us": p50, "cached_filter_us": p50["with"] - p50["without"]}
