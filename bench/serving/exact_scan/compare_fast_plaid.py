#!/usr/bin/env python3
"""Compares an exact scan by maxsimd with fast-plaid's index, on the same documents, queries and GPU, in one run.

    compare_fast_plaid.py --bin build/release/bin --pool demo --documents 100000 --out results.json

Every document is made of real token vectors: four spans of the pool's rows, with 5 % noise, normalised again. Recall
is counted against the exact FP32 ranking, which PyTorch computes. maxsimd is asked from Python over a Unix socket,
with messages that are made before the clock starts. fast-plaid runs in this process, as its users run it.
"""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np
import torch

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from servers import Maxsimd as Server  # noqa: E402
from servers import benchmark_parser, provenance, run_shard  # noqa: E402
from maxsim import Client, token_matrix  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

TOP_K = 100
SPANS = 4  # of the pool's rows, in every document
NOISE = 0.05
MAX_QUERY_TOKENS = 32
BLOCK = 20_000  # documents that PyTorch takes at once
CLIENTS, QUERIES_PER_REQUEST, BATCHED_S = 8, 32, 4.0
PROBES = ((8, 4096), (32, 16384))  # fast-plaid's n_ivf_probe and n_full_scores


class Corpus:
    """Documents made from `pool`, [rows, dim] on the GPU. Their vectors are in a file at `path`, [tokens, dim] F16."""

    def __init__(self, pool, num_documents, path, seed):
        self.num_documents, self.dim = num_documents, pool.shape[1]
        chosen = np.random.default_rng(seed).lognormal(np.log(105), 0.55, num_documents)
        self.lengths = np.clip(chosen, 8, 512).astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.vectors = np.lib.format.open_memmap(path, "w+", np.float16, (int(self.offsets[-1]), self.dim))
        generator = torch.Generator(device="cuda").manual_seed(seed)
        for begin, end in self.blocks():
            self.vectors[self.offsets[begin] : self.offsets[end]] = self._make(pool, begin, end, generator)
        self.vectors.flush()

    def blocks(self):
        for begin in range(0, self.num_documents, BLOCK):
            yield begin, min(self.num_documents, begin + BLOCK)

    def _make(self, pool, begin, end, generator):
        lengths = torch.from_numpy(self.lengths[begin:end]).cuda()
        document = torch.repeat_interleave(torch.arange(end - begin, device="cuda"), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        position = torch.arange(len(document), device="cuda") - first[document]
        starts = torch.randint(0, len(pool), (end - begin, SPANS), device="cuda", generator=generator)
        rows = (starts[document, position * SPANS // lengths[document]] + position) % len(pool)
        vectors = pool[rows]
        vectors += NOISE * torch.randn(vectors.shape, device="cuda", generator=generator)
        return torch.nn.functional.normalize(vectors, dim=1).half().cpu().numpy()

    def documents(self):
        """Returns a tensor [tokens, dim] in host memory for each document. The tensors share the pages of the file."""
        vectors = torch.from_numpy(self.vectors)
        return [vectors[begin:end] for begin, end in zip(self.offsets[:-1], self.offsets[1:])]


def exact_rankings(corpus, queries):
    """Returns the ordinals of each query's TOP_K best documents, by FP32 products."""
    torch.backends.cuda.matmul.allow_tf32 = False
    scores = torch.empty((len(queries), corpus.num_documents), device="cuda")
    on_gpu = [torch.from_numpy(query).cuda().float() for query in queries]
    for begin, end in corpus.blocks():
        rows = slice(int(corpus.offsets[begin]), int(corpus.offsets[end]))
        tokens = torch.from_numpy(corpus.vectors[rows]).cuda().float()
        lengths = torch.from_numpy(corpus.lengths[begin:end]).cuda()
        for index, query in enumerate(on_gpu):
            best = torch.segment_reduce(tokens @ query.T, "max", lengths=lengths, axis=0)
            scores[index, begin:end] = best.sum(1)
    return torch.topk(scores, TOP_K, dim=1).indices.cpu().numpy()


def recall(rankings, truth, k):
    return float(np.mean([len(set(found[:k]) & set(best[:k])) / k for found, best in zip(rankings, truth)]))


def summary(seconds, rankings, truth, batched_qps):
    milliseconds = np.array(seconds) * 1e3
    return {
        "sequential_qps": float(1e3 / milliseconds.mean()),
        "p50_ms": float(np.median(milliseconds)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "batched_qps": float(batched_qps),
        "recall@10": recall(rankings, truth, 10),
        "recall@100": recall(rankings, truth, 100),
    }


def request(storage, queries):
    message = rerank_pb2.RerankRequest(collection=storage, top_k=TOP_K)
    message.candidates.whole_collection.SetInParent()
    for query in queries:
        message.queries.add(tokens=token_matrix(query))
    return message


def timed(function, *arguments, **options):
    begin = time.perf_counter()
    answer = function(*arguments, **options)
    return answer, time.perf_counter() - begin


class Maxsimd:
    """Makes the collections `f16` and `i8` of the corpus, and runs a server for one of them at a time."""

    def __init__(self, programs, folder, corpus, tokens_path):
        self.programs, self.folder = programs, folder
        np.save(folder / "lengths.npy", corpus.lengths)
        with open(folder / "ids.jsonl", "w", encoding="ascii") as ids:
            ids.writelines(f'{{"id": {ordinal}}}\n' for ordinal in range(corpus.num_documents))
        _, self.build_s = timed(
            run_shard, programs, "build", "--tokens", tokens_path, "--lengths", folder / "lengths.npy", "--ids",
            folder / "ids.jsonl", "--output", folder / "f16", "--name", "f16", "--storage", "f16",
        )  # fmt: skip
        _, self.quantize_s = timed(run_shard, programs, "quantize", folder / "f16", folder / "i8")

    def measure(self, storage, queries, truth):
        # Lifts the queue's limits, so that CLIENTS scans of the whole collection may wait at once, whatever its size.
        keys = {"batching.max_queue_work": 1 << 42, "batching.max_queue_time": "0s"}
        collections = {storage: self.folder / storage}
        with Server(self.programs, self.folder, "server", collections, "auto", keys, 600, True) as server:
            return {"start_s": server.start_seconds, **self._ask(server.unix_target, storage, queries, truth)}

    def _ask(self, address, storage, queries, truth):
        single = [request(storage, [query]) for query in queries]
        with Client(address) as client:
            rankings = [list(client.reranker.Rerank(message).results[0].positions) for message in single]
            seconds = [timed(client.reranker.Rerank, message)[1] for _ in range(3) for message in single]
        firsts = range(0, len(queries), QUERIES_PER_REQUEST)
        batches = [request(storage, (queries * 2)[first : first + QUERIES_PER_REQUEST]) for first in firsts]
        answered, done = [0] * CLIENTS, threading.Event()

        def ask_batches(number):
            with Client(address) as own:
                turn = number
                while not done.is_set():
                    own.reranker.Rerank(batches[turn % len(batches)])
                    answered[number] += QUERIES_PER_REQUEST
                    turn += 1

        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            running = [pool.submit(ask_batches, number) for number in range(CLIENTS)]
            time.sleep(BATCHED_S)
            done.set()
        for future in running:
            future.result()
        return summary(seconds, rankings, truth, sum(answered) / (time.perf_counter() - begin))


def measure_fast_plaid(folder, corpus, queries, truth, nbits):
    from fast_plaid import search

    index = search.FastPlaid(index=str(folder / f"fast_plaid_{nbits}"), device="cuda:0")
    _, create_s = timed(index.create, documents_embeddings=corpus.documents(), nbits=nbits)
    tensors, rows = [torch.from_numpy(query.astype(np.float32)) for query in queries], {}
    for probes, full_scores in PROBES:

        def ask(batch):
            return index.search(
                queries_embeddings=batch,
                top_k=TOP_K,
                n_ivf_probe=probes,
                n_full_scores=full_scores,
                show_progress=False,
            )

        ask(tensors[:1])
        answers = [timed(ask, [query]) for _ in range(2) for query in tensors]
        rankings = [[ordinal for ordinal, _ in answer[0]] for answer, _ in answers[: len(tensors)]]
        ask(tensors)
        begin, rounds = time.perf_counter(), 0
        while time.perf_counter() - begin < BATCHED_S:
            ask(tensors)
            rounds += 1
        batched_qps = rounds * len(tensors) / (time.perf_counter() - begin)
        name = f"fast-plaid {nbits} bits, {probes} probes, {full_scores} full scores"
        rows[name] = {"create_s": create_s, **summary([s for _, s in answers], rankings, truth, batched_qps)}
    return rows


def read_pool(folder):
    """Returns the vectors of tokens.npy in `folder` (INT8 ones are multiplied by scales.npy, one scale per row), and
    the queries, one matrix each."""
    tokens = torch.from_numpy(np.load(folder / "tokens.npy")).cuda().float()
    if (folder / "scales.npy").exists():
        tokens *= torch.from_numpy(np.load(folder / "scales.npy").astype(np.float32)).cuda()[:, None]
    lengths = np.load(folder / "query_lengths.npy")
    queries = np.split(np.load(folder / "query_tokens.npy"), np.cumsum(lengths)[:-1])
    return tokens, [query[:MAX_QUERY_TOKENS].astype(np.float16) for query in queries]


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--pool", type=pathlib.Path, default=REPOSITORY / "demo",
                        help="folder with tokens.npy, query_tokens.npy and query_lengths.npy (default: demo)")  # fmt: skip
    parser.add_argument("--documents", type=int, default=100_000, help="documents to make (default: 100000)")
    parser.add_argument("--nbits", type=int, nargs="*", default=[4], help="bits of fast-plaid's codes (default: 4)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for collections and indexes (default: the system's)")
    parser.add_argument("--tokens-in", type=pathlib.Path, help="folder for the vectors' file (default: --work)")
    options = parser.parse_args()

    pool, queries = read_pool(options.pool)
    with tempfile.TemporaryDirectory(dir=options.work, prefix="exact-scan-") as name:
        folder = pathlib.Path(name)
        tokens_path = (options.tokens_in or folder) / "exact-scan-tokens.npy"
        corpus = Corpus(pool, options.documents, tokens_path, seed=5)
        result = {
            **provenance(options.bin),
            "documents": options.documents,
            "tokens": int(corpus.offsets[-1]),
            "queries": len(queries),
            "mean_query_tokens": float(np.mean([len(query) for query in queries])),
            "rows": {},
        }

        def keep(rows):
            result["rows"].update(rows)
            print(json.dumps(rows), flush=True)
            options.out.write_text(json.dumps(result, indent=1) + "\n")

        truth = exact_rankings(corpus, queries)
        del pool
        torch.cuda.empty_cache()
        ours = Maxsimd(options.bin, folder, corpus, tokens_path)
        result["build_s"], result["quantize_s"] = ours.build_s, ours.quantize_s
        for storage in ("f16", "i8"):
            keep({f"maxsimd {storage}": ours.measure(storage, queries, truth)})
        for nbits in options.nbits:
            keep(measure_fast_plaid(folder, corpus, queries, truth, nbits))
        tokens_path.unlink()


if __name__ == "__main__":
    main()
