"""Starts servers and encoders for a test, on free ports of the loopback interface."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Program:
    """A program that runs in a scratch folder. Its output goes to a file there."""

    def __init__(self, name, command, **options):
        self.scratch = tempfile.TemporaryDirectory(prefix=f"console-{name}-")
        self.log = pathlib.Path(self.scratch.name) / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command(self.scratch.name), stdout=log, stderr=log, **options)

    def wait_for(self, ready, seconds=60):
        end = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.process.args[0]} is not ready:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.scratch.cleanup()


class Server(Program):
    """maxsimd on the CPU with these flags."""

    def __init__(self, programs, flags):
        def command(scratch):
            self.ports = pathlib.Path(scratch) / "ports"
            return [programs / "maxsimd", "--backend", "cpu", "--backend.cpu_threads", "1", "--grpc.address",
                    "127.0.0.1:0", "--http.address", "127.0.0.1:0", "--server.port_file", self.ports,
                    "--server.shutdown_delay", "0s", *flags]

        super().__init__("server", command)
        self.wait_for(self.ports.exists)
        self.port = json.loads(self.ports.read_text())["http_port"]
        self.url = f"http://127.0.0.1:{self.port}/"

    def post(self, path, body):
        """Sends a POST. Returns the status of the answer."""
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


class Encoder(Program):
    """maxsim-encoder with its demo model."""

    def __init__(self, python):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "client" / "python"), "PYTHONUNBUFFERED": "1"}
        super().__init__("encoder", lambda scratch: [python, "-m", "maxsim_encoder", "--demo", "--port", "0"],
                         env=environment)
        self.wait_for(lambda: "listening http" in self.log.read_text())
        line = next(line for line in self.log.read_text().splitlines() if "listening http" in line)
        self.url = line[line.index("http") :].split()[0].rstrip("/")

        def is_healthy():
            try:
                with urllib.request.urlopen(f"{self.url}/health") as answer:
                    return answer.status == 200
            except (urllib.error.URLError, OSError):
                return False

        self.wait_for(is_healthy)


class Load:
    """Sends recorded questions to a server until stop(). Some requests are invalid, so that the server rejects them."""

    def __init__(self, server, questions, model):
        self.ended = threading.Event()
        bodies = [{"model": model, "query": question["query"], "documents": "*"} for question in questions]

        def ask():
            turn = 0
            while not self.ended.wait(0.02):
                turn += 1
                server.post("v1/rerank", {} if turn % 10 == 0 else bodies[turn % len(bodies)])

        self.thread = threading.Thread(target=ask)
        self.thread.start()

    def stop(self):
        self.ended.set()
        self.thread.join()
