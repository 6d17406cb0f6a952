#!/usr/bin/env python3
"""Times what maxsim_scores costs on the host, with a call so small that its computation takes no time: the forward
pass without gradients, in inference mode and with gradients, the backward pass, and a step of forward and backward.
On a GPU the host only starts the kernels, and a small batch takes as long as starting them.

    MAXSIM_LIBRARY=build/release/lib/libmaxsim.so bench/torch/host_cost.py --out host.json

Prints a line per call in microseconds, and writes one JSON file. If other programs run on the machine, `least_us` is
more reliable than `median_us`.
"""

import json
import statistics
import timeit

from runs import describe_run, parser_of, require

import torch

import maxsim_torch

# One query of 2 tokens, 2 documents of 2 tokens.
QUERIES, DOCUMENTS = (1, 2, 8), (2, 2, 8)
CALLS, REPEATS = 50, 200


def calls(device):
    """Returns what is timed, by name."""
    queries, documents = (torch.randn(shape, device=device) for shape in (QUERIES, DOCUMENTS))
    trained = [tensor.clone().requires_grad_() for tensor in (queries, documents)]
    scores = maxsim_torch.maxsim_scores(*trained)
    ones = torch.ones_like(scores)

    def inference():
        with torch.inference_mode():
            maxsim_torch.maxsim_scores(queries, documents)

    def step():
        torch.autograd.grad(maxsim_torch.maxsim_scores(*trained), trained, ones)

    return {
        "forward": lambda: maxsim_torch.maxsim_scores(queries, documents),
        "forward_in_inference_mode": inference,
        "forward_with_gradients": lambda: maxsim_torch.maxsim_scores(*trained),
        "backward": lambda: torch.autograd.grad(scores, trained, ones, retain_graph=True),
        "step": step,
    }


def measure(work, device):
    """Returns the median and the smallest time of a call in microseconds, over REPEATS times of CALLS calls."""

    def several():
        for _ in range(CALLS):
            work()

    several()
    times = []
    for _ in range(REPEATS):
        if device == "cuda":
            torch.cuda.synchronize()  # not part of the time; it keeps the queue of kernels from filling up
        times.append(timeit.timeit(several, number=1) / CALLS * 1e6)
    return {"median_us": round(statistics.median(times), 1), "least_us": round(min(times), 1)}


def main():
    parser = parser_of(__doc__, needs_out=False)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    require(options.device)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = {**describe_run(options.commit, options.device), "calls": {}}
    for name, work in calls(options.device).items():
        result["calls"][name] = measure(work, options.device)
        print(json.dumps({name: result["calls"][name]}), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
