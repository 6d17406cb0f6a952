#!/usr/bin/env python3
"""Times four operators on a GPU, and for each the code that one would write without it: the fused head, retrieval
from the host's memory, documents in float8, and documents that are kept in int8.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/other_operators.py --out other.json

Prints a line per case, and writes one JSON file. `peak_mib` is the memory that a call takes in addition to its
inputs.
"""

import statistics
import time

from runs import Report, parser_of, require
from training_steps import median_ms

import torch

from maxsim_torch import fused_head_scores, maxsim_scores, maxsim_top_k

# Numbers of queries and documents, tokens of a query, tokens of a document, columns of a hidden state.
HEADS = [(1, 1000, 32, 300, 768), (1, 8000, 32, 300, 768), (512, 512, 32, 300, 768), (1024, 1024, 32, 300, 768)]
BATCHES = [(128, 128, 32, 300), (512, 512, 32, 300), (32, 32, 1024, 1024)]
# Documents in the host's memory: 300 tokens of 128 columns in float16 are 75 KiB each.
RETRIEVALS = [(1, 40_000), (64, 40_000)]
DIM = 128


def peak_mib(work):
    """Returns the largest memory that a call takes in addition to the memory that was in use before it."""
    work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def steps(score, inputs):
    """Returns the figures of the forward and backward passes of `score`, with gradients for `inputs`."""

    def step():
        return torch.autograd.grad(score().sum(), inputs)

    try:
        with torch.no_grad():
            forward_ms = median_ms(score, 7)
        return {"forward_ms": forward_ms, "step_ms": median_ms(step, 3), "peak_mib": peak_mib(step)}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    finally:
        torch.cuda.empty_cache()


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=dtype)


def heads():
    """Times the fused head, and the same computation in parts: a linear layer, a normalisation and maxsim_scores."""
    for num_queries, num_documents, query_tokens, document_tokens, columns in HEADS:
        queries = random(num_queries, query_tokens, DIM).requires_grad_()
        hidden = random(num_documents, document_tokens, columns)
        weight = (random(DIM, columns) / columns**0.5).requires_grad_()

        def parts(queries=queries, hidden=hidden, weight=weight):
            vectors = torch.nn.functional.normalize(torch.nn.functional.linear(hidden, weight), dim=-1)
            return maxsim_scores(queries, vectors)

        def fused(queries=queries, hidden=hidden, weight=weight):
            return fused_head_scores(queries, hidden, weight)

        shape = [num_queries, num_documents, query_tokens, document_tokens, columns]
        yield {
            "case": "fused head",
            "shape": shape,
            "fused": steps(fused, (queries, weight)),
            "parts": steps(parts, (queries, weight)),
        }


def saved_int8():
    """Times a step with documents that are kept in their own type, and with documents that are kept in int8."""
    for num_queries, num_documents, query_tokens, document_tokens in BATCHES:
        queries = random(num_queries, query_tokens, DIM).requires_grad_()
        leaf = random(num_documents, document_tokens, DIM).requires_grad_()
        result = {"case": "saved int8", "shape": [num_queries, num_documents, query_tokens, document_tokens]}
        for kept in (None, "int8"):
            # `leaf * 2` makes documents that are computed. Without save_documents they would be freed after the
            # forward pass.
            def score(queries=queries, leaf=leaf, kept=kept):
                return maxsim_scores(queries, leaf * 2, save_documents=kept)

            result[str(kept)] = steps(score, (queries, leaf))
        yield result


def float8():
    """Times scores of documents in float8, and of the same documents in the type that they are converted to."""
    for num_queries, num_documents, query_tokens, document_tokens in [(1, 10_000, 32, 300), *BATCHES]:
        queries = random(num_queries, query_tokens, DIM, dtype=torch.float16)
        documents = random(num_documents, document_tokens, DIM, dtype=torch.float16)
        result = {"case": "float8", "shape": [num_queries, num_documents, query_tokens, document_tokens]}
        small = documents.to(torch.float8_e4m3fn)
        scales = torch.rand(num_documents, document_tokens, device="cuda") + 0.5
        calls = {
            "float16": lambda: maxsim_scores(queries, documents),
            "float8": lambda: maxsim_scores(queries, small),
            "float8, scales of tokens": lambda: maxsim_scores(queries, small, document_scales=scales),
        }
        for name, call in calls.items():
            result[name] = {"forward_ms": median_ms(call, 7), "peak_mib": peak_mib(call)}
        yield result


def retrievals():
    """Times finding the best 100 of documents in the host's memory, and for comparison a plain copy of all of them to
    the GPU."""
    for num_queries, num_documents in RETRIEVALS:
        queries = random(num_queries, 32, DIM, dtype=torch.float16)
        documents = torch.randn(64, 300, DIM).half().repeat(num_documents // 64, 1, 1)
        num_bytes = documents.numel() * 2
        result = {"case": "top k", "shape": [num_queries, len(documents), 32, 300], "gib": num_bytes / 2**30}
        target = torch.empty_like(documents[:1600], device="cuda")
        for kind, host in (("pageable", documents), ("pinned", documents.pin_memory())):

            def copy(host=host, target=target):
                for block in host.split(1600):
                    target[: len(block)].copy_(block, non_blocking=True)

            def find(host=host, queries=queries):
                maxsim_top_k(queries, host, 100)

            result[kind] = {"ms": wall_ms(find), "copy_ms": wall_ms(copy), "peak_mib": peak_mib(find)}
        yield result


def wall_ms(work, repeats=3):
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times[1:])


def main():
    parser = parser_of(__doc__)
    options = parser.parse_args()
    require("cuda")
    torch.manual_seed(0)
    report = Report(options, dim=DIM)
    for cases in (heads, saved_int8, float8, retrievals):
        for row in cases():
            report.add(row)


if __name__ == "__main__":
    main()
