#!/usr/bin/env python3
"""Times the Chamfer distance (3 columns) and three-way attention (64 columns) on a GPU, and the same in plain PyTorch
(maxsim_torch.reference), which stores all distances and all logits. Measures the forward pass, a step of forward and
backward, the memory that a step takes in addition to its inputs, and the error against float64.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/higher_order.py --out higher_order.json

Prints a line per shape, and writes one JSON file. If plain PyTorch runs out of memory, the row says so. The
publication of this attention names no number of columns; 64 is usual for a head of ordinary attention.
"""

import gc
import statistics

from runs import Report, event_ms, parser_of, require, step_figures

import torch

import maxsim_torch
from maxsim_torch import reference

POINTS = [1_000, 10_000, 100_000]
TOKENS = [512, 1_024, 2_048, 4_096, 8_192]
POINT_DIM = 3
TOKEN_DIM = 64
# Number of queries whose error is measured. All of their logits are computed in float64.
ERROR_QUERIES = 4


def milliseconds(work, limit_ms):
    """Returns the median time of `work` on the device. After one call to warm up, calls it up to seven times, but
    stops when the calls have taken `limit_ms` together."""
    times = []
    for run in range(8):
        elapsed = event_ms(work)
        if run > 0 or elapsed > limit_ms:
            times.append(elapsed)
        if sum(times) > limit_ms:
            break
    return statistics.median(times)


def measure(function, tensors, limit_ms):
    """Returns the figures of one implementation, or says that it ran out of memory."""

    def time_ms(work):
        return milliseconds(work, limit_ms)

    return step_figures(function, tensors, lambda found: found.square().sum(), time_ms, time_ms)


def chamfer_error(x, y):
    """Returns the largest relative error of the squared distances of x against float64, which is computed part by
    part."""
    found = maxsim_torch.nearest_distances(x, y).distances
    rows = max(1, 2**26 // y.shape[0])
    parts = [
        (part.double().unsqueeze(1) - y.double()).square().sum(-1).amin(1) for part in x.detach().split(rows)
    ]
    expected = torch.cat(parts)
    return ((found.double() - expected).abs() / expected.clamp(min=1e-12)).max().item()


def attention_error(output, tensors):
    """Returns the largest error of the output's first rows against float64, relative to the root mean square of
    float64's rows."""
    queries, first_keys, second_keys, first_values, second_values = (tensor.detach().double() for tensor in tensors)
    rows = []
    for query in queries[:ERROR_QUERIES]:
        logits = (query * first_keys) @ second_keys.T * TOKEN_DIM**-0.5
        weights = (logits - torch.logsumexp(logits.flatten(), 0)).exp()
        rows.append(((weights @ second_values) * first_values).sum(0))
    expected = torch.stack(rows)
    return ((output[:ERROR_QUERIES].double() - expected).abs().max() / expected.square().mean().sqrt()).item()


def plain_attention_error(tensors):
    """Returns the error of plain PyTorch, or None if it ran out of memory."""
    try:
        return attention_error(reference.triadic_attention(*tensors), tensors)
    except torch.OutOfMemoryError:
        return None
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def bench_chamfer(dtype, limit_ms):
    for count in POINTS:
        torch.manual_seed(0)
        x, y = (torch.randn(count, POINT_DIM, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
        with torch.no_grad():
            error = chamfer_error(x, y)
        yield {
            "operator": "chamfer_distance",
            "points": count,
            "columns": POINT_DIM,
            "type": str(dtype),
            "largest_relative_error": error,
            "maxsim_torch": measure(maxsim_torch.chamfer_distance, (x, y), limit_ms),
            "plain": measure(reference.chamfer_distance, (x, y), limit_ms),
        }


def bench_attention(dtype, limit_ms):
    for count in TOKENS:
        torch.manual_seed(0)
        tensors = [
            torch.randn(count, TOKEN_DIM, device="cuda", dtype=dtype, requires_grad=True) for _ in range(5)
        ]
        with torch.no_grad():
            error = attention_error(maxsim_torch.triadic_attention(*tensors), tensors)
            plain_error = plain_attention_error(tensors)
        yield {
            "operator": "triadic_attention",
            "tokens": count,
            "columns": TOKEN_DIM,
            "type": str(dtype),
            "error_over_rms": error,
            "plain_error_over_rms": plain_error,
            "maxsim_torch": measure(maxsim_torch.triadic_attention, tensors, limit_ms),
            "plain": measure(reference.triadic_attention, tensors, limit_ms),
        }


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "--types", nargs="+", default=["bfloat16", "float32"], choices=["bfloat16", "float16", "float32"],
        help="of the attention; points are float32",
    )  # fmt: skip
    parser.add_argument("--limit-ms", type=float, default=4_000, help="the time for the runs of one figure")
    parser.add_argument("--largest", type=int, default=8_192, help="the most tokens")
    options = parser.parse_args()
    require("cuda")
    TOKENS[:] = [count for count in TOKENS if count <= options.largest]
    report = Report(options)
    benches = [bench_chamfer(torch.float32, options.limit_ms)]
    benches += [bench_attention(getattr(torch, name), options.limit_ms) for name in options.types]
    for bench in benches:
        for row in bench:
            report.add(row)


if __name__ == "__main__":
    main()
