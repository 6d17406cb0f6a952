#!/usr/bin/env python3
"""Runs the cases of docs/performance/serving.md that need a server, and writes serving.json.

    bench/serving/cases/run_cases.py --bin build/release/bin --out results [--case NAME ...] [--scale small|full]

Makes the collections that the cases need (with numpy and maxsim-shard), starts maxsimd and the baseline on free
ports, and runs maxsim-loadtest. Writes OUT/serving.json, and into the same folder the load tester's own reports, the
servers' logs and their configurations. A case that fails or cannot run leaves a row that says why, and the other
cases still run. `make_tables.py` makes the tables.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case_run import Run, Skip  # noqa: E402
from cases import CASES  # noqa: E402
from data import SCALES, Data  # noqa: E402
from servers import gpu_query, has_gpu, server_commit, server_keys  # noqa: E402


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def describe(options):
    gpus = gpu_query("name,driver_version") if options.gpu else []
    return {
        "device": gpus[0][0] if gpus else f"CPU: {processor()}",
        "gpus": len(gpus),
        "cores": len(os.sched_getaffinity(0)),
        "driver": gpus[0][1] if gpus else None,
        "commit": options.commit or server_commit(options.bin),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "scale": options.scale,
    }


def run_one(run, name, seconds_left):
    function, _ = CASES[name]
    before = len(run.rows)
    begin = time.monotonic()
    problem = None
    if seconds_left <= 0:
        problem = {"skipped": "the time for all cases (--seconds) was over"}
    else:
        try:
            function(run)
        except Skip as skip:
            problem = {"skipped": str(skip)}
        except Exception as error:  # whatever it is, the other cases go on
            traceback.print_exc()
            problem = {"failed": f"{type(error).__name__}: {error}"}
            run.stop_server()
    if problem is not None:
        run.rows.append({"case": name, **problem})
    for row in run.rows[before:]:
        shown = {key: value for key, value in row.items() if key not in ("command", "case") and value is not None}
        print(f"{row['case']}: {shown}", flush=True)
    print(f"-- {name}: {time.monotonic() - begin:.1f} s", flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description="Runs the serving cases and writes serving.json.")
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="folder of maxsimd, maxsim-shard, maxsimctl, maxsim-loadtest")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for serving.json, reports and logs")
    parser.add_argument("--case", action="append", choices=CASES, metavar="NAME", help=f"one of {', '.join(CASES)}; repeat for several; default: all")
    parser.add_argument("--scale", choices=SCALES, default="full", help="small is for trying it out: its numbers mean nothing")
    parser.add_argument("--data", type=pathlib.Path, help="folder for the collections, kept between runs; default OUT/data")
    parser.add_argument("--backend", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda where nvidia-smi shows a GPU")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, grpc and flash-maxsim, for the baseline")
    parser.add_argument("--link-gbs", type=float, help="host-to-device rate in GB/s; default: measured with --python's torch")
    parser.add_argument("--seconds", type=float, default=900, help="no case begins after that long")
    parser.add_argument("--soak-seconds", type=float, help="how long the case soak goes on; default: by the scale")
    parser.add_argument("--commit", help="what serving.json says; default: what maxsimd says")
    options = parser.parse_args(arguments)
    options.gpu = options.backend == "cuda" or options.backend == "auto" and has_gpu()
    for program in ("maxsimd", "maxsim-shard", "maxsim-loadtest"):
        if not (options.bin / program).exists():
            parser.error(f"--bin: there is no {program} in {options.bin}")
    if options.soak_seconds is not None and options.soak_seconds <= 0:
        parser.error(f"--soak-seconds is {options.soak_seconds}; it must be more than 0")
    return options


def main(arguments=None):
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in CASES if not options.case or name in options.case]
    begin = time.monotonic()
    data = Data(options.data or options.out / "data", options.bin, options.scale)
    if options.soak_seconds:
        data.scale = dataclasses.replace(data.scale, soak_seconds=options.soak_seconds)
    data.make(sorted({collection for name in names for collection in CASES[name][1]}))
    print(f"-- data: {time.monotonic() - begin:.1f} s", flush=True)
    run = Run(options, data, server_keys(options.bin))
    result = describe(options)
    result["data_seconds"] = round(time.monotonic() - begin, 1)
    try:
        for name in names:
            run_one(run, name, options.seconds - (time.monotonic() - begin))
            # The file is written after each case, so that results are kept if a later case fails.
            result["rows"] = run.rows
            result["seconds"] = round(time.monotonic() - begin, 1)
            (options.out / "serving.json").write_text(json.dumps(result, indent=1) + "\n")
    finally:
        run.stop_server()
    failed = [row["case"] for row in run.rows if "failed" in row]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
