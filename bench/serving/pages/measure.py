#!/usr/bin/env python3
"""Builds a large collection of pages with codes in bounded host memory, and times searches of it.

    measure.py --bin build/release/bin --out pages.json

By default it makes 172,808 pages of 768 vectors, d = 128: as many pages as the corpus with which a user of fast-plaid
ran out of memory (lightonai/fast-plaid, update() CUDA OOMs when building a large index incrementally). The corpus is
not public, so the vectors are synthetic. They are never all in memory: a process makes a block of pages, passes them to
CollectionWriter, and frees them. If this process takes more than --memory-gib, the program ends with an error.

Needs NumPy, xxhash and grpcio. With PyTorch and a GPU, the GPU makes the vectors. The disk needs 20 GB.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cases"))

from servers import Maxsimd, Watcher, benchmark_parser, gpu_bytes, provenance  # noqa: E402
from synthetic_pages import PageMaker, question  # noqa: E402
from maxsim import Client, token_matrix  # noqa: E402
from maxsim.collection import CollectionWriter  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

NAME = "pages"
TOP_K = 10


class ProcessMemory(Watcher):
    """Measures the peak memory of a process during a `with` block, in bytes. `own` is the memory that only the process
    can free: its heap and its pinned memory. `resident` also counts mapped files, whose memory the system takes back
    when it needs it. On a system that does not report the two apart, both are the same. Calls `exceeded` once, from the
    watching thread, if `own` is above `limit` bytes."""

    def __init__(self, pid, limit=None, exceeded=None):
        super().__init__()
        self.own = self.resident = 0
        self._status = pathlib.Path(f"/proc/{pid}/status")
        self._limit, self._exceeded = limit, exceeded

    def _watch(self):
        stopped = False
        while not stopped:
            stopped = self._stop.wait(0.02)  # The last sample is taken after the block.
            try:
                lines = [line.split() for line in self._status.read_text().splitlines()]
            except OSError:  # it has ended
                return
            sizes = {line[0]: int(line[1]) << 10 for line in lines if line[0].startswith(("Rss", "VmHWM", "VmRSS"))}
            if "VmRSS:" not in sizes:  # it is a zombie
                return
            resident = sizes["VmRSS:"]
            self.resident = max(self.resident, sizes.get("VmHWM:", resident))
            self.own = max(self.own, sizes.get("RssAnon:", resident) + sizes.get("RssShmem:", 0))
            if self._limit is not None and self.own > self._limit:
                self._exceeded()
                return


def build(options):
    """Writes the collection, and questions about --queries of its pages, evenly spread. Prints times as JSON."""
    maker = PageMaker(options.tokens, options.dim)
    block = max(1, (options.block_mib << 20) // (options.tokens * options.dim * 2))
    step = max(1, options.pages // options.queries)
    questions, asked = [], []
    generate_s, begin = 0.0, time.monotonic()
    with CollectionWriter(
        options.collection, dim=options.dim, storage=options.storage, name=NAME, codes=options.planes,
        max_shard_bytes=options.shard_gib << 30,
    ) as writer:  # fmt: skip
        for first in range(0, options.pages, block):
            made = time.monotonic()
            pages = maker.block(first // block, min(block, options.pages - first))
            generate_s += time.monotonic() - made
            for page, vectors in enumerate(pages, first):
                writer.add(page, vectors)
                if page % step == 0 and len(questions) < options.queries:
                    questions.append(question(vectors, page))
                    asked.append(page)
    np.savez(options.questions, vectors=np.stack(questions), pages=np.array(asked))
    print(json.dumps({"seconds": time.monotonic() - begin, "generate_seconds": generate_s, "made_on": maker.device}))


def build_in_a_process(options):
    """Runs build() in a process of its own. Returns its times and its peak memory in bytes. SystemExit: it failed, or it
    took more than --memory-gib and was killed."""
    command = [sys.executable, "-B", __file__, "--build", *sys.argv[1:], "--collection", str(options.collection),
               "--questions", str(options.questions)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    limit = options.memory_gib << 30
    with ProcessMemory(process.pid, limit, process.kill) as memory:
        try:
            printed, _ = process.communicate()
        finally:
            process.kill()  # without effect if it has ended
    if memory.own > limit:
        raise SystemExit(f"--memory-gib {options.memory_gib}: the build took {memory.own:,} bytes, more than {limit:,}")
    if process.returncode != 0:
        raise SystemExit(f"the build ended with {process.returncode}")
    return {**json.loads(printed), "peak_own_bytes": memory.own, "peak_resident_bytes": memory.resident}


def sizes(folder):
    """Returns the number of shards, and the bytes of the shards and of their codes."""
    shards = json.loads((folder / "collection.json").read_text())["shards"]
    codes = sum(entry["num_bytes"] for shard in shards for entry in shard.get("codes", []))
    return {"shards": len(shards), "shard_bytes": sum(shard["num_bytes"] for shard in shards), "code_bytes": codes}


def request(vectors, refined):
    """Returns a search of the whole collection that scores `refined` pages exactly (0: the server chooses)."""
    message = rerank_pb2.RerankRequest(collection=NAME, top_k=TOP_K)
    message.candidates.whole_collection.SetInParent()
    message.refinement.documents = refined
    message.queries.add(tokens=token_matrix(vectors))
    return message


def compare(client, options, vectors, pages):
    """Asks the first --compare questions twice: with a scan of the codes, and by scoring every page. Compares the
    answers."""
    found, first, proven, same_scores = [], 0, 0, True
    for query, page in zip(vectors[: options.compare], pages):
        scanned = client.reranker.Rerank(request(query, options.refined)).results[0]
        exact = client.reranker.Rerank(request(query, options.pages)).results[0]
        found.append(len(set(scanned.positions) & set(exact.positions)) / len(exact.positions))
        first += scanned.int_ids.ids[0] == int(page)
        scores = dict(zip(exact.positions, exact.scores))
        pairs = zip(scanned.positions, scanned.scores)
        same_scores &= all(scores.get(position, score) == score for position, score in pairs)
        proven += scanned.refinement.certificate == rerank_pb2.CERTIFICATE_PROVEN
    return {
        "questions": len(found), "own_page_first": first, "recall@10": float(np.mean(found)), "proven": proven,
        "same_scores": same_scores, "planes": scanned.refinement.planes, "scored_pages": scanned.refinement.documents,
    }  # fmt: skip


def search(options):
    """Serves the collection, and asks one question at a time."""
    with np.load(options.questions) as file:
        vectors, pages = file["vectors"], file["pages"]
    # By default a server refuses a search that scores every page, because it is too much work.
    keys = {"batching.max_queue_work": 1 << 44, "batching.max_queue_time": "0s"}
    before = gpu_bytes()
    collections = {NAME: options.collection}
    with Maxsimd(options.bin, options.work, "server", collections, options.residency, keys, 900, True) as server:
        with ProcessMemory(server.process.pid) as memory, Client(server.unix_target) as client:
            compared = compare(client, options, vectors, pages)
            messages = [request(query, options.refined) for query in vectors]
            times = []
            for message in messages * options.rounds:
                begin = time.perf_counter()
                client.reranker.Rerank(message)
                times.append(1e3 * (time.perf_counter() - begin))
        used = None if before is None else gpu_bytes() - before
        return {
            "residency": options.residency, "start_s": server.start_seconds, "gpu_bytes": used,
            "host_own_bytes": memory.own, "host_resident_bytes": memory.resident, "answers": compared,
            "searches": len(times),
            "p50_ms": float(np.percentile(times, 50)), "p99_ms": float(np.percentile(times, 99)),
        }  # fmt: skip


def parse():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--pages", type=int, default=172_808, help="pages to make (default: 172808)")
    parser.add_argument("--tokens", type=int, default=768, help="vectors of a page (default: 768)")
    parser.add_argument("--dim", type=int, default=128, help="values of a vector (default: 128)")
    parser.add_argument("--storage", choices=("i8", "f16"), default="i8", help="(default: i8)")
    parser.add_argument("--planes", type=int, choices=(1, 2, 4), default=1, help="planes of codes (default: 1)")
    parser.add_argument("--shard-gib", type=int, default=32, help="largest size of a shard (default: 32)")
    parser.add_argument("--memory-gib", type=int, default=24, help="host memory that the build may take (default: 24)")
    parser.add_argument("--block-mib", type=int, default=64, help="size of a block of vectors in F16 (default: 64)")
    parser.add_argument("--residency", choices=("auto", "gpu", "host", "disk"), default="auto",
                        help="where the vectors are while they are searched (default: auto)")  # fmt: skip
    parser.add_argument("--queries", type=int, default=100, help="questions, each about another page (default: 100)")
    parser.add_argument("--compare", type=int, default=20, help="questions whose answers are compared with exact ones (default: 20)")
    parser.add_argument("--refined", type=int, default=0,
                        help="pages that a search scores exactly (default: 0, as many as the server chooses)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="how often each question is timed (default: 3)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the collection, on a disk (default: the system's temporary folder)")
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--collection", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--questions", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("pages", "tokens", "shard_gib", "memory_gib", "block_mib", "queries", "compare", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: must be 1 or more")
    if options.work is not None and not options.work.is_dir():
        parser.error(f"--work {options.work}: is not a folder")
    options.queries = min(options.queries, options.pages)
    return options


def main():
    options = parse()
    if options.build:
        build(options)
        return
    values = options.pages * options.tokens * options.dim
    needed = values * {"i8": 1, "f16": 2}[options.storage] + values * options.planes // 8
    free = shutil.disk_usage(options.work or tempfile.gettempdir()).free
    if needed * 1.1 > free:
        raise SystemExit(f"the collection takes {needed >> 20} MiB of the disk, and {free >> 20} are free; see --work")
    with tempfile.TemporaryDirectory(prefix="maxsim-pages-", dir=options.work) as name:
        options.work = pathlib.Path(name)
        options.collection, options.questions = options.work / "collection", options.work / "questions.npz"
        result = {**provenance(options.bin), "pages": options.pages, "tokens": options.tokens, "dim": options.dim,
                  "storage": options.storage, "planes": options.planes}  # fmt: skip

        def keep(name, values):
            result[name] = values
            print(json.dumps({name: values}), flush=True)
            options.out.write_text(json.dumps(result, indent=1) + "\n")

        keep("build", build_in_a_process(options))
        keep("files", sizes(options.collection))
        keep("search", search(options))


if __name__ == "__main__":
    main()
