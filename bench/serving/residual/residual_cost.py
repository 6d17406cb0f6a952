#!/usr/bin/env python3
"""Times searches over PLAID's residual codes, and over the same number of tokens in F16 and INT8.

    residual_cost.py --bin build/release/bin --documents 300000 --tokens 72 --out residual_cost.json

README.md in this folder says what is compared. Needs NumPy and grpcio.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "bench/serving/cases"))

from loadtest import loadtest  # noqa: E402
from servers import Maxsimd, benchmark_parser, has_gpu, provenance  # noqa: E402
from maxsim.collection import Codebook, CollectionWriter  # noqa: E402

DIM = 128
CENTROIDS = 65_536  # what ColBERT takes for some 10 million tokens
BLOCK = 20_000  # documents that are made at once
LIST = 1_000  # ids of a list


def make_collection(options, storage, folder):
    """Writes the collection's files with random vectors or random residual codes."""
    random = np.random.default_rng(5)
    codebook = None
    if storage.startswith("residual"):
        nbits = int(storage.removeprefix("residual"))
        centroids = random.standard_normal((CENTROIDS, DIM)).astype(np.float32)
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        weights = np.linspace(-0.1, 0.1, 2**nbits, dtype=np.float32)
        codebook = Codebook(centroids.astype(np.float16), weights)
    with CollectionWriter(folder, dim=DIM, storage=None if codebook else storage, codebook=codebook, name=storage) as writer:
        for begin in range(0, options.documents, BLOCK):
            ids = list(range(begin, min(begin + BLOCK, options.documents)))
            rows = len(ids) * options.tokens
            if codebook is None:
                # Repeats a few random rows: the kernels' time does not depend on values.
                vectors = np.tile(random.standard_normal((options.tokens * 100, DIM)).astype(np.float16) / 11.3, (len(ids) // 100 + 1, 1))[:rows]
            else:
                residuals = random.integers(0, 256, (rows, DIM * nbits // 8), np.uint8)
                vectors = codebook.rows(random.integers(0, CENTROIDS, rows), residuals)
            writer.add_packed(ids, vectors, np.full(len(ids), options.tokens))


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--documents", type=int, default=300_000, help="documents to make (default: 300000)")
    parser.add_argument("--tokens", type=int, default=72, help="tokens of a document (default: 72)")
    parser.add_argument("--storages", default="f16,i8,residual4,residual2", help="storage types (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns of the comparison (default: 3)")
    parser.add_argument("--seconds", type=int, default=2, help="seconds of each measurement (default: 2)")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the files (default: the system's)")
    options = parser.parse_args()

    storages = options.storages.split(",")
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="residual-cost-") as name:
        options.scratch = pathlib.Path(name)
        folders = {storage: options.scratch / storage for storage in storages}
        for storage, folder in folders.items():
            make_collection(options, storage, folder)
        cases = {"whole_collection": "all", "list": LIST}
        turns = {case: {storage: [] for storage in storages} for case in cases}
        keys = {"batching.max_queue_work": 1 << 44, "batching.max_queue_time": "0s"}
        residency = "gpu" if has_gpu() else "host"
        with Maxsimd(options.bin, options.scratch, "server", folders, residency, keys, 400, True) as server:
            for _ in range(options.turns):
                for case, candidates in cases.items():
                    for storage in storages:
                        report = loadtest(
                            options.bin, options.scratch, server.unix_target, storage, candidates,
                            num_ids=options.documents, seconds=options.seconds, check="order", exits=(0, 1, 3),
                        )  # fmt: skip
                        turns[case][storage].append(report["latency_us"]["p50"])
        result = {
            **provenance(options.bin),
            "p50_us": {case: {s: statistics.median(p50) for s, p50 in rows.items()} for case, rows in turns.items()},
            "turns": turns,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
