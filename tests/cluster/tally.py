"""Counts and durations of calls. A call is (begin, end, status code, number of items). Times are in seconds."""

import collections
import itertools
import math


def percentile(values, share):
    """Returns the smallest value that is not exceeded by the fraction `share` of the values. Returns 0 if there are
    none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def longest_pause(moments, begin, end):
    """Returns the longest time between `begin` and `end` without one of the moments."""
    ordered = [begin, *sorted(one for one in moments if begin < one < end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(ordered))


def during(calls, windows):
    """Returns the calls that were under way in one of the windows (begin, end)."""
    return [call for call in calls if any(call[0] < until and call[1] > since for since, until in windows)]


def summary(calls, begin, end):
    """Returns a JSON object with counts and durations of the calls. Failed calls are counted by status code."""
    times = [call_end - call_begin for call_begin, call_end, code, _ in calls if code == 0]
    failed = collections.Counter(str(code) for _, _, code, _ in calls if code != 0)
    return {
        "items": sum(items for _, _, code, items in calls if code == 0),
        "calls": len(calls),
        "failed": dict(sorted(failed.items())),
        "p50_ms": round(1e3 * percentile(times, 0.5), 1),
        "p99_ms": round(1e3 * percentile(times, 0.99), 1),
        "longest_ms": round(1e3 * max(times, default=0), 1),
        "longest_pause_s": round(longest_pause([one for _, one, code, _ in calls if code == 0], begin, end), 2),
    }


def line(name, found):
    """Returns a summary as text."""
    return (
        f"{found['items']} {name} (p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms, longest "
        f"{found['longest_ms']} ms, longest pause {found['longest_pause_s']} s, failed calls by code {found['failed']})"
    )
