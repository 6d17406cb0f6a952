#!/usr/bin/env python3
"""Reduces benchmark reports to the part that docs/performance keeps: the members that its pages, plots and checks read,
and those that say where the figures come from (device, driver, commit, command, date).

    python3 bench/reduce_reports.py docs/performance/serving/*.json     reduces the files in place
    python3 bench/reduce_reports.py --check docs/performance            fails for a file that is not reduced; writes nothing

Recognises three kinds of report by their members, and drops from each:
- maxsim-loadtest: the values of every second;
- maxsim_bench_gpu and maxsim_bench_cpu (with the peers' figures): all members that kernels/report.py does not read;
- tests/peers/run_suite.py: the tests that pass on both sides.
Other files are left as they are.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "kernels"))
import report as kernels_report  # noqa: E402

# A longer value is written over several lines, except that an entry of a list always takes one line.
LINE_CHARACTERS = 160

OF_EACH_SECOND = {"series", "server_metrics", "client_threads_busy"}
# Only "isa" and "threads" tell some rows of the CPU's kernels apart.
KERNEL_ROW = kernels_report.ROW_KEYS | {"isa", "threads"}
SWEEP_ROW = {"shape", "storage", "d", "ours_ms", "roofline_ms", "ratio", "peers"}


def only(row, names):
    return {name: value for name, value in row.items() if name in names}


def reduce_load_test(report):
    reduced = {name: value for name, value in report.items() if name not in OF_EACH_SECOND}
    if "stability" in report:
        reduced["stability"] = {name: value for name, value in report["stability"].items() if name != "thirds"}
    return reduced


def reduce_kernels(report):
    reduced = dict(report)
    clocks = {row["clock"] for row in report["rows"] if "clock" in row}
    if clocks:
        reduced["clock"] = ", ".join(sorted(clocks))
    reduced["rows"] = [only(row, KERNEL_ROW) for row in report["rows"]]
    if "sweep" in report:
        reduced["sweep"] = {**report["sweep"], "rows": [only(row, SWEEP_ROW) for row in report["sweep"]["rows"]]}
    return reduced


def reduce_suite(report):
    def passes(result):
        return all(result.get(side, {}).get("outcome") == "passed" for side in report["sides"])

    return {**report, "tests": {name: result for name, result in report["tests"].items() if not passes(result)}}


def reducer_of(report):
    """Returns the function that reduces this kind of report, or None if it is not one of the three kinds."""
    if not isinstance(report, dict):
        return None
    if {"latency_us", "whole_run", "mode"} <= report.keys():
        return reduce_load_test
    if {"drop_in", "tests", "sides"} <= report.keys():
        return reduce_suite
    if {"limits", "rows"} <= report.keys() and report["rows"] and "ours_ms" in report["rows"][0]:
        return reduce_kernels
    return None


def text_of(value, indent=0, is_entry=False):
    """Returns `value` as JSON. A list entry takes one line, and so does a value that fits into LINE_CHARACTERS."""
    line = json.dumps(value, ensure_ascii=False)
    if is_entry or not isinstance(value, (dict, list)) or not value or len(line) + indent <= LINE_CHARACTERS:
        return line
    space = " " * (indent + 1)
    if isinstance(value, list):
        parts = [text_of(item, indent + 1, is_entry=True) for item in value]
    else:
        parts = [f"{json.dumps(name)}: {text_of(item, indent + 1)}" for name, item in value.items()]
    begin, end = ("[", "]") if isinstance(value, list) else ("{", "}")
    return begin + "\n" + ",\n".join(space + part for part in parts) + "\n" + " " * indent + end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, help="files, and folders whose *.json are meant")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not reduced")
    options = parser.parse_args()
    wrong = []
    for path in options.paths:
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            text = file.read_text(encoding="utf-8")
            report = json.loads(text)
            reduce = reducer_of(report)
            reduced = text_of(reduce(report)) + "\n" if reduce is not None else text
            if reduced == text:
                continue
            if options.check:
                wrong.append(file)
            else:
                file.write_text(reduced, encoding="utf-8")
    for file in wrong:
        print(f"{file}: is not reduced; python3 bench/reduce_reports.py {file}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
