#!/usr/bin/env python3
"""Prints by how much two builds differ over the turns of several runs of compare_builds.py, with 95 % intervals.

    pool_turns.py RUN.json... [--out FILE]

Each turn gives one ratio: the later build's figure, divided by the mean of the two servers of the earlier build. A case has the
median and the geometric mean of all ratios. The intervals are the bootstrap's: 4,000 samples are drawn from the ratios. If an
interval contains the limit that a build must keep, the runs do not show that it keeps it.
"""

import argparse
import json
import pathlib

import numpy as np


def pooled(runs):
    """Returns, for each case of the runs, the number of turns, the two ratios and their intervals. `runs` are results of
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
        samples = draw.choice(values, (4000, len(values)))
        result[name] = {"turns": len(values)}
        for statistic, function in (("median", np.median), ("mean", np.mean)):
            interval = np.percentile(function(samples, axis=1), [2.5, 97.5])
            result[name][statistic] = round(float(np.exp(function(values))), 4)
            result[name][f"{statistic}_interval"] = [round(float(bound), 4) for bound in np.exp(interval)]
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
