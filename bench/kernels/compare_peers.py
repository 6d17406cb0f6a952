#!/usr/bin/env python3
"""Times other MaxSim kernels on the shapes of maxsim_bench_gpu, on the same inputs and in the same run.

    pip download --no-deps flash-maxsim==0.3.0 late-interaction-kernels==0.4.5   (and unzip both into PEERS)
    python3 compare_peers.py --bench maxsim_bench_gpu --peers PEERS --json kernels.json

Needs PyTorch and Triton on a GPU. Runs maxsim_bench_gpu (--bench). Without --bench, the file of --json must already
have its results, and the folder of --inputs the files that it wrote there. Then this program times each peer on every
row whose shape the peer can score, and adds the peer's milliseconds to the row:

    "peers": {"flash-maxsim 0.3.0": 0.033, "late-interaction-kernels 0.4.5": null}

null stands for a peer that fails, or that has no figure after --seconds-per-method, including the time of its tuning.
Rows of INT8 have the peers' 8-bit variants, "flash-maxsim 0.3.0 int8" and "late-interaction-kernels 0.4.5 fp8", which
read as many bytes. Those need documents of equal length, so lists and ragged rows of INT8 have the peers' FP16
figures instead. "peer_methods" has every figure, of plain calls and of replays of a CUDA graph, and the reason if one
is missing. The best figure counts. "peer_error" is the reason why a row has no figure at all.

Times are medians of CUDA events, as maxsim_bench_gpu takes them. Before every call, 256 MB that nothing else uses are
read on the same stream, so that the cache is cold and launches add no time. Documents and queries have the same
values that maxsim_bench_gpu scores (bench/kernels/gpu_data.h). Every method's scores are compared with FP64 first.

Triton compiles a kernel for every tuning choice. First several processes (--compile-processes) compile a part of the
choices each, which fills Triton's cache. Then one process tunes and times, with the device to itself. If a method
runs far beyond its time, that process is killed, because a compiler ignores signals, and a new process goes on after
the method. A method is skipped for a row of a sweep if it ran out of time on another row with no more query tokens
and columns.
"""

import argparse
import contextlib
import datetime
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from peer_timing.compiling import compile_all, compile_part
from peer_timing.report_rows import save, tell_rows
from peer_timing.timing_process import time_from
from peer_timing.watching import time_all


def run_bench(options):
    """Runs maxsim_bench_gpu. Returns its exit status, and whether the file of --json now has figures. If the status
    is not 0, these may be only some of the figures."""
    fresh = options.json + ".bench"
    command = [options.bench, "--json", fresh, "--inputs", options.inputs, *options.bench_args]
    command += ["--shapes", options.shapes]
    with contextlib.suppress(FileNotFoundError):
        os.remove(fresh)  # of a run that was interrupted
    result = subprocess.run(command, check=False)
    if result.returncode != 0:
        print(f"{command[0]} failed with {result.returncode}", file=sys.stderr, flush=True)
    measured = os.path.exists(fresh)
    if measured:
        os.replace(fresh, options.json)
    return result.returncode, measured


def shown(arguments):
    """Returns the command line without folders."""
    return shlex.join(["compare_peers.py"] + [os.path.basename(a.rstrip("/")) if "/" in a else a for a in arguments])


def compare(options):
    begin = time.monotonic()
    failed, measured = run_bench(options) if options.bench else (0, True)
    if not measured:
        return failed or 1
    with open(options.json, encoding="utf-8") as file:
        found = file.read()
    report = json.loads(found)
    goals, sweep = tell_rows(report, options.sweep_rows)
    rows = goals + sweep
    for row in rows:
        row["peers"], row["peer_methods"] = {}, []
        row.pop("peer_error", None)
    report["command"] = shown(sys.argv[1:])
    report["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    save(report, options.json)
    try:
        if options.compile_processes > 0 and rows:
            compile_all(options)
        if not time_all(report, rows, options):
            failed = 1
    finally:
        if not any(row["peer_methods"] for row in rows):  # figures of an earlier run stay
            report = json.loads(found)
        save(report, options.json)
    print(f"{time.monotonic() - begin:.0f} s in all", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True, help="maxsim_bench_gpu's results, to which the peers' are added")
    parser.add_argument("--bench", help="maxsim_bench_gpu, to be run first")
    parser.add_argument("--bench-args", default="", help='further arguments for it, such as "--sweep 200 --seed 1"')
    parser.add_argument("--shapes", default="goals", help="as --shapes of maxsim_bench_gpu; default: goals")
    parser.add_argument("--inputs", help="folder for lengths and lists; default: a temporary one")
    parser.add_argument("--peers", help="folder with the unpacked packages, where they are not installed")
    parser.add_argument("--seconds", type=float, default=150, help="time for all peers, compiling not counted")
    parser.add_argument("--seconds-per-method", type=float, default=25, help="time for one method on one shape")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of calls behind one median")
    parser.add_argument("--compile-processes", type=int, default=min(14, max(1, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--compile-seconds", type=float, default=100)
    parser.add_argument("--sweep-rows", type=int, default=0, help="rows of a sweep that peers are timed on too")
    parser.add_argument("--sweep-tuning-ms", type=float, help="time for a tuning choice there; default: Triton's")
    parser.add_argument("--compile-part", help=argparse.SUPPRESS)
    parser.add_argument("--time-from", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bench_args = options.bench_args.split()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # started processes end, too
    if options.peers:
        sys.path.insert(0, options.peers)
    if options.compile_part:
        return compile_part(options)
    if options.time_from is not None:
        return time_from(options)
    with tempfile.TemporaryDirectory() as folder:
        options.inputs = options.inputs or folder
        return compare(options)


if __name__ == "__main__":
    sys.exit(main())
