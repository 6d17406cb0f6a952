"""Fills the cache of Triton: several processes call every method on every row once, each with a part of the tuning
choices."""

import contextlib
import json
import subprocess
import time

from peer_timing import processes
from peer_timing.row_inputs import Inputs
from peer_timing.peers import Peers
from peer_timing.report_rows import parse_shape, tell_rows


def compile_part(options):
    """Runs in one of the processes that compile: calls every method on every row once, with a part of the tuning
    choices."""
    import torch

    part, parts = map(int, options.compile_part.split("/"))
    peers = Peers(torch)
    peers.keep_part_of_tuning(part, parts)
    with open(options.json, encoding="utf-8") as file:
        goals, sweep = tell_rows(json.load(file), options.sweep_rows)
    # Long queries come last: some kernels are unrolled over the query, and compiling one of their configurations can
    # take minutes.
    for row in goals + sorted(sweep, key=lambda row: parse_shape(row["shape"])["query_tokens"]):
        if row["storage"] == "-":
            continue
        with contextlib.suppress(Exception):
            inputs = Inputs(torch, row, options.inputs, fill=False)
            for _, _, prepare in peers.methods(inputs):
                # A configuration that does not fit the device fails here, as it does in tuning.
                with contextlib.suppress(Exception), torch.no_grad():
                    prepare()()
                    torch.cuda.synchronize()
        torch.cuda.empty_cache()


def compile_all(options):
    command = processes.own_command(options)
    count = options.compile_processes
    begin = time.monotonic()
    compilers = [
        subprocess.Popen(
            command + ["--compile-part", f"{part}/{count}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for part in range(count)
    ]
    unfinished = 0
    try:
        for process in compilers:
            try:
                process.wait(max(0.1, begin + options.compile_seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                unfinished += 1
    finally:
        for process in compilers:
            processes.end_group(process)
    print(f"compiling took {time.monotonic() - begin:.0f} s; {unfinished} of {count} processes unfinished", flush=True)
