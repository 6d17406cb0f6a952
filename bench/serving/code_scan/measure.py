#!/usr/bin/env python3
"""Times searches of a whole collection at a server that scans codes: one query at a time, and batches of queries.

    measure.py --bin build/release/bin --documents 5000000 --tokens 72 --residency host --out code_scan.json

Every document consists of spans of the demo's token vectors, with noise. The same queries are also searched by
scoring every document, to find how many of the best documents the scan found. The originals are INT8. Needs a CUDA
GPU, PyTorch, NumPy and grpcio.
"""

import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np
import torch

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from loadtest import loadtest  # noqa: E402
from servers import Maxsimd, benchmark_parser, build_collection, gpu_bytes, provenance  # noqa: E402
from maxsim import Client, token_matrix  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

SPANS = 4  # of the demo's rows, in every document
NOISE = 0.05
BLOCK = 100_000  # documents that are made at once
TOP_K = 100
QUERY_TOKENS = 32


def make_documents(folder, first, num_documents, num_tokens):
    """Writes tokens.npy [documents x tokens, dim] of INT8, scales.npy, lengths.npy and ids.txt, made on the GPU.

    The ids are `first`, first + 1 and so on, and the vectors depend on `first`.
    """
    folder.mkdir()
    pool = torch.from_numpy(np.load(REPOSITORY / "demo/tokens.npy")).cuda().float()
    rows = num_documents * num_tokens
    tokens = np.lib.format.open_memmap(folder / "tokens.npy", "w+", np.int8, (rows, pool.shape[1]))
    scales = np.empty(rows, np.float32)
    generator = torch.Generator(device="cuda").manual_seed(5 + first)
    position = torch.arange(num_tokens, device="cuda")
    for begin in range(0, num_documents, BLOCK):
        size = min(BLOCK, num_documents - begin)
        starts = torch.randint(0, len(pool), (size, SPANS), device="cuda", generator=generator)
        chosen = (starts[:, position * SPANS // num_tokens] + position) % len(pool)
        vectors = pool[chosen.flatten()]
        vectors += NOISE * torch.randn(vectors.shape, device="cuda", generator=generator)
        vectors = torch.nn.functional.normalize(vectors, dim=1)
        scale = vectors.abs().amax(1) / 127
        where = slice(begin * num_tokens, (begin + size) * num_tokens)
        tokens[where] = (vectors / scale[:, None]).round().to(torch.int8).cpu().numpy()
        scales[where] = scale.cpu().numpy()
    del tokens
    np.save(folder / "scales.npy", scales)
    np.save(folder / "lengths.npy", np.full(num_documents, num_tokens, np.int32))
    (folder / "ids.txt").write_text("\n".join(map(str, range(first, first + num_documents))) + "\n")


def build(options, vectors, folder):
    """Builds a collection of the files of make_documents. It has one shard, because a scan takes a GPU 50 us more per
    shard."""
    one_shard = ("--max-shard-bytes", "64GiB")
    build_collection(options.bin, vectors, folder, "documents", "i8", *one_shard, planes=options.planes)


def join(folders, folder):
    """Moves the shards of several collections into one. The collections must have the same format and different ids."""
    folder.mkdir()
    joined = None
    for idx, part in enumerate(folders):
        manifest = json.loads((part / "collection.json").read_text())
        for shard in manifest["shards"]:
            for entry in [shard, *shard.get("codes", [])]:
                name = f"part-{idx}-{entry['file']}"
                (part / entry["file"]).rename(folder / name)
                entry["file"] = name
        if joined is None:
            joined = manifest
            continue
        joined["shards"] += manifest["shards"]
        for total in ("num_documents", "num_tokens"):
            joined[total] += manifest[total]
    (folder / "collection.json").write_text(json.dumps(joined))


def make_collection(options, folder):
    """Builds the collection part by part, `options.builds` parts at a time, so that the scratch folder holds the vectors
    of no more parts."""
    parts, building = [], []

    def finish():
        vectors, part, built = building.pop(0)
        built.result()
        shutil.rmtree(vectors)
        parts.append(part)

    with concurrent.futures.ThreadPoolExecutor(options.builds) as pool:
        for first in range(0, options.documents, options.part):
            number = first // options.part
            vectors, part = options.scratch / f"vectors-{number}", folder.with_name(f"{folder.name}-part-{number}")
            make_documents(vectors, first, min(options.part, options.documents - first), options.tokens)
            building.append((vectors, part, pool.submit(build, options, vectors, part)))
            if len(building) == options.builds:
                finish()
        while building:
            finish()
    torch.cuda.empty_cache()
    join(parts, folder)
    for part in parts:
        shutil.rmtree(part)


def make_queries(count):
    """Returns queries [count, tokens, dim] F16: `QUERY_TOKENS` consecutive rows of the demo from a random one on,
    with noise."""
    pool = torch.from_numpy(np.load(REPOSITORY / "demo/tokens.npy")).float()
    generator = torch.Generator().manual_seed(6)
    starts = torch.randint(0, len(pool), (count, 1), generator=generator)
    vectors = pool[(starts + torch.arange(QUERY_TOKENS)) % len(pool)]
    vectors += 2 * NOISE * torch.randn(vectors.shape, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=2).half().numpy()


def request(queries, refined):
    message = rerank_pb2.RerankRequest(collection="documents", top_k=TOP_K)
    message.candidates.whole_collection.SetInParent()
    message.refinement.documents = refined
    for query in queries:
        message.queries.add(tokens=token_matrix(query))
    return message


def load(options, server, queries_per_request, clients=1):
    """Runs maxsim-loadtest with `clients` requests in flight. Adds the mean times of a batch's scan and of its exact
    scoring."""
    before = server.metrics()
    result = loadtest(
        options.bin, options.scratch, server.unix_target, "documents", "all", seconds=options.seconds,
        concurrency=clients, query_tokens=None, queries=options.scratch / "queries.npy",
        query_lengths=options.scratch / "query_lengths.npy", queries_per_request=queries_per_request, top_k=TOP_K,
        pool_requests=64, timeout="60s", quiet=None,
    )  # fmt: skip
    after = server.metrics()
    row = {key: result[key] for key in ("command", "requests", "qps", "latency_us", "server_us", "errors")}
    for stage in ("scan", "refine"):
        seconds, batches = (
            after[name] - before[name]
            for name in (f"maxsim_{stage}_duration_seconds_sum", f"maxsim_{stage}_duration_seconds_count")
        )
        row[f"{stage}_ms"] = 1000 * seconds / batches if batches else None
    return row


def ask(address, queries, num_documents):
    """Asks each query twice, with a scan and by scoring every document, and compares the answers and the bits of the
    scores."""
    found, certificates, same_scores = [], [], True
    with Client(address) as client:
        for query in queries:
            scanned = client.reranker.Rerank(request([query], 0)).results[0]
            exact = client.reranker.Rerank(request([query], num_documents)).results[0]
            found.append([len(set(scanned.positions[:k]) & set(exact.positions[:k])) / k for k in (10, TOP_K)])
            scores = dict(zip(exact.positions, exact.scores))
            same_scores &= all(scores.get(p, s) == s for p, s in zip(scanned.positions, scanned.scores))
            certificates.append(scanned.refinement.certificate)
    recall = np.mean(found, axis=0)
    proven = certificates.count(rerank_pb2.CERTIFICATE_PROVEN)
    return {
        "queries": len(queries),
        "refined": scanned.refinement.documents,
        "planes": scanned.refinement.planes,
        "recall@10": float(recall[0]),
        "recall@100": float(recall[1]),
        "proven": proven,
        "same_scores": same_scores,
    }


def measure(options, folder, residency, queries):
    before = gpu_bytes()
    # By default a server refuses to queue a batch of scans of the whole collection, because it is too much work.
    keys = {"batching.max_queue_work": 1 << 44, "batching.max_queue_time": "0s"}
    with Maxsimd(options.bin, options.scratch, "server", {"documents": folder}, residency, keys, 400, True) as server:
        yield {"start_s": server.start_seconds, "gpu_bytes": gpu_bytes() - before}
        if options.planes:
            yield {"answers": ask(server.unix_target, queries[: options.compare], options.documents)}
        yield {"one_query": load(options, server, 1)}
        yield {"batch_of_32": load(options, server, 32)}
        for clients in options.clients:
            yield {f"clients_{clients}": load(options, server, 1, clients)}


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents to make (default: 1000000)")
    parser.add_argument("--tokens", type=int, default=72, help="tokens of a document (default: 72)")
    parser.add_argument("--part", type=int, default=1_000_000, help="documents that are made at once (default: 1000000)")
    parser.add_argument("--builds", type=int, default=3, help="parts that are built at the same time (default: 3)")
    parser.add_argument("--planes", type=int, choices=(0, 1, 2, 4), default=1,
                        help="planes of codes; 0: none, every vector is read (default: 1)")  # fmt: skip
    parser.add_argument("--residency", choices=("gpu", "host", "disk"), nargs="+", default=["host"],
                        help="where the originals are, one server after another (default: host)")  # fmt: skip
    parser.add_argument("--seconds", type=int, default=10, help="seconds of each measurement (default: 10)")
    parser.add_argument("--clients", type=int, nargs="*", default=[], help="how many clients ask at once, besides one")
    parser.add_argument("--compare", type=int, default=20, help="queries that are compared with exact ones (default: 20)")
    parser.add_argument("--collection", type=pathlib.Path, help="folder of the collection, kept if given, and used if there")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the vectors' files (default: the system's)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="code-scan-") as name:
        options.scratch = pathlib.Path(name)
        folder = options.collection or options.scratch / "collection"
        result = provenance(options.bin)

        def keep(row, values):
            row.update(values)
            print(json.dumps(values), flush=True)
            options.out.write_text(json.dumps(result, indent=1) + "\n")

        if not folder.exists():
            begin = time.monotonic()
            make_collection(options, folder)
            keep(result, {"build_s": time.monotonic() - begin})
        queries = make_queries(256)
        np.save(options.scratch / "queries.npy", queries.reshape(-1, queries.shape[2]))
        np.save(options.scratch / "query_lengths.npy", np.full(len(queries), QUERY_TOKENS, np.int32))
        for residency in options.residency:
            row = result.setdefault(residency, {})
            for values in measure(options, folder, residency, queries):
                keep(row, values)


if __name__ == "__main__":
    main()
