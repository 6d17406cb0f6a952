#!/usr/bin/env python3
"""Times maxsim_scores on a GPU beside plain PyTorch, which writes the matrix of similarities, and beside the packages
flash-maxsim and late-interaction-kernels where they can be imported: the forward pass, a step of forward and backward,
and the memory that a step takes beyond its inputs.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/training_steps.py --out steps.json

Prints a line a shape, and writes one JSON file, anew after each.
"""

import argparse
import contextlib
import importlib
import json
import pathlib
import statistics

from runs import describe_run, event_ms, require

import torch

import maxsim_torch

# Queries, documents, tokens of a query, tokens of a document: a rerank, ColBERT's and ColPali's batches.
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
# Calls are short if SHORT_REPEATS of them take less than SHORT_MS together.
SHORT_REPEATS, SHORT_MS = 60, 200


def median_ms(work, repeats):
    """Returns the median time of `work` on the device, over `repeats` calls or, where they are short, up to
    SHORT_REPEATS. The first call is not counted, nor is the first quarter of the others: Python comes to its pace."""
    work()
    times = []
    while len(times) < repeats or (len(times) < SHORT_REPEATS and sum(times) < SHORT_MS):
        times.append(event_ms(work))
    return statistics.median(times[len(times) // 4 :])


def measure(score, queries, documents):
    """Returns the figures of one way to score, or says that memory was too little."""

    def step():
        queries.grad = documents.grad = None
        score(queries, documents).sum().backward()

    try:
        with torch.no_grad():
            forward_ms = median_ms(lambda: score(queries, documents), 7)
        queries.grad = documents.grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step_ms = median_ms(step, 3)
        peak_mib = (torch.cuda.max_memory_allocated() - before) / 2**20
        return {"forward_ms": forward_ms, "step_ms": step_ms, "peak_mib": peak_mib}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    finally:
        queries.grad = documents.grad = None
        torch.cuda.empty_cache()


def plain(queries, documents):
    """Scores as one writes them without a kernel for it. The matrix of similarities and its gradient exist."""
    return torch.einsum("qid,kjd->qkij", queries, documents).max(-1).values.sum(-1)


def ways_to_score():
    """Returns how to score a batch, by the name of the package."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file")
    parser.add_argument("--type", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--commit", default="", help="which commit the library was built of")
    options = parser.parse_args()
    require("cuda")
    dtype = getattr(torch, options.type)
    ways = ways_to_score()
    rows = []
    result = {
        **describe_run(options.commit),
        "dim": DIM,
        "rows": rows,
    }
    for num_queries, num_documents, query_tokens, document_tokens in SHAPES:
        torch.manual_seed(0)
        queries = torch.randn(num_queries, query_tokens, DIM, device="cuda", dtype=dtype, requires_grad=True)
        documents = torch.randn(num_documents, document_tokens, DIM, device="cuda", dtype=dtype, requires_grad=True)
        row = {"shape": [num_queries, num_documents, query_tokens, document_tokens]}
        for name, score in ways.items():
            row[name] = measure(score, queries, documents)
        rows.append(row)
        print(json.dumps(row), flush=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
