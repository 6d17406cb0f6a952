"""Watches the timing process, and starts a new one if it is stuck."""

import json
import queue
import subprocess
import sys
import threading
import time

from peer_timing import processes
from peer_timing.report_rows import NO_TIME_LEFT, STUCK, add_timing, save

# The seconds within which the timing process must start, and the seconds beyond --seconds-per-method after which it
# counts as stuck.
START_SECONDS, GRACE_SECONDS = 90, 4


class Timing:
    """The timing process, as the watching process sees it."""

    def __init__(self, options, first_row):
        command = processes.own_command(options) + ["--time-from", str(first_row), "--budget", str(options.budget)]
        command += ["--seconds-per-method", str(options.seconds_per_method)]
        if options.sweep_tuning_ms is not None:
            command += ["--sweep-tuning-ms", str(options.sweep_tuning_ms)]
        # The process has its own process group, so that compilers which it has started end with it.
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.messages = queue.Queue()
        self.software = None  # once it is up
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith(('{"row"', '{"software"')):  # a peer may print, too
                self.messages.put(json.loads(line))
        self.messages.put(None)

    def end(self):
        processes.end_group(self.process)


def follow(timing, rows, seconds_per_method, deadline, take):
    """Calls `take` with the figures of every method. Returns the last message about a method, and why the process ended
    there: "" if it has timed the last row."""
    begun = None
    while time.monotonic() < deadline:
        patience = START_SECONDS if begun is None else seconds_per_method + GRACE_SECONDS
        try:
            message = timing.messages.get(timeout=max(0.1, min(patience, deadline - time.monotonic())))
        except queue.Empty:
            return begun, NO_TIME_LEFT if time.monotonic() >= deadline else STUCK
        if message is None:
            return begun, "" if timing.process.wait() == 0 else "the process ended"
        if "software" in message:
            timing.software = message["software"]
            continue
        begun = message
        if "timing" in message:
            take(rows[message["row"]], message)
    return begun, NO_TIME_LEFT


def time_all(report, rows, options):
    """Times the peers on `rows`, which have no peers' figures yet. Returns False if the timing process cannot start."""
    deadline = time.monotonic() + options.seconds
    print(f"{'shape':<40} {'peer':<36} {'eager ms':>9} {'graph ms':>9}", flush=True)

    def take(row, message):
        figures = message["timing"]
        add_timing(row, message["peer"], {"method": message["method"], **figures})
        label = f"{row['shape']} {row['storage']} d {row['d']}"
        times = (f"{t:9.4f}" if t is not None else f"{'-':>9}" for t in (figures["eager_ms"], figures["graph_ms"]))
        outcome = figures.get("error", message["method"])
        print(f"{label:<40} {message['peer']:<36} {' '.join(times)}  {outcome}", flush=True)
        save(report, options.json)

    first, reason, came_up, failed_starts = 0, "", False, 0
    while first < len(rows) and reason != NO_TIME_LEFT:
        timing = Timing(options, first)
        try:
            begun, reason = follow(timing, rows, options.seconds_per_method, deadline, take)
        finally:
            timing.end()
        if timing.software is not None:
            report["software"] = timing.software
        if reason == "":
            break
        if begun is None:
            failed_starts += 1
            print(f"no peer is timed: {reason} before row {first}", file=sys.stderr, flush=True)
            if reason != NO_TIME_LEFT and (not came_up or failed_starts > 1):
                return False
            continue
        came_up, failed_starts = True, 0
        first = begun["row"]
        if "peer" in begun and "timing" not in begun:
            figures = begun.get("so_far", {"eager_ms": None, "graph_ms": None})
            take(rows[first], {**begun, "timing": {**figures, "error": reason}})
        elif "peer" not in begun and reason != NO_TIME_LEFT:
            print(f"{rows[first]['shape']}: no inputs: {reason}", flush=True)
            if not rows[first]["peer_methods"]:
                rows[first]["peer_error"] = f"no inputs: {reason}"
                save(report, options.json)
            first += 1
    left_out = sum(not row["peer_methods"] and "peer_error" not in row for row in rows)
    if left_out:
        print(f"{left_out} rows left out for want of time", flush=True)
    return True
