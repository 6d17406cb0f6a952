#!/usr/bin/env python3
"""Prints by how much two builds differ over the turns of several runs of compare_builds.py, with a 95 % interval.

    pool_turns.py RUN.json... [--out FILE]

Each turn gives one ratio: the later build's figure, divided by the mean of the two servers of the earlier build. The result of
a case is the geometric mean of all ratios. The interval is the bootstrap's: it is drawn 4,000 times from the ratios.
"""

import argparse
import json
import pathlib

import numpy as np


def pooled(runs):
    """Returns, for each case of the runs, the number of turns, the ratio and the interval. `runs` are results of
    compare_builds.py."""
    logs = {}
    for run in runs:
        for name, case in run["cases"].items():
            turns = {build: np.array(values) for build, values in case["turns"].items()}
            ratios = turns["bin"] / ((turns["base"] + turns["base_again"]) / 2)
            logs.setdefault(name, []).extend(np.log(ratios))
    draw = np.random.default_rng(1)
    result = {}
    for name, values in logs.items():
        means = draw.choice(values, (4000, len(values))).mean(axis=1)
        low, high = np.exp(np.percentile(means, [2.5, 97.5]))
        ratio = float(np.exp(np.mean(values)))
        result[name] = {"turns": len(values), "ratio": round(ratio, 4), "interval": [round(float(low), 4), round(float(high), 4)]}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN.json", help="results of compare_builds.py")
    parser.add_argument("--out", type=pathlib.Path, help="file for the result (default: only print it)")
    options = parser.parse_args()
    result = {"runs": [path.name for path in options.runs], "cases": pooled([json.loads(path.read_text()) for path in options.runs])}
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
