"""A small maxsimd in Python, for tests of the tests: the oracle behind the services that they call.

It keeps each live collection's writes in a file that is synced before a write is acknowledged, and scores in FP64. FAKE_BUG
names one thing that it does wrong, which the tests must find.
"""

import concurrent.futures
import errno
import fcntl
import json
import os
import pathlib
import pickle
import shutil
import signal
import struct
import sys
import threading
import zlib

import grpc
import numpy as np

import oracle
import server as client
from maxsim.v1 import admin_pb2, admin_pb2_grpc, documents_pb2, documents_pb2_grpc, rerank_pb2, rerank_pb2_grpc

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
                raise Refused(grpc.StatusCode.DATA_LOSS, f"the log is damaged: from sequence {last + 1} on nothing can be read")
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
                threading.Timer(0.005, lambda: setattr(self, "oracle", late)).start()
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


class Services:
    def __init__(self, collections):
        self.collections = {name: Collection(path, False) for name, path in collections.items()}

    def find(self, name, context, live=False):
        one = self.collections.get(name)
        if one is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"collection {name}")
        if live and not one.file:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"collection {name} is not live")
        return one

    def GetInfo(self, _request, _context):
        return rerank_pb2.GetInfoResponse(collections=[one.info(name) for name, one in self.collections.items()])

    def Rerank(self, request, context):
        one = self.find(request.collection, context)
        with one.lock:
            whole = one.oracle
            if request.min_sequence > whole.sequence:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not so far")
            response = rerank_pb2.RerankResponse(generation=one.generation, sequence=whole.sequence if one.file else 0)
            for query in request.queries:
                self.rank(whole, query, request, response.results.add())
            return response

    def rank(self, whole, query, request, result):
        storage = whole.storage
        tokens = query.tokens
        rows = np.frombuffer(tokens.data, {1: np.float32, 2: np.float16}[tokens.dtype]).reshape(-1, tokens.dim)
        rows = storage.query(rows)
        weights = np.array(query.weights) if query.weights else np.ones(len(rows))
        kind = request.candidates.WhichOneof("kind")
        if kind == "whole_collection":
            ids, places = whole.order(), {}
        else:
            ids = list(dict.fromkeys(getattr(request.candidates, kind).ids))
            places = {}
            for place, id in enumerate(getattr(request.candidates, kind).ids):
                places.setdefault(id, place)
        missing = [] if BUG == "missing" else [id for id in ids if id not in whole.documents]
        ids = [id for id in ids if id in whole.documents]
        ranked = []
        for index, id in enumerate(ids):
            one = whole.documents[id]
            products = np.einsum("qd,td->qt", rows, one.values)
            best = products.argmax(axis=1)
            score = float(np.float32(sum(w * products[i, j] for i, (w, j) in enumerate(zip(weights, best)))))
            if BUG == "bits" and one.sequence:
                score = float(np.nextafter(np.float32(score), np.float32(np.inf)))
            ranked.append((-score, places.get(id, 3 * index), id, best, products))
        ranked.sort(key=lambda each: each[:2])
        for negative, place, id, best, products in ranked[: request.top_k]:
            result.scores.append(-negative)
            result.positions.append(place)
            (result.int_ids if isinstance(id, int) else result.string_ids).ids.append(id)
            if request.return_payloads:
                result.payloads.append(whole.documents[id].payload)
            if request.return_alignments:
                result.alignments.add(document_tokens=best, similarities=products.max(axis=1))
        if missing:
            (result.missing_int_ids if isinstance(missing[0], int) else result.missing_string_ids).ids.extend(missing)

    def upsert(self, request, context):
        one = self.find(request.collection, context, live=True)
        writes = []
        for document in request.documents:
            tokens = document.tokens
            if not tokens.data:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "tokens: none")
            rows = np.frombuffer(tokens.data, {1: np.float32, 2: np.float16}[tokens.dtype]).reshape(-1, tokens.dim)
            id = client.stored_id(document)
            if tokens.dim != one.oracle.storage.dim or not np.isfinite(rows).all() or id == "":
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "documents: a value")
            if not document.payload.startswith("{") and document.payload:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "payload")
            if isinstance(id, str) and len(id.encode()) > 512:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "id")
            if isinstance(id, int) != (one.oracle.id_type == "int64"):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "id")
            writes.append(("upsert", id, document.version, rows.astype(np.float32), document.payload))
        if not writes:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "documents: none")
        return one.write(writes)

    def Upsert(self, request, context):
        results, sequence = self.upsert(request, context)
        response = documents_pb2.UpsertResponse(sequence=sequence)
        for outcome, number in results:
            response.results.add(outcome=outcome, sequence=number)
        return response

    def UpsertStream(self, requests, context):
        response = documents_pb2.UpsertStreamResponse()
        for request in requests:
            results, response.sequence = self.upsert(request, context)
            response.num_requests += 1
            response.num_applied += sum(outcome == oracle.APPLIED for outcome, _ in results)
            response.num_stale += sum(outcome == oracle.STALE for outcome, _ in results)
        return response

    def Delete(self, request, context):
        one = self.find(request.collection, context, live=True)
        ids = getattr(request, request.WhichOneof("ids")).ids
        copy = dict(one.oracle.documents)
        results, sequence = one.write([("delete", id, request.version, None, "") for id in ids])
        if BUG == "tombstone":
            one.oracle.documents = copy
        response = documents_pb2.DeleteResponse(sequence=sequence)
        for outcome, number in results:
            response.results.add(outcome=outcome, sequence=number)
        return response

    def Get(self, request, context):
        one = self.find(request.collection, context)
        response = documents_pb2.GetResponse(generation=one.generation, sequence=one.oracle.sequence)
        with one.lock:
            for id in getattr(request, request.WhichOneof("ids")).ids:
                found = one.oracle.documents.get(id)
                if found is None:
                    owner = response.missing_int_ids if isinstance(id, int) else response.missing_string_ids
                    owner.ids.append(id)
                    continue
                stored = response.documents.add(num_tokens=len(found.elements), payload=found.payload)
                stored.version, stored.sequence = one.oracle.versions.get(id, 0), found.sequence
                if isinstance(id, int):
                    stored.int_id = id
                else:
                    stored.string_id = id
                if request.return_tokens:
                    stored.scale = found.scale
                    kind = {"f32": 1, "f16": 2, "i8": 4}[one.oracle.storage.storage]
                    stored.tokens.dtype, stored.tokens.num_tokens = kind, len(found.elements)
                    stored.tokens.dim, stored.tokens.data = one.oracle.storage.dim, found.elements.tobytes()
        return response

    def LoadCollection(self, request, _context):
        self.collections[request.name] = Collection(request.path, request.live)
        return admin_pb2.LoadCollectionResponse(collection=self.collections[request.name].info(request.name))

    def CreateCollection(self, request, _context):
        path = pathlib.Path(request.path)
        path.mkdir()
        storage = {0: "f16", 1: "f32", 2: "f16", 4: "i8"}[request.storage]
        id_type = "int64" if request.id_type == rerank_pb2.ID_TYPE_INT64 else "string"
        manifest = {"generation": 1, "dim": request.dim, "storage": storage, "id_type": id_type, "shards": []}
        (path / "collection.json").write_text(json.dumps(manifest))
        self.collections[request.name] = Collection(path, True)
        return admin_pb2.CreateCollectionResponse(collection=self.collections[request.name].info(request.name))

    def UnloadCollection(self, request, _context):
        del self.collections[request.name]
        return admin_pb2.UnloadCollectionResponse()

    def ReloadCollection(self, _request, _context):
        return admin_pb2.ReloadCollectionResponse(changed=False)

    def CompactCollection(self, request, context):
        changed = self.find(request.name, context, live=True).compact()
        return admin_pb2.CompactCollectionResponse(changed=changed)

    def SnapshotCollection(self, request, context):
        one = self.find(request.name, context, live=True)
        with one.lock:
            shutil.copytree(one.path, request.path)
            return admin_pb2.SnapshotCollectionResponse(sequence=one.oracle.sequence)


