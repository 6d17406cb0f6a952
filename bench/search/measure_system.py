#!/usr/bin/env python3
"""Measures one index of one system. run.py starts this program for each index in a process of its own, so that a
system that crashes or hangs does not stop the others.

    bench/search/measure_system.py --system fast_plaid --build '{"nbits": 4}' --collection minilm-100000 \\
        --documents data/minilm-100000 --questions data/minilm --truth data/minilm-100000/truth.npz \\
        --index /tmp/index --bin build/release/bin --out search.json

Makes the index in --index unless it is there. Adds the index's size to the report in --out, and a row for each k and
each setting of a search that the report does not have yet.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import time

import systems
from documents import load_documents, load_questions
from exact import load_truth
from measure import measure
from report import Report
from systems.system import Setup, System

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "bench" / "serving" / "cases"))

from servers import gpu_bytes  # noqa: E402

COMPLETE = "complete.json"  # this file is in an index if building it has completed


def gpu_mib() -> int:
    return (gpu_bytes() or 0) >> 20


def build(system: System, options: argparse.Namespace) -> float:
    """Makes the index unless it is there. Returns the seconds that making it took, now or in an earlier run."""
    complete = options.index / COMPLETE
    if not complete.exists():
        shutil.rmtree(options.index, ignore_errors=True)
        options.index.mkdir(parents=True)
        begin = time.perf_counter()
        system.build(load_documents(options.documents))
        complete.write_text(json.dumps({"build_s": time.perf_counter() - begin}))
    return float(json.loads(complete.read_text())["build_s"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=systems.NAMES, required=True)
    parser.add_argument("--build", type=json.loads, required=True, help="settings of the index, JSON")
    parser.add_argument("--collection", required=True, help="name of the collection in the report")
    parser.add_argument("--documents", type=pathlib.Path, required=True, help="folder of the vectors")
    parser.add_argument("--questions", type=pathlib.Path, required=True, help="folder of the questions' vectors")
    parser.add_argument("--truth", type=pathlib.Path, required=True, help="file of the exact answers")
    parser.add_argument("--index", type=pathlib.Path, required=True, help="folder of the index")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of maxsimd and maxsim-shard")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: %(default)s)")
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100], help="(default: 10 100)")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="only the first setting of a search")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report")
    return parser.parse_args()


def main() -> None:
    options = parse()
    report = Report(options.out)
    kind = systems.load(options.system)
    key = {"collection": options.collection, "system": kind.name, "build": options.build}
    todo = []
    for k in options.k:
        searches = kind.searches(options.build, k)
        for search in searches[:1] if options.quick else searches:
            if not report.find("rows", **key, search=search, k=k):
                todo.append((k, search))
    if not todo:
        return
    system = kind(Setup(options.index, options.device, options.threads, options.bin.resolve()), options.build)
    build_s = build(system, options)
    before, begin = gpu_mib(), time.perf_counter()
    system.open()
    try:
        report.add("indexes", {
            **key,
            "device": options.device if kind.uses_gpu else "cpu",
            "versions": {package: importlib.metadata.version(package) for package in kind.packages},
            "build_s": build_s,
            "open_s": time.perf_counter() - begin,
            "gpu_mib": gpu_mib() - before,
            "bytes": system.num_bytes(),
        })  # fmt: skip
        truth = load_truth(options.truth)
        questions = load_questions(options.questions)[: len(truth)]
        for k, search in todo:
            row = {**key, "search": search, **measure(system, questions, truth, k, search, options.seconds)}
            report.add("rows", row)
            print(json.dumps(row), flush=True)
    finally:
        system.close()


if __name__ == "__main__":
    main()
