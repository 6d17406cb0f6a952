#!/usr/bin/env python3
"""Makes service_times.json from reports of maxsim-loadtest. simulate.py draws its service times from this file.

    python3 bench/cluster/service_times.py NAME=REPORT.json ... --device NAME=TEXT [--output FILE]

A report is of a closed loop (`--mode closed --concurrency N --json REPORT.json`). Its latencies are those of a
replica with N requests in flight. The simulation models this as a replica with N places, in each of which a request
takes one of these times. Such a replica can handle N / (their mean) requests per second, which is the rate that the
load tester measured. Needs only Python.
"""

from __future__ import annotations

import argparse
import bisect
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "docs" / "performance" / "cluster" / "service_times.json"
# Members of a report's latency_us, by the share of requests that are not slower.
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclasses.dataclass(frozen=True)
class ServiceTimes:
    """The distribution of times in microseconds: a quantile function that is linear between `shares`, from 0 to 1,
    and `values`. Also the number of places of a replica with these times."""

    name: str
    places: int
    shares: tuple[float, ...]
    values: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Returns the time that `share` (0 to 1) of the requests do not exceed."""
        above = min(max(bisect.bisect_left(self.shares, share), 1), len(self.shares) - 1)
        low, high = self.shares[above - 1], self.shares[above]
        rest = (share - low) / (high - low)
        return self.values[above - 1] + rest * (self.values[above] - self.values[above - 1])

    def mean(self) -> float:
        """Returns the mean of the distribution."""
        steps = zip(self.shares, self.shares[1:], self.values, self.values[1:])
        return sum((end - begin) * (low + high) / 2 for begin, end, low, high in steps)


def from_profile(name: str, profile: Mapping[str, Any]) -> ServiceTimes:
    """Returns a profile of service_times.json as a distribution. A report has no smallest time, so this is set such
    that the mean is that of the report, between 0 and the median. ValueError: the profile is inconsistent."""
    points = sorted((float(share), float(value)) for share, value in profile["quantiles"].items())
    shares, values = [share for share, _ in points], [value for _, value in points]
    if not shares or shares[0] <= 0 or shares[-1] != 1 or values != sorted(values) or values[0] <= 0:
        raise ValueError(f"{name}: quantiles are {profile['quantiles']}; they grow, from a share above 0 to 1")
    if not isinstance(profile["places"], int) or profile["places"] < 1:
        raise ValueError(f"{name}: places is {profile['places']!r}; it is a whole number from 1 on")
    above = ServiceTimes(name, profile["places"], tuple(shares), tuple(values)).mean()
    least = 2 * (profile["mean"] - above) / shares[0] - values[0]
    return ServiceTimes(name, profile["places"], (0.0, *shares), (min(max(least, 0.0), values[0]), *values))


def read_profiles(path: pathlib.Path) -> dict[str, ServiceTimes]:
    """Reads service_times.json."""
    profiles = json.loads(path.read_text(encoding="utf-8"))["profiles"]
    return {name: from_profile(name, profile) for name, profile in profiles.items()}


def profile_of(report: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Returns the profile of a report. ValueError: the report is not of a closed loop, or has errors."""
    if report["mode"] != "closed" or report["errors"] or report["client_bound"]:
        raise ValueError(
            f"mode {report['mode']}, errors {report['errors']}, client_bound {report['client_bound']}; "
            "wanted is a closed loop without errors, in which the load tester was not the bound"
        )
    latencies = report["latency_us"]
    return {
        "device": device,
        "date": report["started"],
        "server": report["server"].split(",")[0].split(" (")[0],
        "command": re.sub(r"(--target \S+):\d+", r"\1:PORT", report["command"]),
        "workload": report["workload"],
        "places": report["concurrency"],
        "requests": report["requests"],
        "rps": round(report["rps"], 1),
        "mean": round(latencies["mean"], 1),
        "quantiles": {str(share): round(latencies[name], 1) for name, share in SHARES.items()},
    }


def named(texts: Sequence[str], what: str) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise ValueError(f"{what} is {text!r}; it is NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="NAME=REPORT.json")
    parser.add_argument("--device", action="append", default=[], metavar="NAME=TEXT", help="what it was measured on")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT)
    options = parser.parse_args()
    try:
        devices, profiles = named(options.device, "--device"), {}
        for name, path in named(options.reports, "a report").items():
            if name not in devices:
                raise ValueError(f"{name}: say on what it was measured, with --device {name}=TEXT")
            profiles[name] = profile_of(json.loads(pathlib.Path(path).read_text(encoding="utf-8")), devices[name])
            from_profile(name, profiles[name])
    except (OSError, ValueError, KeyError) as error:
        print(f"service_times.py: {error}", file=sys.stderr)
        return 1
    options.output.write_text(json.dumps({"unit": "us", "profiles": profiles}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
