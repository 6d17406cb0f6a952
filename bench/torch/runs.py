"""Code that the programs of this folder share: their arguments, figures of calls on a GPU, and their JSON files.
Importing it makes maxsim_torch of this repository importable."""

import argparse
import datetime
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402


def event_ms(work):
    """Returns the device's time for a call of `work`, in milliseconds. Waits for its end."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def step_figures(score, tensors, loss, forward_ms, step_ms):
    """Returns the time of score(*tensors) without gradients, the time of a step of forward and backward, and the
    memory that the step takes in addition to its inputs, or says that it ran out of memory. `loss` turns the result
    of `score` into a scalar. `forward_ms` and `step_ms` time a call."""

    def forget_gradients():
        for tensor in tensors:
            tensor.grad = None

    def step():
        forget_gradients()
        loss(score(*tensors)).backward()

    try:
        with torch.no_grad():
            figures = {"forward_ms": forward_ms(lambda: score(*tensors))}
        forget_gradients()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        figures["step_ms"] = step_ms(step)
        return {**figures, "peak_mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    finally:
        forget_gradients()
        gc.collect()  # the frames of an error hold tensors
        torch.cuda.empty_cache()


def driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]


def require(device):
    """Ends the program if the library cannot compute on the device."""
    if not maxsim_torch.device_available(device):
        raise SystemExit(f"the library computes nothing on {device} here")


def machine(device):
    """Returns the members of a JSON file that describe the device, "cuda" or "cpu"."""
    if device == "cuda":
        return {"device": torch.cuda.get_device_name(), "driver": driver()}
    return {"device": f"CPU, {torch.get_num_threads()} threads"}


def command_line():
    """Returns the command line without folders, and without --out and --commit."""
    words, given = [f"bench/torch/{pathlib.Path(sys.argv[0]).name}"], iter(sys.argv[1:])
    for word in given:
        if word in ("--out", "--commit"):
            next(given, None)
        elif not word.startswith(("--out=", "--commit=")):
            words.append(pathlib.Path(word).name)
    return " ".join(words)


def describe_run(commit, device="cuda"):
    """Returns the first members of a JSON file: the machine, the versions, the date, and the command that repeats the
    run."""
    return {
        **machine(device),
        "torch": torch.__version__,
        "commit": f"maxsim {maxsim_torch.library_version()} {commit}".strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command_line(),
    }


def parser_of(description, needs_out=True):
    """Returns an argument parser that has --out and --commit."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=needs_out, help="the JSON file")
    parser.add_argument("--commit", default="", help="which commit the library was built of")
    return parser


def add_before(parser):
    """Adds the argument --before, for rows_before."""
    parser.add_argument("--before", type=pathlib.Path, help="the libmaxsim.so of another build, to compare with")


def rows_before(options, key_of):
    """Runs this program again with the library that --before names, and returns the rows that it writes, as a
    dictionary with the keys key_of(row). Returns an empty dictionary without --before."""
    if options.before is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "before.json")
        command = [sys.executable, sys.argv[0], "--out", str(out)]
        environment = {**os.environ, "MAXSIM_LIBRARY": str(options.before.resolve())}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    return {key_of(row): row for row in rows}


class Report:
    """Prints each row when it is added, and then writes the whole JSON file again, so that rows are kept if a later
    one fails."""

    def __init__(self, options, device="cuda", **more):
        self._path = options.out
        self._content = {**describe_run(options.commit, device), **more, "rows": []}

    def add(self, row):
        self._content["rows"].append(row)
        print(json.dumps(row), flush=True)
        self._path.write_text(json.dumps(self._content, indent=1) + "\n")
