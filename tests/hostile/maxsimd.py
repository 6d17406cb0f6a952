"""Runs the real maxsimd under limits, builds its collection, checks answers, and watches what the server uses of the
machine."""

import http.client
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import time

import grpc
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from python_package import use_package  # noqa: E402, F401

TOKEN = "token-of-the-hostile-tests"
DIM = 32
NUM_DOCUMENTS = 300
READY_LIMIT_S = 120
# No other process runs as this user. So a limit on the user's processes limits only the server's threads. (Root has no
# such limit.)
UNUSED_UID = 54_377
MIB = 1 << 20


def build_collection(programs, folder, seed):
    """Builds random documents of unequal lengths, "doc-0", "doc-1", ..., as a collection in several shards."""
    rng = np.random.default_rng(seed)
    source = folder.parent / f"{folder.name}-source"
    source.mkdir(exist_ok=True)
    lengths = rng.integers(1, 13, NUM_DOCUMENTS).astype(np.int32)
    np.save(source / "tokens.npy", rng.standard_normal((lengths.sum(), DIM)).astype(np.float16))
    np.save(source / "lengths.npy", lengths)
    with open(source / "docs.jsonl", "w", encoding="utf-8") as file:
        for i in range(NUM_DOCUMENTS):
            file.write(json.dumps({"id": f"doc-{i}", "title": "x" * 20_000}) + "\n")
    command = [programs / "maxsim-shard", "build", "--quiet", "--name", "corpus", "--output", folder]
    command += ["--tokens", source / "tokens.npy", "--lengths", source / "lengths.npy", "--ids", source / "docs.jsonl"]
    subprocess.run([str(part) for part in command], check=True)


def build_sparse_collection(folder):
    """Makes a collection with a sparse shard of 4 TiB, almost all of it a hole. Returns False if the file system does
    not support such files."""
    num_documents, tokens_each, dim = 1 << 18, 1 << 16, 128
    num_tokens = num_documents * tokens_each
    token_bytes, offset_bytes = num_tokens * dim * 2, (num_documents + 1) * 8
    header = {
        "__metadata__": {"format": "maxsim-shard", "format_version": "1"},
        "tokens": {"dtype": "F16", "shape": [num_tokens, dim], "data_offsets": [0, token_bytes]},
        "offsets": {
            "dtype": "I64",
            "shape": [num_documents + 1],
            "data_offsets": [token_bytes, token_bytes + offset_bytes],
        },
        "ids": {
            "dtype": "I64",
            "shape": [num_documents],
            "data_offsets": [token_bytes + offset_bytes, token_bytes + offset_bytes + num_documents * 8],
        },
    }
    folder.mkdir()
    shard = folder / "shard-000001-00000.safetensors"
    text = json.dumps(header).encode().ljust(4096 - 8)
    with open(shard, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        try:
            file.seek(4096 + token_bytes)
        except OSError:
            return False
        try:
            file.write((np.arange(num_documents + 1, dtype=np.int64) * tokens_each).tobytes())
            file.write(np.arange(num_documents, dtype=np.int64).tobytes())
            file.flush()
        except OSError:
            return False
    manifest = {
        "format": "maxsim-collection",
        "format_version": 1,
        "name": "sparse",
        "generation": 1,
        "dim": dim,
        "storage": "f16",
        "id_type": "int64",
        "has_payloads": False,
        "num_documents": num_documents,
        "num_tokens": num_tokens,
        "created_by": "a hostile client",
        "created_at": "2026-01-01T00:00:00Z",
    }
    one = {"file": shard.name, "num_documents": num_documents, "num_tokens": num_tokens}
    one |= {"num_bytes": shard.stat().st_size, "checksum": "xxh3-128:" + "0" * 32}
    (folder / "collection.json").write_text(json.dumps(manifest | {"shards": [one]}))
    return True


def become_unused_user():
    os.setgroups([])
    os.setgid(UNUSED_UID)
    os.setuid(UNUSED_UID)


class Limits:
    """Limits of a server process. None keeps the limit of this process. Limiting threads needs root, to run the server
    as a user of its own."""

    def __init__(self, descriptors=None, threads=None, address_space_bytes=None):
        self.descriptors = descriptors
        self.address_space_bytes = address_space_bytes
        self.threads = threads if os.geteuid() == 0 else None

    def apply(self):  # called in the child process, before the program starts
        if self.descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))
        if self.threads is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (self.threads, self.threads))
            become_unused_user()
        if self.address_space_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (self.address_space_bytes, self.address_space_bytes))


