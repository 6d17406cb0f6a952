"""A small maxsimd in Python, which tests the tests themselves. It offers the services that the tests call, and answers
with the oracle's results."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys

import grpc
import numpy as np

import oracle
import server as client
from fake_collection import BUG, Collection, Refused
from maxsim.v1 import admin_pb2, admin_pb2_grpc, documents_pb2, documents_pb2_grpc, rerank_pb2, rerank_pb2_grpc


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
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", 1 << 28)]
    )
    rerank_pb2_grpc.add_RerankerServicer_to_server(services_of(services, rerank_pb2_grpc.RerankerServicer), server)
    documents_pb2_grpc.add_DocumentsServicer_to_server(
        services_of(services, documents_pb2_grpc.DocumentsServicer), server
    )
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
