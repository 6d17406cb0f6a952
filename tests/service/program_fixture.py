"""Runs the program maxsimd for tests in Python."""

import json
import pathlib
import subprocess
import time

READY_LIMIT_S = 120


class Maxsimd:
    """A maxsimd on free ports with one CPU thread. Creates `folder`, where the log is written. `collections` is either
    a dictionary of folders by name, or the folder of the collection "demo". `flags` are flags of maxsimd without
    dashes."""

    def __init__(self, programs, folder, collections, **flags):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        ports = self.folder / "ports.json"
        wanted = {
            "grpc.address": "127.0.0.1:0",
            "http.address": "127.0.0.1:0",
            "backend": "cpu",
            "backend.cpu_threads": 1,
            "server.shutdown_delay": "0s",
            "server.port_file": ports,
            **{name.replace("__", "."): value for name, value in flags.items()},
        }
        command = [pathlib.Path(programs) / "maxsimd"]
        for name, value in wanted.items():
            command += [f"--{name}", value]
        for name, path in (collections if isinstance(collections, dict) else {"demo": collections}).items():
            command += ["--collection", f"{name}={path}"]
        self._log = open(self.folder / "maxsimd.log", "w+b")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self._log, stderr=self._log)
        limit = time.monotonic() + READY_LIMIT_S
        while not ports.exists() or not ports.read_text():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise RuntimeError("maxsimd did not become ready:\n" + self.log())
            time.sleep(0.02)
        numbers = json.loads(ports.read_text())
        self.port = numbers["http_port"]
        self.grpc_port = numbers["grpc_port"]
        self.address = f"127.0.0.1:{self.grpc_port}"
        self.url = f"http://127.0.0.1:{self.port}"

    def log(self):
        return (self.folder / "maxsimd.log").read_text(errors="replace")

    def stop(self):
        """Stops the server by SIGTERM. Returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=60)
        self._log.close()
        return self.process.returncode
