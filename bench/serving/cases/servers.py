"""Starts and stops the measured servers (maxsimd, the baseline, maxsim_bench_wire), and reads their metrics.

Importing this module also makes the Python package maxsim of this repository importable.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client/python"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def has_gpu():
    return shutil.which("nvidia-smi") is not None and gpu_query("name") != []


def gpu_query(fields):
    """Returns nvidia-smi's rows, each a list of texts, for the GPUs that programs may use. Returns none without a
    GPU."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible == "":
        return []
    if visible is not None:
        command.append(f"--id={visible}")
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if result.returncode != 0:
        return []
    return [[cell.strip() for cell in line.split(",")] for line in result.stdout.splitlines() if line.strip()]


def gpu_bytes():
    """Returns the bytes in use on all GPUs that programs may use, or None without a GPU."""
    used = [int(row[0]) for row in gpu_query("memory.used") if row[0].isdigit()]
    return sum(used) << 20 if used else None


class Watcher:
    """Runs the subclass's `_watch` in a thread during a `with` block. Sets `_stop` at the end of the block, to end
    `_watch`."""

    def __init__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class DeviceMemory(Watcher):
    """Finds the least and the most device memory in use during a block, in MiB, over all GPUs that programs may use."""

    def __init__(self, seconds=0.5):
        super().__init__()
        self.least, self.most = None, None
        self._seconds = seconds

    def _watch(self):
        while True:
            used = gpu_bytes()
            if used is not None:
                total = used >> 20
                self.least = total if self.least is None else min(self.least, total)
                self.most = total if self.most is None else max(self.most, total)
            if self._stop.wait(self._seconds):
                return


def thread_seconds(pid):
    """Returns the processor seconds that a process's threads have taken so far, by name. Threads of one name are
    added up."""
    seconds = collections.Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        user, system = (int(field) for field in fields.split()[11:13])
        seconds[name] += (user + system) / ticks
    return seconds


class ThreadTimes(Watcher):
    """Measures how many processors the threads of some processes take, by name, during a part of a `with` block.

    Threads that begin or end during this part are not counted in full. Threads that take less than a twentieth of a
    processor are left out. `processors` stays empty if the block ends before the part does.
    """

    def __init__(self, pids, begin, seconds):
        """`pids` maps names to process ids. The part begins `begin` seconds after the block and lasts `seconds`."""
        super().__init__()
        self.processors = {}
        self._pids, self._begin, self._seconds = pids, begin, seconds

    def _watch(self):
        if self._seconds <= 0 or self._stop.wait(self._begin):
            return
        before, begin = {name: thread_seconds(pid) for name, pid in self._pids.items()}, time.monotonic()
        if self._stop.wait(self._seconds):
            return
        for process, pid in self._pids.items():
            seconds = thread_seconds(pid)
            seconds.subtract(before[process])
            wall = time.monotonic() - begin
            shares = {name: round(value / wall, 2) for name, value in seconds.most_common() if value / wall >= 0.05}
            self.processors[process] = shares


class Process:
    """A server process, whose log goes to a file. It ends with the `with` block."""

    def __init__(self, command, log, environment=None):
        self.command = [str(part) for part in command]
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def wait_until(self, condition, seconds, what):
        """Waits until condition() is true. Ends the process if that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise RuntimeError(f"{what}: it ended with {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{what}: not ready after {seconds:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def last_words(self):
        return self.log.read_text(errors="replace").strip()[-400:]


def socket_path(owner):
    """Returns the path of a Unix socket in a temporary folder that is removed with `owner`. Other paths may be too
    long for a socket."""
    owner.socket_folder = tempfile.TemporaryDirectory(prefix="maxsim-", dir="/tmp")
    return str(pathlib.Path(owner.socket_folder.name) / "grpc.sock")


class Maxsimd(Process):
    """maxsimd with some collections. `keys` are configuration keys ("batching.max_queue_time": "5ms").

    `unix_target` is None unless `unix_socket` is set.
    """

    def __init__(self, binaries, out, name, collections, residency, keys=None, seconds=180, unix_socket=False):
        out = pathlib.Path(out)
        self.port_file = out / f"{name}.port.json"
        self.port_file.unlink(missing_ok=True)
        config = {
            "grpc": {"address": "127.0.0.1:0"},
            "http": {"address": "127.0.0.1:0"},
            "server": {"port_file": str(self.port_file), "shutdown_delay": "0s"},
            "collections": [
                {"name": name, "path": str(path), "residency": residency} for name, path in collections.items()
            ],
        }
        self.unix_target = None
        if unix_socket:
            config["grpc"]["unix_socket"] = socket_path(self)
            self.unix_target = f"unix:{config['grpc']['unix_socket']}"
        for key, value in (keys or {}).items():
            section, _, rest = key.partition(".")
            config.setdefault(section, {})[rest] = value
        self.config_file = out / f"{name}.config.yaml"
        self.config_file.write_text(json.dumps(config, indent=1))  # JSON is YAML
        clean = {key: value for key, value in os.environ.items() if not key.startswith("MAXSIM_")}
        begin = time.monotonic()
        super().__init__([pathlib.Path(binaries) / "maxsimd", "--config", self.config_file], out / f"{name}.log", clean)
        self.wait_until(self.port_file.exists, seconds, "maxsimd")
        self.start_seconds = time.monotonic() - begin
        ports = json.loads(self.port_file.read_text())
        self.target = f"127.0.0.1:{ports['grpc_port']}"
        self.metrics_url = f"http://127.0.0.1:{ports['http_port']}/metrics"

    def metrics(self):
        """Returns the values of all metrics, by name with labels."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            return parse_metrics(answer.read().decode())


