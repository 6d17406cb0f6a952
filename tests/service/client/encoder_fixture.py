"""Shared by the tests of maxsim-encoder: a model that tests control, a server of this model in the same process, and
HTTP calls."""

import base64
import http.client
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from maxsim_encoder.batcher import BatchOptions  # noqa: E402
from maxsim_encoder.connections import ServerOptions  # noqa: E402
from maxsim_encoder.dialects import Limits  # noqa: E402
from maxsim_encoder.encoder import Encoded, EncoderInfo, length_limit  # noqa: E402
from maxsim_encoder.server import Server  # noqa: E402
from maxsim_encoder.service import Service  # noqa: E402

READY_LIMIT_S = 60


class FakeEncoder:
    """A model that makes one vector per character: row i is [code of character i, number of characters, 1 for a
    query]. Every call of the model waits for `gate`. If a text contains "explode", the model raises an error; for
    "nan" it returns NaN, and for "narrow" too few columns."""

    def __init__(self, length=64):
        self.info = EncoderInfo("fake", "0123456789abcdef", 3, "Q: ", "D: ", length, length, False)
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.calls = []

    def encode(self, texts, kind, max_tokens):
        self.calls.append((list(texts), kind, max_tokens))
        self.entered.release()
        self.gate.wait()
        if any("explode" in text for text in texts):
            raise RuntimeError("a secret path")
        limit = length_limit(self.info, kind, max_tokens)
        return [Encoded(self._vectors(text, kind, max_tokens), list(text), len(text) > limit) for text in texts]

    def _vectors(self, text, kind, max_tokens):
        rows = [[ord(c), len(text), float(kind == "query")] for c in text[: max_tokens or self.info.query_length]]
        vectors = np.array(rows, dtype=np.float32)
        if "nan" in text:
            vectors[-1, -1] = np.nan
        return vectors[:, :2] if "narrow" in text else vectors

    def count_tokens(self, texts, kind):
        return [len(text) for text in texts]


class LocalServer:
    """A maxsim-encoder on a free port, in this process. If `encoder` is None, the server stays in the state
    "loading"."""

    def __init__(self, encoder, batch=None, limits=None, **options):
        self.service = Service(batch or BatchOptions(window_s=0.0), limits or Limits())
        self.server = Server(ServerOptions(port=0, **options), self.service)
        if encoder is not None:
            self.service.set_encoder(encoder)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def stop(self):
        finished = self.server.stop(10)
        self.service.stop()
        self.thread.join()
        return finished


class Program:
    """maxsim-encoder in a separate process."""

    def __init__(self, *flags):
        command = [sys.executable, "-m", "maxsim_encoder", "--port", "0", *map(str, flags)]
        self.process = subprocess.Popen(
            command, cwd=ROOT / "client" / "python", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening https?://127\.0\.0\.1:(\d+)\n", line)
        if not found:
            raise RuntimeError(f"no port: {line!r} {self.process.communicate()[1]}")
        self.port = int(found[1])

    def wait_until_ready(self):
        limit = time.monotonic() + READY_LIMIT_S
        while call(self.port, "GET", "/health")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"not ready: {self.process.communicate()[1]}")
            time.sleep(0.05)
        return self

    def stop(self):
        """Stops the program by SIGTERM. Returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode


def call(port, method, path, body=None, headers=None, connection=None):
    """Makes one request. Returns status, headers and body of the answer. `body` is bytes, or an object to send as
    JSON."""
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    own.request(method, path, body, headers or {})
    response = own.getresponse()
    data = response.read()
    if connection is None:
        own.close()
    return response.status, dict(response.getheaders()), data


def error_of(port, path, body, headers=None, method="POST"):
    """Makes a request that fails. Returns the status and the members of the error."""
    status, _, data = call(port, method, path, body, headers)
    error = json.loads(data)["error"]
    assert set(error) == {"message", "type", "code"}, error
    return status, error["code"], error["message"]


def metric(port, line):
    """Returns the value of a metric. `line` is its name with labels, as /metrics prints it."""
    text = call(port, "GET", "/metrics")[2].decode()
    found = re.search("^" + re.escape(line) + r" (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def read_safetensors(data):
    """Returns the tensors and the metadata of a safetensors file. Parses it without the safetensors library, so that
    the test does not depend on the library that wrote it."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        dtype = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}[entry["dtype"]]
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
    return tensors, metadata


def split_rows(tensors):
    """Returns the matrices in a binary answer, one per text."""
    return np.split(tensors["tokens"], np.cumsum(tensors["lengths"])[:-1])


def from_base64(text, dim):
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(-1, dim)