def main():
    flags, collections = {}, {}
    for name, value in zip(sys.argv[1::2], sys.argv[2::2]):
        if name == "--collection":
            collections.update([value.split("=", 1)])
        flags[name.removeprefix("--")] = value
    if "config" in flags:
        config = json.loads(pathlib.Path(flags["config"]).read_text())
        flags["server.port_file"] = config["server"]["port_file"]
        flags["grpc.unix_socket"] = config["grpc"].get("unix_socket", "")
    try:
        services = Services(collections)
    except Refused as refused:
        sys.exit(str(refused))
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", 1 << 28)])
    rerank_pb2_grpc.add_RerankerServicer_to_server(services_of(services, rerank_pb2_grpc.RerankerServicer), server)
    documents_pb2_grpc.add_DocumentsServicer_to_server(services_of(services, documents_pb2_grpc.DocumentsServicer), server)
    admin_pb2_grpc.add_AdminServicer_to_server(services_of(services, admin_pb2_grpc.AdminServicer), server)
    port = server.add_insecure_port("127.0.0.1:0")
    if flags.get("grpc.unix_socket"):
        server.add_insecure_port("unix:" + flags["grpc.unix_socket"])
    server.start()
    ports = pathlib.Path(flags["server.port_file"])
    ports.with_suffix(".tmp").write_text(json.dumps({"grpc_port": port, "http_port": 0}))
    ports.with_suffix(".tmp").rename(ports)
    signal.sigwait({signal.SIGTERM})
    server.stop(1).wait()
    os._exit(0)


def services_of(services, base):
    def method(name):
        def call(request, context):
            try:
                return getattr(services, name)(request, context)
            except Refused as refused:
                context.abort(*refused.args)

        return call

    servicer = base()
    vars(servicer).update({name: method(name) for name in dir(base) if hasattr(services, name) and name[0] != "_"})
    return servicer


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