class NotReadyError(RuntimeError):
    """Raised if the server ended, or took too long, before it was ready. `process` has ended by then."""

    def __init__(self, process, log):
        super().__init__(f"maxsimd did not become ready:\n{log}")
        self.process, self.log = process, log


class Usage:
    def __init__(self, rss_bytes=0, threads=0, descriptors=0):
        self.rss_bytes, self.threads, self.descriptors = rss_bytes, threads, descriptors

    def raise_to(self, other):
        self.rss_bytes = max(self.rss_bytes, other.rss_bytes)
        self.threads = max(self.threads, other.threads)
        self.descriptors = max(self.descriptors, other.descriptors)

    def __str__(self):
        return f"{self.rss_bytes / MIB:.0f} MiB, {self.threads} threads, {self.descriptors} descriptors"


class Maxsimd:
    """Runs maxsimd on free ports, serving the collection "corpus". Needs a `folder` of its own. The end of the
    with-statement stops maxsimd."""

    def __init__(self, programs, folder, collection, limits=Limits(), with_tokens=True, flags=()):
        self.folder, self.collection = folder, collection
        self.token = TOKEN if with_tokens else ""
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # the server writes its file of ports there, perhaps as another user
        ports = folder / "ports.json"
        ports.unlink(missing_ok=True)
        (folder / "tokens").write_text(TOKEN + "\n")
        command = ["maxsimd", "--grpc.address", "127.0.0.1:0", "--http.address", "127.0.0.1:0", "--backend", "cpu"]
        command += ["--backend.cpu_threads", "2", "--server.shutdown_delay", "0s", "--server.shutdown_grace", "5s"]
        command += ["--server.port_file", ports, "--collection", f"corpus={collection}"]
        command += ["--store.allowed_roots", collection.parent]
        if with_tokens:
            command += ["--auth.tokens_file", folder / "tokens"]
        command += flags
        self.log_path = folder / "maxsimd.log"
        # Runs the program through an open descriptor, because the server's user may have no access to the program's
        # folder.
        program = os.open(programs / "maxsimd", os.O_RDONLY)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                executable=f"/proc/self/fd/{program}",
                pass_fds=[program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                preexec_fn=limits.apply,
            )
        os.close(program)
        until = time.monotonic() + READY_LIMIT_S
        while not ports.exists() or not ports.read_text():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise NotReadyError(self.process, self.log_end(3000))
            time.sleep(0.02)
        written = json.loads(ports.read_text())
        self.grpc_port, self.http_port = written["grpc_port"], written["http_port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def alive(self):
        return self.process.poll() is None

    def limit_threads(self, threads):
        """Limits the running server to this many threads. The server must have been started with a limit of threads."""
        # prlimit runs as the server's user, because root in a container may lack the permission.
        command = ["prlimit", f"--pid={self.process.pid}", f"--nproc={threads}"]
        subprocess.run(command, check=True, preexec_fn=become_unused_user, cwd="/")

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()

    def stop(self, timeout_s):
        """Sends SIGTERM. Returns the exit code, and the seconds until the end. The exit code is None if the server did
        not end in time."""
        start = time.monotonic()
        self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
            self.kill()
        return code, time.monotonic() - start

    def log(self):
        return self.log_path.read_text(errors="replace")

    def log_end(self, characters):
        """Returns all reports of sanitizers in the log, and the last `characters` characters of the log."""
        log = self.log()
        report = re.compile(r"^[^\n]*(?:WARNING|ERROR): \w+Sanitizer.*?^(?:=+|SUMMARY[^\n]*)$", re.DOTALL | re.M)
        return "\n".join([*(found[:characters] for found in report.findall(log)), log[-characters:]])

    def usage(self):
        try:
            with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
                pages = int(file.read().split()[1])
            process = pathlib.Path(f"/proc/{self.process.pid}")
            threads, descriptors = len(os.listdir(process / "task")), len(os.listdir(process / "fd"))
        except (OSError, IndexError):
            return Usage()
        return Usage(pages * resource.getpagesize(), threads, descriptors)

    def address_space_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()

    def http_status(self, path, timeout_s=5.0):
        """Returns the status of a GET, or 0 when no answer comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def channel(self):
        """Returns a channel with a connection of its own."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 256 * MIB)]
        # If a connection is closed (GOAWAY) while a stream begins, gRPC 1.51's client retries the stream on another
        # connection, and may omit its last message.
        options.append(("grpc.enable_retries", 0))
        return grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options=options)

    def metadata(self):
        return [("authorization", f"Bearer {self.token}")] if self.token else []

    def is_healthy(self, timeout_s=5.0):
        """Asks gRPC's health on a connection of its own, without a token."""
        with self.channel() as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            try:
                return check(b"", timeout=timeout_s) == b"\x08\x01"
            except grpc.RpcError:
                return False


