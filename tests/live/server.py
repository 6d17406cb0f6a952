"""Starts maxsimd with live collections, stops or kills it, and calls it."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import grpc
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from python_package import use_package  # noqa: E402

use_package()
from maxsim.v1 import admin_pb2, admin_pb2_grpc, documents_pb2  # noqa: E402
from maxsim.v1 import documents_pb2_grpc, rerank_pb2, rerank_pb2_grpc  # noqa: E402

READY_LIMIT_S = 120
CALL_LIMIT_S = 120
REPORT = re.compile(r"^[^\n]*(?:WARNING|ERROR): \w+Sanitizer.*?^(?:=+|SUMMARY[^\n]*)$", re.DOTALL | re.M)

# The smallest values that these keys allow: a small collection is compacted after a few writes or after 200 ms.
COMPACTS_OFTEN = {
    "live.segment_bytes": "1MiB",
    "live.compact_at_bytes": "1MiB",
    "live.compact_at_tombstone_share": 0.02,
    "live.compact_after": "200ms",
}
NEVER_COMPACTS = {"live.compact": "false", "live.segment_bytes": "1MiB"}

# With MAXSIM_TEST_BACKEND=cuda, all tests of this folder run on the GPUs of the machine.
FLAGS = {
    "grpc.address": "127.0.0.1:0",
    "http.address": "127.0.0.1:0",
    "backend": os.environ.get("MAXSIM_TEST_BACKEND", "cpu"),
    "backend.cpu_threads": 1,
    "server.shutdown_delay": "0s",
    "server.shutdown_grace": "10s",
}


def connect(target, *options):
    """Returns a new channel to HOST:PORT with its own connection. `options` are further options of gRPC."""
    size = 256 << 20
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        *options,
    ]
    return grpc.insecure_channel(target, options=options)


class Server:
    """A maxsimd on free ports. It may load collections from `folder`, and writes its log there. If it still runs at the
    end of the with-statement, it is killed by SIGKILL."""

    def __init__(self, programs, folder, flags=None, environment=None):
        self.programs, self.folder = pathlib.Path(programs).resolve(), pathlib.Path(folder)
        self.flags = {**FLAGS, "store.allowed_roots": self.folder, **(flags or {})}
        self.environment = environment or {}
        self.log_path = self.folder / "maxsimd.log"
        self.process = None
        self.host, self.prefix = "127.0.0.1", []  # the address to call, and a command that runs maxsimd
        self._channels = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self, collections=None):
        """Starts maxsimd with `collections` (folder by name), and waits until it is ready."""
        ports = self.folder / f"ports-{time.monotonic_ns()}.json"
        command = [*self.prefix, str(self.programs / "maxsimd"), "--server.port_file", str(ports)]
        for name, value in self.flags.items():
            command += [f"--{name}", str(value)]
        for name, path in (collections or {}).items():
            command += ["--collection", f"{name}={path}"]
        begin = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )
        while not (ports.exists() and ports.read_text()):
            if self.process.poll() is not None or time.monotonic() > begin + READY_LIMIT_S:
                self.kill()
                raise RuntimeError(f"maxsimd did not become ready:\n{self.log_end()}")
            time.sleep(0.005)
        written = json.loads(ports.read_text())
        ports.unlink(missing_ok=True)
        self.grpc_port, self.http_port = written["grpc_port"], written["http_port"]
        self.ready_s = time.monotonic() - begin
        self._connect()

    def _connect(self):
        channel = self.channel()
        self.reranker = rerank_pb2_grpc.RerankerStub(channel)
        self.documents = documents_pb2_grpc.DocumentsStub(channel)
        self.admin = admin_pb2_grpc.AdminStub(channel)

    def channel(self):
        """Returns a new channel with its own connection. kill() and stop() close it."""
        channel = connect(f"{self.host}:{self.grpc_port}")
        self._channels.append(channel)
        return channel

    def _disconnect(self):
        for channel in self._channels:
            channel.close()
        self._channels = []

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """Kills maxsimd by SIGKILL, if it runs."""
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        self._disconnect()

    def stop(self, timeout_s=60):
        """Stops maxsimd by SIGTERM. Raises an error if maxsimd does not exit with 0 in time, or if a sanitizer reported
        an error."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"maxsimd did not end in {timeout_s} s after SIGTERM:\n{self.log_end()}") from None
        self._disconnect()
        if code != 0 or self.reports():
            raise RuntimeError(f"maxsimd ended with {code} after SIGTERM:\n{self.log_end()}")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def reports(self):
        """Returns the sanitizers' reports in the log."""
        return REPORT.findall(self.log())

    def log_end(self, characters=4000):
        log = self.log()
        return "\n".join([*(found[:characters] for found in REPORT.findall(log)), log[-characters:]])

    # Calls. Only a server that hangs exceeds their time limit.

    def load(self, name, path, live=False):
        request = admin_pb2.LoadCollectionRequest(name=name, path=str(path), live=live)
        return self.admin.LoadCollection(request, timeout=CALL_LIMIT_S).collection

    def unload(self, name):
        self.admin.UnloadCollection(admin_pb2.UnloadCollectionRequest(name=name), timeout=CALL_LIMIT_S)

    def reload(self, name):
        request = admin_pb2.ReloadCollectionRequest(name=name)
        return self.admin.ReloadCollection(request, timeout=CALL_LIMIT_S)

    def compact(self, name):
        request = admin_pb2.CompactCollectionRequest(name=name)
        return self.admin.CompactCollection(request, timeout=CALL_LIMIT_S)

    def snapshot(self, name, path):
        request = admin_pb2.SnapshotCollectionRequest(name=name, path=str(path))
        return self.admin.SnapshotCollection(request, timeout=CALL_LIMIT_S).sequence

    def info(self, name):
        """Returns the CollectionInfo of a collection, or None."""
        for one in self.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=CALL_LIMIT_S).collections:
            if one.name == name:
                return one
        return None

    def rerank(self, request, timeout_s=CALL_LIMIT_S):
        return self.reranker.Rerank(request, timeout=timeout_s)

    def upsert(self, request, timeout_s=CALL_LIMIT_S):
        return self.documents.Upsert(request, timeout=timeout_s)

    def delete(self, request, timeout_s=CALL_LIMIT_S):
        return self.documents.Delete(request, timeout=timeout_s)

    def get(self, request, timeout_s=CALL_LIMIT_S):
        return self.documents.Get(request, timeout=timeout_s)


