#!/usr/bin/env python3
"""Measures durable writes: latencies of single writes, documents per second of batches, and the time until a write is
visible.

    bench/serving/live/writes.py --bin build/release/bin --out out.json

Documents have --tokens x --dim F16, and are written to an empty live collection. The disk is also measured without a
server: a single write cannot be faster than one synced write to the disk, and batches cannot exceed the disk's rate.
"""

import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

from live_server import LiveServer, describe, documents_pb2, need, rerank_pb2  # noqa: E402
from servers import benchmark_parser  # noqa: E402
from synthetic import disk_rate  # noqa: E402
from writer import Writers, percentiles  # noqa: E402

NAME = "passages"


def rows_message(rows):
    data = np.ascontiguousarray(rows, np.float16)
    return rerank_pb2.TokenMatrix(dtype=2, num_tokens=data.shape[0], dim=data.shape[1], data=data.tobytes())


def milliseconds(function, *arguments):
    begin = time.perf_counter()
    answer = function(*arguments)
    return 1e3 * (time.perf_counter() - begin), answer


def visibility(server, options):
    """Returns the times from sending a write until the first answer shows it: for upserts and for deletes."""
    chooser = np.random.default_rng(5)
    times = {"upsert_call": [], "upsert_until_ranked": [], "delete_call": [], "delete_until_gone": []}
    for i in range(options.visible):
        id = 1 << 50 | i
        rows = chooser.standard_normal((options.tokens, options.dim))
        upsert = documents_pb2.UpsertRequest(collection=NAME)
        upsert.documents.add(int_id=id, tokens=rows_message(rows))
        delete = documents_pb2.DeleteRequest(collection=NAME)
        delete.int_ids.ids.append(id)
        ask = rerank_pb2.RerankRequest(collection=NAME, top_k=1)
        ask.queries.add(tokens=rows_message(rows[:32]))
        ask.candidates.int_ids.ids.append(id)
        for name, write, there in (("upsert", upsert, True), ("delete", delete, False)):
            call = server.documents.Upsert if there else server.documents.Delete
            begin = time.perf_counter()
            spent, _ = milliseconds(call, write)
            ranked = server.reranker.Rerank(ask).results[0].int_ids.ids
            total = 1e3 * (time.perf_counter() - begin)
            if bool(ranked) != there:
                raise RuntimeError(f"an acknowledged {name} is not visible")
            times[f"{name}_call"].append(spent)
            times["upsert_until_ranked" if there else "delete_until_gone"].append(total)
    return {name: percentiles(values) for name, values in times.items()}


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--work", type=pathlib.Path, help="a folder for the collection and its log")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--storage", default="f16", choices=["f16", "i8"])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--single", default="1,8,64", help="clients that write one document at a time")
    parser.add_argument("--batched", default="4x2x256,8x2x256", help="processes x connections x documents of a call")
    parser.add_argument("--visible", type=int, default=200, help="documents whose visibility is timed")
    parser.add_argument("--key", action="append", default=[], help="NAME=VALUE: a further key of maxsimd")
    options = parser.parse_args()
    need(options.bin, "maxsimd")
    result = {**describe(options.bin), "tokens": options.tokens, "dim": options.dim, "rows": []}
    keys = {"live.compact": False, "live.max_segment_bytes": "48GiB", "live.max_queued_bytes": "1GiB"}
    keys |= dict(text.split("=", 1) for text in options.key)
    with tempfile.TemporaryDirectory(prefix="maxsim-live-", dir=options.work) as folder:
        folder = pathlib.Path(folder)
        result["disk"] = disk_rate(folder)
        print(result["disk"], flush=True)
        with LiveServer(options.bin, folder, NAME, None, keys, options.dim, options.storage) as server:
            result["visibility"] = visibility(server, options)
            print(result["visibility"], flush=True)
            shapes = [(1, int(threads), 1) for threads in options.single.split(",") if threads]
            shapes += [tuple(map(int, shape.split("x"))) for shape in options.batched.split(",") if shape]
            first_id = 0
            for processes, threads, batch in shapes:
                if batch == 1 and threads > 8:  # so that a single Python process is not the bottleneck
                    processes, threads = 4, threads // 4
                before = server.live()["sequence"]
                writers = Writers(
                    processes, target=server.unix_target, collection=NAME, dim=options.dim, tokens=options.tokens,
                    batch=batch, threads=threads, seconds=options.seconds, warmup=1, first_id=first_id,
                )  # fmt: skip
                first_id += 1 << 42
                row = {"clients": processes * threads, "processes": processes, "batch": batch, **writers.finish()}
                row["bytes_per_second"] = row["documents_per_second"] * options.tokens * options.dim * 2
                row["written"] = server.live()["sequence"] - before
                result["rows"].append({**row, "live": server.live(), "memory": server.memory()})
                print(row, flush=True)
                options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
