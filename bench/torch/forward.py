#!/usr/bin/env python3
"""Times the kernels of maxsim_scores on a GPU at the service's shapes, with and without the matches that training
needs. If --service names a report of maxsim_bench_gpu, prints the times of the service's own kernels next to them; if
--before names a libmaxsim.so, those of that build, and whether its scores have the same bits.

    build/release/bin/maxsim_bench_gpu --json service.json
    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/forward.py --service service.json --out forward.json
    MAXSIM_LIBRARY=new.so bench/torch/forward.py --before old.so --out forward.json

As in maxsim_bench_gpu, times are medians on the device, and the cache is flushed before each call. A CUDA graph
starts each call. Prints a line per case, and writes one JSON file.
"""

import hashlib
import json
import pathlib
import statistics

from runs import Report, add_before, event_ms, parser_of, require, rows_before

import torch

import maxsim_torch

# Numbers of queries and documents, tokens of a query, tokens of a document.
SHAPES = [
    (1, 1000, 32, 300),
    (1, 10_000, 32, 300),
    (1, 1000, 32, 1024),
    (1, 1000, 128, 1024),
    (1, 1000, 512, 1024),
    (1, 1000, 1024, 1024),
    (8, 10_000, 32, 300),
    (32, 1024, 32, 180),
    (32, 1024, 32, 1024),
    (128, 128, 32, 300),
]
WIDE_SHAPES = [(1, 1000, 32, 300), (1, 1000, 128, 1024), (1, 1000, 1024, 1024), (32, 1024, 32, 180)]
# Each case: the type of rows as the service names it, the number of columns, and the shapes. "i8_token" has a scale for
# each token; the service has no such documents.
CASES = [
    ("f16", 128, SHAPES),
    ("i8", 128, SHAPES),
    ("i8_token", 128, SHAPES),
    ("f16", 256, WIDE_SHAPES),
    ("f16", 768, WIDE_SHAPES),
    ("f16", 1024, WIDE_SHAPES),
    ("i8", 768, WIDE_SHAPES),
]
LAYOUTS = ("padded", "lengths", "packed")
# Documents of 1 to 300 tokens: padded with lengths, or packed.
RAGGED_CASES = [("f16", 128), ("i8", 128), ("f16", 768)]
RAGGED_SHAPES = [(1, 1000, 32, 300), (1, 10_000, 32, 300), (128, 128, 32, 300)]
REPEATS = 21
FLUSHED_VALUES = 1 << 26  # 256 MiB


def graph_of(work):
    """Returns a CUDA graph of a call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def median_ms(work, flushed):
    """Returns the median time that the device takes for a call."""
    graph = graph_of(work)
    times = []
    for _ in range(REPEATS):
        flushed.sum()
        times.append(event_ms(graph.replay))
    return statistics.median(times)


def random_rows(storage, dim, *counts):
    if storage == "f16":
        return torch.randn(*counts, dim, device="cuda", dtype=torch.float16)
    return torch.randint(-127, 128, (*counts, dim), device="cuda", dtype=torch.int8)


def random_scales(storage, *counts):
    """Returns scales for sequences [counts[0]], or for their tokens, or None for a type without scales."""
    if storage == "f16":
        return None
    return torch.rand(counts if storage == "i8_token" else counts[:1], device="cuda") + 0.5


def call_of(storage, dim, shape, layout):
    """Returns a function that scores random queries and documents."""
    torch.manual_seed(0)
    num_queries, num_documents, query_tokens, document_tokens = shape
    queries = random_rows(storage, dim, num_queries, query_tokens)
    scales = {"query_scales": random_scales("f16" if storage == "f16" else "i8_token", num_queries, query_tokens)}
    if layout == "packed":
        lengths = torch.randint(1, document_tokens + 1, (num_documents,), device="cuda")
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        rows = random_rows(storage, dim, int(offsets[-1]))
        scales["document_scales"] = random_scales(storage, num_documents)
        return lambda **more: maxsim_torch.maxsim_scores_packed(queries, rows, offsets, **scales, **more)
    documents = random_rows(storage, dim, num_documents, document_tokens)
    scales["document_scales"] = random_scales(storage, num_documents, document_tokens)
    if layout == "lengths":
        scales["document_lengths"] = torch.randint(1, document_tokens + 1, (num_documents,), device="cuda")
    return lambda **more: maxsim_torch.maxsim_scores(queries, documents, **scales, **more)


def cases():
    for storage, dim, shapes in CASES:
        for shape in shapes:
            yield storage, dim, shape, "padded"
    for storage, dim in RAGGED_CASES:
        for shape in RAGGED_SHAPES:
            for layout in LAYOUTS[1:]:
                yield storage, dim, shape, layout


def service_times(path):
    """Returns the milliseconds of the service's kernels by type, columns and shape of padded documents."""
    if path is None:
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {(row["storage"], row["d"], row["shape"]): row["ours_ms"] for row in rows}


def key_of(row):
    return row["storage"], row["d"], row["shape"], row["layout"]


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--service", type=pathlib.Path, help="what maxsim_bench_gpu --json wrote on the same machine")
    add_before(parser)
    options = parser.parse_args()
    require("cuda")
    service = service_times(options.service)
    before = rows_before(options, key_of)
    report = Report(options)
    flushed = torch.zeros(FLUSHED_VALUES, device="cuda")
    for storage, dim, shape, layout in cases():
        call = call_of(storage, dim, shape, layout)
        row = {
            "shape": "x".join(map(str, shape)),
            "storage": storage,
            "d": dim,
            "layout": layout,
            "scores_ms": median_ms(call, flushed),
            "with_matches_ms": median_ms(lambda call=call: call(return_argmax=True), flushed),
            "scores_sha256": hashlib.sha256(bytes(call().view(torch.uint8).flatten().tolist())).hexdigest(),
        }
        of_service = (storage, dim, row["shape"])
        if layout == "padded" and of_service in service:
            row["service_ms"] = service[of_service]
        if key_of(row) in before:
            old = before[key_of(row)]
            row["before_ms"] = old["scores_ms"]
            row["before_with_matches_ms"] = old["with_matches_ms"]
            row["same_bits"] = row["scores_sha256"] == old["scores_sha256"]
        report.add(row)


if __name__ == "__main__":
    main()
