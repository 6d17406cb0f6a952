"""The live collection of the small Python maxsimd: an oracle, and a file of writes that is synced before a write is
acknowledged. The environment variable FAKE_BUG gives it one bug, which the tests must find."""

import errno
import fcntl
import json
import os
import pathlib
import pickle
import struct
import threading
import zlib

import grpc
import numpy as np

import oracle
import server as client  # noqa: F401  makes the stubs
from maxsim.v1 import rerank_pb2

BUG = os.environ.get("FAKE_BUG", "")
BUGS = {
    "order": "a replaced document keeps its place",
    "stale": "a version that is not newer is written",
    "ack": "a write is acknowledged before it is in the file",
    "half": "the documents of a call are written one by one",
    "tombstone": "a deleted document stays in whole scans",
    "bits": "scores of written documents have other bits",
    "late": "a write is visible a moment after its acknowledgement",
    "payload": "a replaced document keeps its payload",
    "missing": "a deleted id is not named as missing",
}


def read_shard(path, storage):
    """Gives (id, document) of a shard's file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    types = {"F16": np.float16, "F32": np.float32, "I8": np.int8, "I64": np.int64, "U8": np.uint8}

    def array(name):
        one = header[name]
        begin, end = one["data_offsets"]
        return np.frombuffer(data[8 + size + begin : 8 + size + end], types[one["dtype"]]).reshape(one["shape"])

    tokens, offsets = array("tokens"), array("offsets")
    texts = {
        kind: (array(f"{kind}_bytes").tobytes(), array(f"{kind}_offsets")) if f"{kind}_bytes" in header else None
        for kind in ("id", "payload")
    }
    for i in range(len(offsets) - 1):
        id = cut(texts["id"], i) if texts["id"] else int(array("ids")[i])
        one = oracle.Document.__new__(oracle.Document)
        one.elements = tokens[offsets[i] : offsets[i + 1]]
        one.scale = array("scales")[i] if storage.storage == "i8" else np.float32(0)
        one.values = storage.values(one.elements, one.scale)
        one.payload = cut(texts["payload"], i) if texts["payload"] else ""
        one.sequence, one.vectors = 0, one.values
        yield id, one


def cut(text, i):
    data, offsets = text
    return data[offsets[i] : offsets[i + 1]].decode()


class Refused(Exception):
    """A call's status."""


class Collection:
    size, error = 0, ""

    def __init__(self, path, live):
        self.path = pathlib.Path(path)
        manifest = json.loads((self.path / "collection.json").read_text())
        self.generation = manifest["generation"]
        storage = oracle.Storage(manifest["storage"], manifest["dim"], manifest.get("rotation", {}).get("seed", 0))
        self.oracle = oracle.Oracle(storage, manifest["id_type"])
        for shard in manifest["shards"]:
            self.oracle.documents.update(read_shard(self.path / shard["file"], storage))
        self.lock = threading.RLock()
        self.file = None
        if live or (self.path / "log").exists():
            self.open_log()

    def open_log(self):
        (self.path / "log").mkdir(exist_ok=True)
        if (self.path / "log" / "state").exists():
            self.generation, self.oracle = pickle.loads((self.path / "log" / "state").read_bytes())
        self.file = open(self.path / "log" / "writes.log", "a+b", buffering=0)
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "the log is open in another process") from None
        self.file.seek(0)
        data, begin = self.file.read(), 0
        while begin + 12 <= len(data):
            size, checksum = struct.unpack_from("<qI", data, begin)
            value = data[begin + 12 : begin + 12 + size]
            last = self.oracle.sequence
            if zlib.crc32(value) != checksum:
                if size < 0 or begin + 12 + size >= len(data):
                    break  # the end of a write that was never acknowledged
                raise Refused(
                    grpc.StatusCode.DATA_LOSS, f"the log is damaged: from sequence {last + 1} on nothing can be read"
                )
            sequence, writes = pickle.loads(value)
            if sequence >= last:
                self.apply(writes)
            begin += 12 + size
        self.size = begin
        self.file.truncate(begin)

    def apply(self, writes):
        """Returns (outcome, sequence) of each."""
        results = []
        for kind, id, version, rows, payload in writes:
            before = self.oracle.sequence
            if kind == "upsert":
                if BUG == "stale":
                    self.oracle.versions.pop(id, None)
                old = self.oracle.documents.get(id)
                place = self.oracle.order().index(id) if old and BUG == "order" else None
                outcome = self.oracle.upsert(id, rows, old.payload if old and BUG == "payload" else payload, version)
                if place is not None:
                    ids = self.oracle.order()
                    ids.insert(place, ids.pop())
                    self.oracle.documents = {one: self.oracle.documents[one] for one in ids}
            else:
                outcome = self.oracle.delete(id, version)
            results.append((outcome, self.oracle.sequence if self.oracle.sequence != before else 0))
        return results

    def write(self, writes):
        with self.lock:
            if BUG == "ack":
                threading.Timer(0.01, self.append, [(self.oracle.sequence, writes)]).start()
            else:
                for part in [[one] for one in writes] if BUG == "half" else [writes]:
                    self.append((self.oracle.sequence, part))
                    if BUG == "half":
                        threading.Event().wait(0.003)
            if BUG == "late":
                copy = self.oracle.copy()
                results = self.apply(writes)
                self.oracle, late = copy, self.oracle
                threading.Timer(0.1, lambda: setattr(self, "oracle", late)).start()
                return results, late.sequence
            return self.apply(writes), self.oracle.sequence

    def append(self, value):
        value = pickle.dumps(value)
        value = struct.pack("<qI", len(value), zlib.crc32(value)) + value
        try:
            self.file.seek(0, 2)
            self.file.write(value)
            os.fdatasync(self.file.fileno())
        except OSError as error:
            self.file.truncate(self.size)
            self.error = str(error)
            full = error.errno == errno.ENOSPC
            code = grpc.StatusCode.RESOURCE_EXHAUSTED if full else grpc.StatusCode.UNAVAILABLE
            raise Refused(code, str(error)) from None
        self.size, self.error = self.size + len(value), ""

    def compact(self):
        with self.lock:
            changed = any(one.sequence for one in self.oracle.documents.values())
            self.generation += changed
            for one in self.oracle.documents.values():
                one.sequence = 0
            temporary = self.path / "log" / "state.tmp"
            try:
                temporary.write_bytes(pickle.dumps((self.generation, self.oracle)))
            except OSError as error:
                raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from None
            os.replace(temporary, self.path / "log" / "state")
            self.file.truncate(0)
            self.size = 0
            return changed

    def info(self, name):
        one = rerank_pb2.CollectionInfo(name=name, state=rerank_pb2.COLLECTION_STATE_READY, generation=self.generation)
        one.num_documents = len(self.oracle.documents)
        if self.file:
            one.live.error = self.error
            one.live.sequence = self.oracle.sequence
            first = [d.sequence for d in self.oracle.documents.values() if d.sequence]
            one.live.compacted_sequence = min(first) - 1 if first else self.oracle.sequence
        return one