def parse_metrics(text):
    values = {}
    for line in text.splitlines():
        match = re.match(r"([a-z_]+(?:\{[^}]*\})?) (\S+)$", line)
        if match:
            values[match[1]] = float(match[2])
    return values


class Baseline(Process):
    """bench/serving/baseline/server.py. `python` has torch, grpc and flash-maxsim."""

    def __init__(self, python, script, out, name, collections, storage, keys=(), seconds=240):
        port = free_port()
        ready = pathlib.Path(out) / f"{name}.ready"
        ready.unlink(missing_ok=True)
        command = [python or sys.executable, script, "--port", port, "--storage", storage, "--ready-file", ready]
        for collection, path in collections.items():
            command += ["--collection", f"{collection}={path}"]
        super().__init__([*command, *keys], pathlib.Path(out) / f"{name}.log")
        self.wait_until(ready.exists, seconds, "the baseline")
        self.target = f"127.0.0.1:{port}"


class Wire(Process):
    """maxsim_bench_wire: repeats the answers that the server at `target` has given to the same requests."""

    def __init__(self, binaries, out, name, target, seconds=20):
        port_file = pathlib.Path(out) / f"{name}.port.json"
        port_file.unlink(missing_ok=True)
        unix_socket = socket_path(self)
        command = [pathlib.Path(binaries) / "maxsim_bench_wire", "--target", target, "--unix-socket", unix_socket,
                   "--port-file", port_file]  # fmt: skip
        super().__init__(command, pathlib.Path(out) / f"{name}.log")
        self.wait_until(port_file.exists, seconds, "maxsim_bench_wire")
        self.target = f"127.0.0.1:{json.loads(port_file.read_text())['grpc_port']}"
        self.unix_target = f"unix:{unix_socket}"


def server_keys(binaries):
    """Returns the configuration keys that this maxsimd knows."""
    result = subprocess.run([str(pathlib.Path(binaries) / "maxsimd"), "--help"], capture_output=True, text=True)
    return set(re.findall(r"^  --([a-z_]+\.[a-z_]+) ", result.stdout, re.MULTILINE))


def server_commit(binaries):
    result = subprocess.run([str(pathlib.Path(binaries) / "maxsimd"), "--version"], capture_output=True, text=True)
    return (result.stdout or result.stderr).strip()


def provenance(binaries):
    """Returns the members of a result that say where it comes from: command, commit, date and device."""
    return {
        "command": " ".join(sys.argv),
        "commit": server_commit(binaries),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": gpu_query("name,driver_version") or f"no GPU, {os.cpu_count()} processors",
    }


def benchmark_parser(description):
    """Returns an argument parser that has --bin and --out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder with maxsimd and its tools")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file to write")
    return parser


def run_shard(binaries, *arguments):
    """Runs maxsim-shard to its end."""
    command = [str(part) for part in (pathlib.Path(binaries) / "maxsim-shard", *arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:])}: {(result.stderr or result.stdout).strip()[-400:]}")


def build_collection(binaries, vectors, folder, name, storage, *further, ids="ids.txt", planes=0):
    """Builds a collection from the files in `vectors`: tokens.npy, lengths.npy, a file `ids` of integer ids, and
    scales.npy if tokens are INT8. With `planes`, also makes codes of that many planes. `further` are more arguments
    of maxsim-shard build."""
    scales = vectors / "scales.npy"
    run_shard(
        binaries, "build", "--tokens", vectors / "tokens.npy", *(["--scales", scales] if scales.exists() else []),
        "--lengths", vectors / "lengths.npy", "--ids", vectors / ids, "--id-type", "int64", "--storage", storage,
        "--output", folder, "--name", name, "--quiet", *(["--codes", planes] if planes else []), *further,
    )  # fmt: skip
