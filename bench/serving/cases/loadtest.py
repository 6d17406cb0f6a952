"""Runs maxsim-loadtest."""

import json
import pathlib
import subprocess


def loadtest_command(binaries, report, flags):
    """Returns the command of maxsim-loadtest that writes `report`. In the names of `flags`, _ stands for -. The value
    True stands for a flag without a value, and None leaves the flag out."""
    command = [pathlib.Path(binaries) / "maxsim-loadtest"]
    for flag, value in {**flags, "json": report}.items():
        if value is not None:
            command += [f"--{flag.replace('_', '-')}", *([] if value is True else [value])]
    return [str(part) for part in command]


def loadtest(binaries, folder, target, collection, candidates, seconds, num_ids=None, exits=(0,), prefix=(), **flags):
    """Runs the load tester for `seconds` and returns its report, which is written into `folder`.

    Lists of candidates are drawn from the ids 0 to `num_ids` - 1. `prefix` comes before the command, for example
    taskset. Raises RuntimeError if the exit code is not in `exits`: the load tester ends with 1 after errors, and
    with 3 if it could not send requests fast enough. With quiet=None it shows its progress.
    """
    report = pathlib.Path(folder) / "loadtest.json"
    report.unlink(missing_ok=True)
    flags = {
        "quiet": True, "target": target, "collection": collection, "candidates": candidates,
        "int_ids": None if candidates == "all" else num_ids, "query_tokens": 32, "top_k": 100, "concurrency": 1,
        "warmup": "1s", "duration": f"{seconds}s", **flags,
    }  # fmt: skip
    done = subprocess.run(
        [*prefix, *loadtest_command(binaries, report, flags)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if flags["quiet"] else None, text=True, timeout=seconds + 600,
    )  # fmt: skip
    if done.returncode not in exits or not report.exists():
        output = (done.stdout + (done.stderr or "")).strip()[-500:]
        raise RuntimeError(f"maxsim-loadtest ended with {done.returncode} at {target}: {output}")
    return json.loads(report.read_text())