@contextlib.contextmanager
def refused(*codes):
    """Expects the call in the with-statement to fail with one of the status codes. Yields a list, to which the error is
    appended."""
    found = []
    try:
        yield found
    except grpc.RpcError as error:
        if error.code() not in codes:
            raise AssertionError(f"{error.code()} instead of {codes}: {error.details()}") from error
        found.append(error)
        return
    raise AssertionError(f"the call succeeded instead of failing with {codes}")


# Messages.


def matrix(rows, dtype="f32"):
    kinds = {
        "f32": (rerank_pb2.DATA_TYPE_F32, np.float32),
        "f16": (rerank_pb2.DATA_TYPE_F16, np.float16),
    }
    kind, numpy_type = kinds[dtype]
    data = np.ascontiguousarray(rows, numpy_type)
    return rerank_pb2.TokenMatrix(dtype=kind, num_tokens=data.shape[0], dim=data.shape[1], data=data.tobytes())


def document(id, rows, payload="", version=0, dtype="f32"):
    message = documents_pb2.Document(tokens=matrix(rows, dtype), payload=payload, version=version)
    if isinstance(id, int):
        message.int_id = id
    else:
        message.string_id = id
    return message


def add_ids(field_owner, ids):
    """Writes ids into string_ids or int_ids of a request, depending on the type of the first id."""
    ids = list(ids)
    if ids and isinstance(ids[0], int):
        field_owner.int_ids.ids.extend(ids)
    else:
        field_owner.string_ids.ids.extend(ids)


def get_request(name, ids, return_tokens=False, min_sequence=0):
    request = documents_pb2.GetRequest(collection=name, return_tokens=return_tokens, min_sequence=min_sequence)
    add_ids(request, ids)
    return request


def delete_request(name, ids, version=0):
    request = documents_pb2.DeleteRequest(collection=name, version=version)
    add_ids(request, ids)
    return request


def upsert_request(name, documents):
    return documents_pb2.UpsertRequest(collection=name, documents=documents)


def rerank_request(name, rows, ids=None, top_k=10, weights=None, **fields):
    """Returns a request with one query. If `ids` is None, the server ranks the whole collection."""
    request = rerank_pb2.RerankRequest(collection=name, top_k=top_k, **fields)
    query = request.queries.add(tokens=matrix(rows))
    query.weights.extend([] if weights is None else weights)
    if ids is None:
        request.candidates.whole_collection.SetInParent()
    else:
        add_ids(request.candidates, ids)
    return request


def proven(documents):
    """Returns options for a search by codes that scores `documents` documents exactly, and more until the answer is
    proven."""
    return rerank_pb2.RefinementOptions(documents=documents, require_proof=True, budget=1 << 16)


class Ranking:
    """The fields of a QueryResult as lists. The ids may have either type."""

    def __init__(self, result):
        self.ids = list(result.int_ids.ids if result.WhichOneof("ids") == "int_ids" else result.string_ids.ids)
        self.scores, self.positions = list(result.scores), list(result.positions)
        self.payloads, self.alignments = list(result.payloads), list(result.alignments)
        self.missing = missing_ids(result)
        self.refinement = result.refinement if result.HasField("refinement") else None

    def essence(self):
        """Returns ids and scores, which must be the same in a newly built collection."""
        return self.ids, self.scores


def missing_ids(message):
    kind = message.WhichOneof("missing")
    return list(getattr(message, kind).ids) if kind else []


def stored_id(stored):
    return stored.int_id if stored.WhichOneof("id") == "int_id" else stored.string_id
