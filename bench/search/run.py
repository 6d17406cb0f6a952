#!/usr/bin/env python3
"""Measures maxsimd and its peers on the same documents and questions: recall, queries per second, latency and bytes.

    bench/search/run.py --data data --documents 331338 1000000 --bin build/release/bin --out search.json

Needs the folders that encode.py wrote, in --data. For each kind of vectors and each number of documents, this program
makes the collection (scale.py) and the exact answers in FP64 (exact.py). Then, for each system and each setting of
its index, it builds the index and searches it with several settings. It writes results to --out as soon as it has
them. After an interruption, run the same command again: it continues where it ended, and tries again what failed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Sequence

import systems
from documents import load_documents, load_questions
from exact import best_documents
from report import Report
from scale import scale

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "serving" / "cases"))

from servers import gpu_query, provenance  # noqa: E402


def default_device() -> str:
    return "cuda" if gpu_query("name") else "cpu"


def make_collection(options: argparse.Namespace, report: Report, kind: str, num_documents: int) -> str:
    """Makes the documents and the exact answers if they are missing, and returns the collection's name."""
    name, source = f"{kind}-{num_documents}", options.data / kind
    folder = options.work / name
    truth_path = folder / "truth.npz"
    if truth_path.exists() and report.find("collections", collection=name):
        return name
    begin = time.monotonic()
    documents = scale(load_documents(source), num_documents, folder)
    scale_s = time.monotonic() - begin
    questions = load_questions(source)[: min(options.questions, num_documents)]
    begin = time.monotonic()
    device = None if options.device == "cpu" else options.device
    best_documents(documents, questions, 2 * max(options.k), device).save(truth_path)
    row = {
        "collection": name,
        "kind": kind,
        "documents": len(documents),
        "real_documents": min(num_documents, len(load_documents(source))),
        "vectors": len(documents.vectors),
        "dim": documents.dim,
        "f16_bytes": documents.vectors.nbytes,
        "questions": len(questions),
        "mean_question_tokens": sum(map(len, questions)) / len(questions),
        "scale_s": scale_s,
        "exact_s": time.monotonic() - begin,
    }
    report.add("collections", row)
    print(json.dumps(row), flush=True)
    return name


def index_folder(options: argparse.Namespace, name: str, system: str, build: Dict[str, Any]) -> pathlib.Path:
    settings = "-".join(f"{key}{value}" for key, value in build.items())
    return options.work / "indexes" / re.sub(r"[^A-Za-z0-9._-]", "_", f"{name}-{system}-{settings}")


def run_in_group(command: Sequence[str], seconds: float) -> str:
    """Runs a command. Returns how it failed, or "". After `seconds`, or when this program is interrupted, ends the
    command and the processes that it has started, such as a server."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stderr=errors, process_group=0)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"not done after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(0)
        return "" if code == 0 else f"exit {code}: {errors.read().strip()[-400:]}"


def measure(
    options: argparse.Namespace, report: Report, name: str, system: str, build: Dict[str, Any], seconds: float
) -> None:
    """Runs measure_system.py. If it fails, records how."""
    kind, index = systems.load(system), index_folder(options, name, system, build)
    key = {"collection": name, "system": kind.name, "build": build}
    command = [
        sys.executable, HERE / "measure_system.py", "--system", system, "--build", json.dumps(build),
        "--collection", name, "--documents", options.work / name, "--questions", options.data / name.rsplit("-", 1)[0],
        "--truth", options.work / name / "truth.npz", "--index", index, "--bin", options.bin,
        "--device", options.device, "--threads", options.threads, "--seconds", options.seconds, "--out", options.out,
        "--k", *options.k, *(["--quick"] if options.quick else []),
    ]  # fmt: skip
    error = run_in_group([str(part) for part in command], seconds)
    if error:
        report.add("failures", {**key, "error": error})
        print(json.dumps({**key, "error": error}), flush=True)
    else:
        report.remove("failures", key)
        if not options.keep:
            shutil.rmtree(index, ignore_errors=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=pathlib.Path, required=True, help="folder with a folder for each kind of vectors"
    )
    parser.add_argument("--kinds", nargs="+", default=["minilm", "trained"], help="(default: minilm trained)")
    parser.add_argument("--documents", type=int, nargs="+", required=True, help="sizes of the collection")
    parser.add_argument(
        "--systems", nargs="+", choices=systems.NAMES, default=list(systems.NAMES), help="(default: all)"
    )
    parser.add_argument(
        "--builds",
        type=json.loads,
        nargs="+",
        metavar="JSON",
        help="only indexes with these settings, such as '{\"nbits\": 4}' (default: all)",
    )
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of maxsimd and maxsim-shard")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default_device(), help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: %(default)s)")
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100], help="results of a search (default: 10 100)")
    parser.add_argument("--questions", type=int, default=2000, help="at most (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one index of each system, and one setting of a search")
    parser.add_argument("--keep", action="store_true", help="keep the indexes that were measured")
    parser.add_argument("--index-seconds", type=float, default=3600, help="of one index (default: %(default)s)")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"), help="of the whole run (default: none)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for collections and indexes (default: --data)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the report, a JSON file")
    options = parser.parse_args()
    options.work = options.work or options.data
    return options


def main() -> None:
    options = parse()
    end = time.monotonic() + options.limit_seconds
    report = Report(options.out)
    report.begin_run({
        **provenance(options.bin),
        "gpu": gpu_query("name,driver_version"),
        "device": options.device,
        "cpu_threads": options.threads,
    })  # fmt: skip
    for kind in options.kinds:
        for num_documents in options.documents:
            name = make_collection(options, report, kind, num_documents)
            for system in options.systems:
                try:
                    builds = systems.load(system).builds
                except ImportError as error:
                    report.add(
                        "failures", {"collection": name, "system": system, "error": f"is not installed: {error}"}
                    )
                    continue
                if options.builds:
                    builds = tuple(build for build in builds if build in options.builds)
                for build in builds[:1] if options.quick else builds:
                    left = end - time.monotonic()
                    if left <= 0:
                        print("--limit-seconds are over: run the same command again to go on", flush=True)
                        return
                    measure(options, report, name, system, build, min(options.index_seconds, left))


if __name__ == "__main__":
    main()
