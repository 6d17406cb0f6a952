#!/usr/bin/env python3
"""Times maxsim_scores_packed on a GPU for documents of very different lengths, and for comparison maxsim_scores of the
same documents padded to the longest one: scores alone, scores with matches, and a step of forward and backward. If
--before names a libmaxsim.so, also shows the times of that build.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/packed_steps.py --out packed.json

Times are medians, measured by events on the device. If Python takes longer to start a call than the device takes to run
it, the time includes that wait. Prints a line per case, and writes one JSON file.
"""

from runs import Report, add_before, parser_of, require, rows_before
from training_steps import median_ms

import torch

import maxsim_torch

# Numbers of queries and documents, tokens of a query, tokens of the longest document.
SHAPES = [(1, 10_000, 32, 300), (128, 128, 32, 300), (512, 512, 32, 300), (32, 32, 1024, 1024)]
DIM = 128


def lengths_of(num_documents, most):
    """Returns lengths of which most are short: a uniform number to the third power, times the largest length."""
    lengths = (torch.rand(num_documents, device="cuda") ** 3 * most).long() + 1
    lengths[0] = most
    return lengths.clamp_max(most)


def figures(score, inputs):
    def step():
        return torch.autograd.grad(score().sum(), inputs)

    with torch.no_grad():
        scores_ms = median_ms(score, 7)
        with_matches_ms = median_ms(lambda: score(return_argmax=True), 7)
    return {"scores_ms": scores_ms, "with_matches_ms": with_matches_ms, "step_ms": median_ms(step, 5)}


def cases():
    for shape in SHAPES:
        num_queries, num_documents, query_tokens, most = shape
        torch.manual_seed(0)
        lengths = lengths_of(num_documents, most)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        queries = torch.randn(num_queries, query_tokens, DIM, device="cuda").half().requires_grad_()
        rows = torch.randn(int(offsets[-1]), DIM, device="cuda").half().requires_grad_()
        counting = torch.arange(most, device="cuda") < lengths.unsqueeze(1)
        padded = torch.zeros(num_documents, most, DIM, device="cuda", dtype=torch.float16)
        padded[counting] = rows.detach()
        padded.requires_grad_()

        def packed_score(queries=queries, rows=rows, offsets=offsets, **more):
            return maxsim_torch.maxsim_scores_packed(queries, rows, offsets, **more)

        def padded_score(queries=queries, padded=padded, lengths=lengths, **more):
            return maxsim_torch.maxsim_scores(queries, padded, document_lengths=lengths, **more)

        yield {
            "shape": "x".join(map(str, shape)),
            "tokens": rows.shape[0],
            "packed": figures(packed_score, (queries, rows)),
            "padded": figures(padded_score, (queries, padded)),
        }


def main():
    parser = parser_of(__doc__)
    add_before(parser)
    options = parser.parse_args()
    require("cuda")
    before = rows_before(options, lambda row: row["shape"])
    report = Report(options, dim=DIM)
    for row in cases():
        if row["shape"] in before:
            row["packed_before"] = before[row["shape"]]["packed"]
            row["padded_before"] = before[row["shape"]]["padded"]
        report.add(row)


if __name__ == "__main__":
    main()
