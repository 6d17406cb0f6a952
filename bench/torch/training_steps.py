#!/usr/bin/env python3
"""Times maxsim_scores on a GPU, and for comparison plain PyTorch, which stores the matrix of similarities, and the
packages flash-maxsim and late-interaction-kernels if they can be imported. Measures the forward pass, a step of
forward and backward, and the memory that a step takes in addition to its inputs.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/training_steps.py --out steps.json

Prints a line per shape, and writes the JSON file again after each.
"""

import contextlib
import importlib
import statistics

from runs import Report, event_ms, parser_of, require, step_figures

import torch

import maxsim_torch

# Numbers of queries and documents, tokens of a query, tokens of a document: a rerank, then batches of ColBERT and
# ColPali.
SHAPES = [
    (1, 10_000, 32, 300),
    (128, 128, 32, 300),
    (512, 512, 32, 300),
    (1024, 1024, 32, 300),
    (32, 32, 1024, 1024),
    (64, 64, 1024, 1024),
    (128, 128, 1024, 1024),
]
DIM = 128
# Calls count as short if SHORT_REPEATS of them take less than SHORT_MS together.
SHORT_REPEATS, SHORT_MS = 60, 200


def median_ms(work, repeats):
    """Returns the median time of `work` on the device, over `repeats` calls or, if they are short, up to
    SHORT_REPEATS. Does not count the first call, nor the first quarter of the others, in which Python is slower."""
    work()
    times = []
    while len(times) < repeats or (len(times) < SHORT_REPEATS and sum(times) < SHORT_MS):
        times.append(event_ms(work))
    return statistics.median(times[len(times) // 4 :])


def plain(queries, documents):
    """Scores in plain PyTorch, without a kernel for it. The matrix of similarities and its gradient take memory."""
    return torch.einsum("qid,kjd->qkij", queries, documents).max(-1).values.sum(-1)


def ways_to_score():
    """Returns functions that score a batch, by the name of their package."""
    ways = {"maxsim_torch": maxsim_torch.maxsim_scores}
    with contextlib.suppress(ImportError):
        peer = importlib.import_module("flash_maxsim")
        ways["flash_maxsim"] = lambda queries, documents: peer.flash_maxsim_batched_train(
            queries, documents, shared_docs=True
        )
    with contextlib.suppress(ImportError):
        ways["late_interaction_kernels"] = importlib.import_module("late_interaction_kernels").maxsim
    ways["plain"] = plain
    return ways


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--type", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    options = parser.parse_args()
    require("cuda")
    dtype = getattr(torch, options.type)
    ways = ways_to_score()
    report = Report(options, dim=DIM)
    for num_queries, num_documents, query_tokens, document_tokens in SHAPES:
        torch.manual_seed(0)
        queries = torch.randn(num_queries, query_tokens, DIM, device="cuda", dtype=dtype, requires_grad=True)
        documents = torch.randn(num_documents, document_tokens, DIM, device="cuda", dtype=dtype, requires_grad=True)
        row = {"shape": [num_queries, num_documents, query_tokens, document_tokens]}
        for name, score in ways.items():
            row[name] = step_figures(
                score, (queries, documents), torch.sum, lambda work: median_ms(work, 7), lambda work: median_ms(work, 3)
            )
        report.add(row)


if __name__ == "__main__":
    main()
