#!/usr/bin/env python3
"""Times maxsim_torch.residual_code_scores for one query over many documents. For comparison, times decoding and then
scoring in plain PyTorch, and late_interaction_kernels.plaid if that can be imported. The figures are milliseconds,
and the memory that a call takes in addition to its inputs.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/residual_codes.py --out residual_codes.json

Prints a line for each implementation and number of bits, and writes one JSON file.
"""

import importlib
import statistics
import time

from runs import Report, parser_of, require

import torch

import maxsim_torch

DIM = 128
# Number of documents that the plain implementation decodes at a time: a large collection would not fit at once.
PLAIN_BLOCK = 10_000


class Index:
    """Random codes, and a query."""

    def __init__(self, options, nbits):
        random = torch.Generator(options.device).manual_seed(0)
        place = {"device": options.device}
        shape = (options.documents, options.document_tokens)
        self.nbits = nbits
        self.lengths = torch.full((options.documents,), options.document_tokens, **place)
        self.numbers = torch.randint(options.centroids, shape, dtype=torch.int32, generator=random, **place)
        self.residuals = torch.randint(256, (*shape, DIM * nbits // 8), dtype=torch.uint8, generator=random, **place)
        dtype = getattr(torch, options.type)
        centroids = torch.randn(options.centroids, DIM, generator=random, **place)
        self.centroids = torch.nn.functional.normalize(centroids, dim=-1).to(dtype)
        self.weights = torch.linspace(-0.1, 0.1, 2**nbits, **place)
        query = torch.randn(options.query_tokens, DIM, generator=random, **place)
        self.query = torch.nn.functional.normalize(query, dim=-1).to(dtype)

    def ours(self):
        return maxsim_torch.residual_code_scores(
            self.query, self.numbers, self.residuals, self.centroids, self.weights, bit_order="low_first"
        )

    def ours_packed(self):
        """Scores the same documents in packed form, one after another, as indexes store them."""
        tokens = self.numbers.numel()
        offsets = torch.arange(0, tokens + 1, self.numbers.shape[1], device=self.query.device)
        return maxsim_torch.residual_code_scores(
            self.query,
            self.numbers.view(-1),
            self.residuals.view(tokens, -1),
            self.centroids,
            self.weights,
            document_offsets=offsets,
            bit_order="low_first",
        )

    def plain(self):
        scores = []
        for first in range(0, len(self.numbers), PLAIN_BLOCK):
            block = slice(first, first + PLAIN_BLOCK)
            documents = maxsim_torch.decompress_residual_codes(
                self.numbers[block], self.residuals[block], self.centroids, self.weights, bit_order="low_first"
            )
            scores.append((documents @ self.query.T).amax(1).sum(-1))
        return torch.cat(scores)

    def peer(self):
        """Scores with late_interaction_kernels, which has the first column in the lowest bits."""
        plaid = importlib.import_module("late_interaction_kernels.plaid")
        return plaid.maxsim_residual(
            self.query[None], self.numbers, self.residuals, self.lengths, self.centroids, self.weights, self.nbits
        )[0]


def measure(work, device, repeats):
    """Returns the median time of `work`, after one call that is not counted, and the memory that a call takes."""
    on_gpu = device == "cuda"
    try:
        work()
        times = []
        peak = None
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        for _ in range(repeats):
            begin = time.perf_counter()
            work()
            if on_gpu:
                torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1e3)
        if on_gpu:
            peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        return {"ms": statistics.median(times), "peak_mib": peak}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    except ImportError as problem:
        return {"error": str(problem)}


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--type", default="float16", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--document-tokens", type=int, default=120)
    parser.add_argument("--query-tokens", type=int, default=32)
    parser.add_argument("--centroids", type=int, default=65_536)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    require(options.device)
    shape = [1, options.documents, options.query_tokens, options.document_tokens, DIM]
    report = Report(options, options.device, shape=shape, centroids=options.centroids, type=options.type)
    for nbits in (2, 4):
        index = Index(options, nbits)
        ways = {"maxsim_torch": index.ours, "maxsim_torch packed": index.ours_packed, "plain": index.plain}
        if options.device == "cuda":
            ways["late_interaction_kernels"] = index.peer
        expected = index.plain().float()
        for name, work in ways.items():
            row = {"way": name, "nbits": nbits, **measure(work, options.device, options.repeats)}
            if "error" not in row:
                row["largest_difference_from_plain"] = (work().float() - expected).abs().max().item()
            report.add(row)


if __name__ == "__main__":
    main()
