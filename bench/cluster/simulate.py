#!/usr/bin/env python3
"""Simulates how long requests to many groups of servers take, for docs/performance/cluster.

    python3 bench/cluster/simulate.py                       writes fanout.json, fanout.svg and the table of README.md
    python3 bench/cluster/simulate.py --from fanout.json    makes the plot and the table of an earlier run
    python3 bench/cluster/simulate.py --fan-out 8 --load 0.5 --profile cpu --fault slow --print     runs single settings

world.py describes the simulation. service_times.json (service_times.py) has the times that it draws. A run of all
settings takes some four minutes on one processor. The same seeds give the same files. Needs only Python.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pages import svg, with_table
from service_times import OUTPUT as SERVICE_TIMES
from service_times import ServiceTimes, read_profiles
from world import FAULTS, POLICIES, Outcome, Setting, World

FOLDER = SERVICE_TIMES.parent
FAN_OUTS = (1, 2, 4, 8, 16, 32, 64)
LOADS = (0.3, 0.7)
SEEDS = (1, 2, 3)
# The profiles in which faults are simulated: their runs last much longer than an ejection, which takes a second.
FAULTY_PROFILES = ("cpu",)
FAN_OUTS_WITH_FAULT = (1, 8, 64)


def quantile_of(values: Sequence[float], share: float) -> float:
    """Returns the value that `share` of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def row_of(setting: Setting, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the results of one setting over its runs, one run per seed: medians over the seeds, and the range of
    the p99."""

    def over_seeds(share: float) -> list[float]:
        return [round(quantile_of(outcome.latencies, share), 1) for outcome in outcomes]

    calls = sum(outcome.calls for outcome in outcomes)
    p99 = over_seeds(0.99)
    return {
        "profile": setting.times.name,
        "load": setting.load,
        "fault": setting.fault,
        "policy": setting.policy,
        "fan_out": setting.fan_out,
        "p50_us": statistics.median(over_seeds(0.5)),
        "p99_us": statistics.median(p99),
        "p99_us_least": min(p99),
        "p99_us_most": max(p99),
        "p999_us": statistics.median(over_seeds(0.999)),
        "hedge_share": round(sum(outcome.hedges for outcome in outcomes) / calls, 5),
        "ejections": statistics.median(outcome.ejections for outcome in outcomes),
        "retry_share": round(sum(outcome.retries for outcome in outcomes) / calls, 5),
    }


def settings_of(options: argparse.Namespace, profiles: Mapping[str, ServiceTimes]) -> Iterator[Setting]:
    for name in options.profile or profiles:
        if name not in profiles:
            raise ValueError(f"--profile is {name!r}; it is one of {', '.join(profiles)}")
        for fault in options.fault or FAULTS:
            if fault != "none" and name not in FAULTY_PROFILES and not options.fault:
                continue
            fan_outs = options.fan_out or (FAN_OUTS if fault == "none" else FAN_OUTS_WITH_FAULT)
            for load, policy, fan_out in itertools.product(options.load, POLICIES, fan_outs):
                yield Setting(profiles[name], fan_out, load, policy, fault, options.replicas, options.requests)


def simulate(options: argparse.Namespace) -> dict[str, Any]:
    """Runs all settings, and returns the content of fanout.json."""
    rows = []
    for setting in settings_of(options, read_profiles(options.service_times)):
        rows.append(row_of(setting, [World(setting, seed).run() for seed in options.seeds]))
        if not options.quiet:
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return {
        "what": "simulated by bench/cluster/simulate.py from service_times.json",
        "replicas": options.replicas,
        "requests": options.requests,
        "seeds": list(options.seeds),
        "rows": rows,
    }


def write(report: Mapping[str, Any], folder: pathlib.Path) -> None:
    """Writes fanout.json with one row per line, the plot, and the table of README.md."""
    head = {name: value for name, value in report.items() if name != "rows"}
    lines = ",\n".join("  " + json.dumps(row) for row in report["rows"])
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
    (folder / "fanout.json").write_text(text, encoding="utf-8")
    (folder / "fanout.svg").write_text(svg(report["rows"]), encoding="utf-8")
    page = folder / "README.md"
    page.write_text(with_table(page.read_text(encoding="utf-8") if page.exists() else "", report), encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fan-out", type=int, nargs="+", help="groups of servers (1 to 64)")
    parser.add_argument("--load", type=float, nargs="+", default=LOADS, help="of what replicas can do (%(default)s)")
    parser.add_argument("--profile", nargs="+", help="of service_times.json (all)")
    parser.add_argument("--fault", nargs="+", choices=FAULTS, help="of one replica of one group (all)")
    parser.add_argument("--replicas", type=int, default=3, help="of a group (%(default)s)")
    parser.add_argument("--requests", type=int, default=2500, help="counted, of each run (%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="a run each (%(default)s)")
    parser.add_argument("--service-times", type=pathlib.Path, default=SERVICE_TIMES)
    parser.add_argument("--from", dest="from_file", type=pathlib.Path, help="rows that were simulated before")
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER, help="folder (docs/performance/cluster)")
    parser.add_argument("--print", dest="only_print", action="store_true", help="write no files")
    parser.add_argument("--quiet", action="store_true", help="no row on standard error as it is there")
    options = parser.parse_args()
    for name in ("replicas", "requests"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; it is at least 1")
    if options.fan_out and min(options.fan_out) < 1:
        parser.error(f"--fan-out is {min(options.fan_out)}; it is at least 1")
    return options


def main() -> int:
    options = parse_arguments()
    try:
        if options.from_file:
            report = json.loads(options.from_file.read_text(encoding="utf-8"))
        else:
            report = simulate(options)
        if not options.only_print:
            write(report, options.output)
    except (OSError, ValueError, KeyError) as error:
        print(f"simulate.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