class Questions:
    """Rerank requests, with the answers that the server gave when there was no other traffic."""

    def __init__(self, seed, count=8):
        from maxsim.v1 import rerank_pb2, rerank_pb2_grpc  # generated

        self.messages, self.stubs = rerank_pb2, rerank_pb2_grpc
        rng = np.random.default_rng(seed)
        self.requests, self.answers = [], {}
        for i in range(count):
            tokens = rng.standard_normal((1 + 5 * i, DIM)).astype(np.float32)
            request = rerank_pb2.RerankRequest(collection="corpus", top_k=20, request_id=str(i))
            request.queries.add().tokens.CopyFrom(self._matrix(tokens))
            if i % 2 == 0:
                request.candidates.whole_collection.SetInParent()
            else:
                ids = rng.choice(NUM_DOCUMENTS, 40, replace=False)
                request.candidates.string_ids.ids.extend(f"doc-{n}" for n in ids)
            self.requests.append(request)

    def _matrix(self, tokens):
        kind = self.messages.DATA_TYPE_F32
        return self.messages.TokenMatrix(dtype=kind, num_tokens=len(tokens), dim=DIM, data=tokens.tobytes())

    def learn(self, server):
        with server.channel() as channel:
            stub = self.stubs.RerankerStub(channel)
            for i, request in enumerate(self.requests):
                self.answers[i] = self.essence(stub.Rerank(request, metadata=server.metadata(), timeout=60))

    @staticmethod
    def essence(response):
        """Returns the part of an answer whose bits must never change: ids and scores."""
        return [(list(one.string_ids.ids), list(one.positions), list(one.scores)) for one in response.results]

    def wrong(self, i, response):
        """Returns why the answer to request i is wrong, or ""."""
        return "" if self.essence(response) == self.answers[i] else f"request {i} has another answer than before"

    def ask(self, server, i, timeout_s=60.0):
        """Asks request i on a new connection. Returns why that failed, or ""."""
        with server.channel() as channel:
            try:
                response = self.stubs.RerankerStub(channel).Rerank(
                    self.requests[i], metadata=server.metadata(), timeout=timeout_s
                )
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return self.wrong(i, response)

    def large_request(self):
        """Returns a request whose answer has megabytes: all documents with their payloads."""
        request = self.messages.RerankRequest(collection="corpus", top_k=NUM_DOCUMENTS, return_payloads=True)
        request.queries.add().tokens.CopyFrom(self._matrix(np.ones((1, DIM), np.float32)))
        request.candidates.whole_collection.SetInParent()
        return request.SerializeToString()


class Watch:
    """Threads that record, until stop(), what the server uses, and how long it takes to answer probes (health
    calls)."""

    INTERVAL_S = 0.1

    def __init__(self, server, probe_timeout_s=60.0):
        self.server = server
        self.probe_timeout_s = probe_timeout_s
        self.peak = Usage()
        self.slowest = {}  # by probe, in seconds
        self.answered = {}  # by probe, how many times
        self.failures = {}
        self._stop = threading.Event()
        probes = {
            "readyz": lambda: server.http_status("/readyz", self.probe_timeout_s) != 0,
            "livez": lambda: server.http_status("/livez", self.probe_timeout_s) == 200,
            "health": lambda: server.is_healthy(self.probe_timeout_s),
        }
        self._threads = [threading.Thread(target=self._sample, daemon=True)]
        for name, probe in probes.items():
            self.slowest[name] = 0.0
            self.answered[name] = self.failures[name] = 0
            self._threads.append(threading.Thread(target=self._probe, args=(name, probe), daemon=True))
        for thread in self._threads:
            thread.start()

    def _sample(self):
        while not self._stop.wait(0.03):
            self.peak.raise_to(self.server.usage())

    def _probe(self, name, probe):
        """Repeats each probe until it is answered, as a monitor would. The measured time includes all attempts."""
        while not self._stop.wait(self.INTERVAL_S):
            start = time.monotonic()
            while not (answered := probe()) and time.monotonic() - start < self.probe_timeout_s:
                if self._stop.wait(0.02):
                    break
            waited_s = time.monotonic() - start
            self.slowest[name] = max(self.slowest[name], waited_s)
            if answered:
                self.answered[name] += 1
            # A probe that stop() cuts short is no failure.
            elif waited_s >= self.probe_timeout_s:
                self.failures[name] += 1

    def least_answered(self):
        return min(self.answered.values())

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
