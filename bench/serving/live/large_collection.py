#!/usr/bin/env python3
"""Measures a large live collection: the time until the change of one document is visible, and the server's memory.

    bench/serving/live/large_collection.py --bin build/release/bin --out out.json

The collection has --documents documents of --tokens x --dim I8. 10 million documents of 32 tokens have 41 GB of
vectors. If the collection would not fit the disk or the GPU, the program ends before it writes anything.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

from live_server import LiveServer, describe, documents_pb2, gpu_query, need, rerank_pb2  # noqa: E402
from servers import benchmark_parser  # noqa: E402
from synthetic import make_collection  # noqa: E402
from writer import Writers, percentiles  # noqa: E402
from writes import milliseconds, rows_message  # noqa: E402

NAME = "passages"


def check_room(options):
    """Ends the program if the disk or the GPU is too small."""
    wanted = options.documents * (options.tokens * options.dim + 24)
    free = shutil.disk_usage(options.work or tempfile.gettempdir()).free
    if wanted * 1.1 > free:
        raise SystemExit(f"the collection takes {wanted >> 20} MiB of the disk, and {free >> 20} are free")
    gpus = [int(row[0]) << 20 for row in gpu_query("memory.free") if row[0].isdigit()]
    if gpus and wanted + (6 << 30) > sum(gpus):
        raise SystemExit(f"the collection takes {wanted >> 20} MiB of GPUs that have {sum(gpus) >> 20} free")


def changes(server, options):
    """Replaces random documents one by one, and deletes each again. Returns the milliseconds until a request with a
    list of ids, and a scan of the collection, find the new vectors, and until the deleted document is gone."""
    chooser = np.random.default_rng(7)
    times = {"upsert_call": [], "until_in_a_list": [], "until_in_a_scan": [], "delete_until_gone": []}
    for _ in range(options.changes):
        id = int(chooser.integers(options.documents))
        rows = chooser.standard_normal((options.tokens, options.dim))
        # The document's vectors are ten times as long as those of the others. So it ranks first for a query of its own
        # vectors.
        rows *= 10 / np.linalg.norm(rows, axis=1, keepdims=True)
        upsert = documents_pb2.UpsertRequest(collection=NAME)
        upsert.documents.add(int_id=id, tokens=rows_message(rows))
        ask = rerank_pb2.RerankRequest(collection=NAME, top_k=1)
        ask.queries.add(tokens=rows_message(rows[:32]))
        scan = rerank_pb2.RerankRequest()
        scan.CopyFrom(ask)
        scan.candidates.whole_collection.SetInParent()
        ask.candidates.int_ids.ids.append(id)
        old = server.reranker.Rerank(ask).results[0].scores[0]
        begin = time.perf_counter()
        spent, answer = milliseconds(server.documents.Upsert, upsert)
        times["upsert_call"].append(spent)
        new = server.reranker.Rerank(ask).results[0].scores[0]
        times["until_in_a_list"].append(1e3 * (time.perf_counter() - begin))
        scan.min_sequence = answer.sequence
        best = server.reranker.Rerank(scan).results[0].int_ids.ids[0]
        times["until_in_a_scan"].append(1e3 * (time.perf_counter() - begin))
        if new <= old or best != id:
            raise RuntimeError(f"the change of document {id} is not visible: {old} and then {new}; {best} is the best")
        delete = documents_pb2.DeleteRequest(collection=NAME)
        delete.int_ids.ids.append(id)
        begin = time.perf_counter()
        server.documents.Delete(delete)
        if server.reranker.Rerank(scan).results[0].int_ids.ids[0] == id:
            raise RuntimeError(f"document {id} is ranked after it was deleted")
        times["delete_until_gone"].append(1e3 * (time.perf_counter() - begin))
    return {name: percentiles(values) for name, values in times.items()}


def scan_times(server, options):
    scan = rerank_pb2.RerankRequest(collection=NAME, top_k=10)
    rows = np.random.default_rng(9).standard_normal((32, options.dim))
    scan.queries.add(tokens=rows_message(rows))
    scan.candidates.whole_collection.SetInParent()
    return percentiles([milliseconds(server.reranker.Rerank, scan)[0] for _ in range(options.scans)])


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--work", type=pathlib.Path, help="a folder for the collection")
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--scans", type=int, default=20)
    parser.add_argument("--written", type=int, default=100_000, help="documents that are replaced in batches then")
    parser.add_argument("--compact", action="store_true", help="time a compaction too (it may write every shard again)")
    options = parser.parse_args()
    need(options.bin, "maxsimd")
    check_room(options)
    result = {**describe(options.bin), "documents": options.documents, "tokens": options.tokens, "dim": options.dim}

    def note(**values):
        result.update(values)
        print(values, flush=True)
        options.out.write_text(json.dumps(result, indent=1))

    with tempfile.TemporaryDirectory(prefix="maxsim-live-", dir=options.work) as folder:
        folder = pathlib.Path(folder)
        begin = time.perf_counter()
        real = make_collection(options, folder, NAME, "i8", 16)
        note(generate_seconds=time.perf_counter() - begin, checksums=real)
        keys = {"store.verify_checksums": real, "store.load_threads": 8, "live.compact": False}
        begin = time.perf_counter()
        with LiveServer(options.bin, folder, NAME, folder / NAME, keys) as server:
            note(load_seconds=time.perf_counter() - begin, memory=server.memory(), scan=scan_times(server, options))
            note(changes=changes(server, options), live=server.live(), memory_after_changes=server.memory())
            note(scan_with_changes=scan_times(server, options))
            batch = min(256, options.written)
            writers = Writers(
                4, target=server.unix_target, collection=NAME, dim=options.dim, tokens=options.tokens, batch=batch,
                threads=2, rate=options.written / 5, seconds=5, num_ids=options.documents, shuffle=True,
            )  # fmt: skip
            note(written=writers.finish(), live_after_writes=server.live(), memory_after_writes=server.memory())
            note(scan_with_many_changes=scan_times(server, options))
            if options.compact and real:
                spent, changed = milliseconds(server.compact)
                note(compaction={"seconds": spent / 1e3, "changed": changed}, live_after_compaction=server.live())
                note(scan_after_compaction=scan_times(server, options))


if __name__ == "__main__":
    main()
