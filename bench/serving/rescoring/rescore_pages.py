#!/usr/bin/env python3
"""Times calls of POST /v1/rerank that rank a search engine's candidates, pages of 1,030 vectors, one call at a time.

    rescore_pages.py --bin build/release/bin --out rescore_pages.json

README.md in this folder says where these sizes come from. Needs NumPy.
"""

import base64
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import time
import urllib.parse

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cases"))

from servers import Maxsimd, benchmark_parser, build_collection, provenance  # noqa: E402

COLLECTION = "pages"
RESULTS = 10
WARMUP_CALLS = 20
# Largest error of a score by storage type, relative to the score. The server may round the query to FP16 and adds in
# FP32; BF16 and INT8 also round the pages.
TOLERANCE = {"f16": 1e-3, "bf16": 1e-2, "i8": 3e-2}


def random_vectors(random, shape):
    """Returns float16 vectors of length 1."""
    vectors = random.standard_normal(shape, np.float32)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float16)


def make_collection(options, random, folder):
    """Builds the collection in `folder`. Returns its vectors, [documents, tokens, dim]."""
    pages = np.lib.format.open_memmap(
        folder / "tokens.npy", "w+", np.float16, (options.documents * options.tokens, options.dim)
    )
    for begin in range(0, len(pages), options.tokens):
        pages[begin : begin + options.tokens] = random_vectors(random, (options.tokens, options.dim))
    pages.flush()
    np.save(folder / "lengths.npy", np.full(options.documents, options.tokens, np.int32))
    (folder / "ids.txt").write_text("".join(f"{id}\n" for id in range(options.documents)))
    build_collection(options.bin, folder, folder / COLLECTION, COLLECTION, options.storage)
    return pages.reshape(options.documents, options.tokens, options.dim)


class Client:
    """Calls /v1/rerank over one connection, which stays open."""

    def __init__(self, url):
        address = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def rerank(self, query, ids):
        """Returns the answer. `query` is a float16 matrix."""
        data = base64.b64encode(query.tobytes()).decode()
        matrix = {"dtype": "f16", "shape": query.shape, "data": data}
        body = json.dumps({"model": COLLECTION, "query": matrix, "documents": ids, "top_n": RESULTS})
        self._connection.request("POST", "/v1/rerank", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"/v1/rerank: {answer.status}: {text.decode(errors='replace')}")
        return json.loads(text)


def check(answer, query, ids, pages, tolerance):
    """Compares a ranking with one that NumPy computes from the vectors."""
    scores = [np.max(query.astype(np.float32) @ pages[id].T.astype(np.float32), axis=1).sum() for id in ids]
    best = sorted(scores, reverse=True)[:RESULTS]
    answered = [result["relevance_score"] for result in answer["results"]]
    if len(answered) != len(best) or not np.allclose(answered, best, rtol=tolerance):
        raise RuntimeError(f"the best scores should be {best}, but the server answered {answered}")


def measure(options, client, random, pages):
    """Returns the milliseconds of each call at the client, and the microseconds that the answers report."""
    times, timings = [], []
    for call in range(WARMUP_CALLS + options.calls):
        query = random_vectors(random, (options.query_tokens, options.dim))
        ids = random.choice(options.documents, options.candidates, replace=False).tolist()
        begin = time.perf_counter()
        answer = client.rerank(query, ids)
        milliseconds = 1000 * (time.perf_counter() - begin)
        if call == 0:
            check(answer, query, ids, pages, TOLERANCE[options.storage])
        if call >= WARMUP_CALLS:
            times.append(milliseconds)
            timings.append(answer["timings"])
    return times, timings


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=1000, help="pages in the collection (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=1030, help="vectors of a page (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=128, help="dimension of a vector (default: %(default)s)")
    parser.add_argument("--candidates", type=int, default=100, help="pages that a call ranks (default: %(default)s)")
    parser.add_argument("--query-tokens", type=int, default=32, help="vectors of a query (default: %(default)s)")
    parser.add_argument("--storage", choices=sorted(TOLERANCE), default="f16", help="default: %(default)s")
    parser.add_argument("--calls", type=int, default=300, help="measured calls (default: %(default)s)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    options = parser.parse_args()
    if not 0 < options.candidates <= options.documents:
        parser.error(f"--candidates must be 1 to {options.documents} (--documents), is {options.candidates}")
    if options.calls < 1:
        parser.error(f"--calls must be at least 1, is {options.calls}")

    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="rescore-pages-") as name:
        folder = pathlib.Path(name)
        pages = make_collection(options, random, folder)
        with Maxsimd(options.bin, folder, "server", {COLLECTION: folder / COLLECTION}, "auto") as server:
            times, timings = measure(options, Client(server.metrics_url), random, pages)

    shape = ("documents", "tokens", "dim", "candidates", "query_tokens", "storage", "calls")
    result = {
        **provenance(options.bin),
        **{member: getattr(options, member) for member in shape},
        "p50_ms": statistics.median(times),
        "mean_ms": statistics.mean(times),
        "p95_ms": float(np.percentile(times, 95)),
        "server_p50_ms": {
            part: statistics.median(timing[f"{part}_us"] for timing in timings) / 1000
            for part in ("queue", "copy", "kernel", "total")
        },
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"p50 {result['p50_ms']:.2f} ms, mean {result['mean_ms']:.2f} ms, p95 {result['p95_ms']:.2f} ms")


if __name__ == "__main__":
    main()
