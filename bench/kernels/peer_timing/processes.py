"""Shared by the processes that compare_peers.py starts."""

import contextlib
import os
import pathlib
import signal
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "compare_peers.py"


def own_command(options):
    command = [sys.executable, str(PROGRAM), "--json", options.json, "--inputs", options.inputs]
    command += ["--sweep-rows", str(options.sweep_rows)]
    return command + (["--peers", options.peers] if options.peers else [])


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
