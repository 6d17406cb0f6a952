#!/usr/bin/env python3
"""Times the PyPI package maxsim-cpu on the shapes of maxsim_bench_cpu and adds it to that program's JSON as a peer.

    maxsim_bench_cpu --json cpu.json
    OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 python compare_maxsim_cpu.py --json cpu.json

Needs numpy and maxsim-cpu (0.1.0 was used), which takes FP32 only. With one thread, times are CPU time of the
process, because the package computes on a thread of its own. With several threads, they are wall time. They include
the call through Python, a few microseconds. If the package gives wrong scores for a shape, this program says so and
writes null for the shape.
"""

import argparse
import json
import os
import time

import numpy as np

DIM = 128
PEER = "maxsim-cpu 0.1.0"


def shapes():
    """Returns name, query tokens and document lengths of each shape of bench/kernels/bench_shapes.cc."""
    ragged = [1 + idx * 97 % 241 for idx in range(1000)]
    return [
        ("1x1000x32x300", 32, [300] * 1000),
        ("1x1000x32xragged", 32, ragged),
        ("1x1000x32x30", 32, [30] * 1000),
        ("1x20x1024x1024", 1024, [1024] * 20),
        ("1x1000x32x512", 32, [512] * 1000),
    ]


def normalized(generator, rows):
    values = generator.standard_normal((rows, DIM), dtype=np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def best_seconds(call, seconds, threads):
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    best, calls, end = float("inf"), 0, time.perf_counter() + seconds
    while calls < 3 or time.perf_counter() < end:
        before = clock()
        call()
        best = min(best, clock() - before)
        calls += 1
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file written by maxsim_bench_cpu --json; rows are added to it")
    parser.add_argument("--seconds", type=float, default=0.5, help="time spent on each shape")
    options = parser.parse_args()

    threads = int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count()))
    # The package reads its thread counts when it is loaded.
    import maxsim_cpu

    generator = np.random.default_rng(1)
    times_ms = {}
    print(f"{'shape':<18} {'threads':>8} {'ms/query':>11} {'GFLOP/s':>9}")
    for name, query_tokens, lengths in shapes():
        query = normalized(generator, query_tokens)
        if len(set(lengths)) == 1:
            documents = normalized(generator, sum(lengths)).reshape(len(lengths), lengths[0], DIM)
            score = maxsim_cpu.maxsim_scores
        else:
            documents = [normalized(generator, length) for length in lengths]
            score = maxsim_cpu.maxsim_scores_variable
        expected = [float((query @ document.T).max(axis=1).sum()) for document in documents]
        if not np.allclose(score(query, documents), expected, rtol=1e-3):
            print(f"{name:<18} {threads:>8}   wrong scores")
            times_ms[name] = None
            continue
        seconds = best_seconds(lambda: score(query, documents), options.seconds, threads)
        gflops = 2e-9 * query_tokens * sum(lengths) * DIM / seconds
        print(f"{name:<18} {threads:>8} {seconds * 1e3:>11.3f} {gflops:>9.1f}")
        times_ms[name] = seconds * 1e3
    if options.json:
        with open(options.json) as file:
            results = json.load(file)
        for row in results["rows"]:
            if row["threads"] == threads and row["shape"] in times_ms:
                row["peers"][PEER] = times_ms[row["shape"]]
        results["command"] += "; compare_maxsim_cpu.py"
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
