#!/usr/bin/env python3
"""Times the kernels of maxsim_scores on a GPU at the service's shapes, with and without the matches that training
needs. If --service names a report of maxsim_bench_gpu, prints the times of the service's own kernels next to them.

    build/release/bin/maxsim_bench_gpu --json service.json
    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/forward.py --service service.json --out forward.json

As in maxsim_bench_gpu, times are medians on the device, and the cache is flushed before each call. A CUDA graph
starts each call. Prints a line per shape, and writes one JSON file.
"""

import json
import pathlib
import statistics

from runs import Report, event_ms, parser_of, require

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
DIM = 128
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


def service_times(path):
    """Returns the milliseconds of the service's kernels by shape, for float16 rows with DIM columns."""
    if path is None:
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["shape"]: row["ours_ms"] for row in rows if row["storage"] == "f16" and row["d"] == DIM}


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--service", type=pathlib.Path, help="what maxsim_bench_gpu --json wrote on the same machine")
    options = parser.parse_args()
    require("cuda")
    service = service_times(options.service)
    report = Report(options, dim=DIM)
    flushed = torch.zeros(FLUSHED_VALUES, device="cuda")
    for shape in SHAPES:
        torch.manual_seed(0)
        queries = torch.randn(shape[0], shape[2], DIM, device="cuda", dtype=torch.float16)
        documents = torch.randn(shape[1], shape[3], DIM, device="cuda", dtype=torch.float16)
        row = {
            "shape": "x".join(map(str, shape)),
            "scores_ms": median_ms(lambda: maxsim_torch.maxsim_scores(queries, documents), flushed),
            "with_matches_ms": median_ms(
                lambda: maxsim_torch.maxsim_scores(queries, documents, return_argmax=True), flushed
            ),
        }
        if row["shape"] in service:
            row["service_ms"] = service[row["shape"]]
        report.add(row)


if __name__ == "__main__":
    main()
