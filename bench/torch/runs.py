"""Shared by the programs of this folder: their arguments, figures of calls on a GPU, and their JSON files.
Importing it makes maxsim_torch of this tree importable."""

import argparse
import datetime
import gc
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402


def event_ms(work):
    """Returns the device's time from before a call of `work` until its end, for which it waits."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def step_figures(score, tensors, loss, forward_ms, step_ms):
    """Returns the time of score(*tensors) without gradients, the time of a step of forward and backward, and the
    memory that the step takes beyond its inputs; or says that memory was too little. `loss` makes one value of what
    `score` returns. `forward_ms` and `step_ms` time a call."""

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
    """Ends the program where the library computes nothing on a device."""
    if not maxsim_torch.device_available(device):
        raise SystemExit(f"the library computes nothing on {device} here")


def machine(device):
    """Returns what a JSON file says of a device, "cuda" or "cpu"."""
    if device == "cuda":
        return {"device": torch.cuda.get_device_name(), "driver": driver()}
    return {"device": f"CPU, {torch.get_num_threads()} threads"}


def command_line():
    """Returns the program and its arguments, but for where results go, without folders."""
    words, given = [f"bench/torch/{pathlib.Path(sys.argv[0]).name}"], iter(sys.argv[1:])
    for word in given:
        if word in ("--out", "--commit"):
            next(given, None)
        elif not word.startswith(("--out=", "--commit=")):
            words.append(pathlib.Path(word).name)
    return " ".join(words)


def describe_run(commit, device="cuda"):
    """Returns the head of a JSON file: the machine, the versions, when, and how to run it again."""
    return {
        **machine(device),
        "torch": torch.__version__,
        "commit": f"maxsim {maxsim_torch.library_version()} {commit}".strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command_line(),
    }


def parser_of(description, needs_out=True):
    """Returns a parser of the arguments --out and --commit."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=needs_out, help="the JSON file")
    parser.add_argument("--commit", default="", help="which commit the library was built of")
    return parser


class Report:
    """Prints rows as they come, and writes the JSON file anew after each, which keeps them if a later one fails."""

    def __init__(self, options, device="cuda", **more):
        self._path = options.out
        self._content = {**describe_run(options.commit, device), **more, "rows": []}

    def add(self, row):
        self._content["rows"].append(row)
        print(json.dumps(row), flush=True)
        self._path.write_text(json.dumps(self._content, indent=1) + "\n")
