"""Shared by the programs of this folder: the time of a call on a GPU, and what their JSON files say about the run.
Importing it makes maxsim_torch of this tree importable."""

import datetime
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
