"""Runs operations on the oracle and on a server with a live collection, and compares the answers.

A setup describes the world, and each operation is a dictionary. Both are plain JSON, so that a test can print a failed
sequence of operations and repeat it."""

import json
import os
import pathlib
import random
import shutil
import subprocess

import grpc
import numpy as np

import oracle as exact
import server as client
from checks import Mismatch, check_codes, check_extras, expect
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2
from numbered import payload_of, query_vectors, same_json, vectors

NAME = "corpus"
GET_IDS = 1000  # ids per call of Get
ALL = 10_000  # the largest top_k that a request may have
DATA_TYPES = {"f32": rerank_pb2.DATA_TYPE_F32, "f16": rerank_pb2.DATA_TYPE_F16, "i8": rerank_pb2.DATA_TYPE_I8}
INT64 = 1 << 63


class World:
    """A server with one live collection, and its oracle. `setup` has these members: storage, dim, id_type, num_base
    (number of initial documents; 0 means that CreateCollection makes the collection), seed, flags (of maxsimd), and
    codes (bits per value; no codes if 0 or missing)."""

    def __init__(self, programs, folder, setup, environment=None):
        self.programs, self.folder = pathlib.Path(programs).resolve(), pathlib.Path(folder)
        self.setup, self.dim = setup, setup["dim"]
        self.path = self.folder / NAME
        self.server = client.Server(self.programs, self.folder, setup["flags"], environment)
        seed = 7 if setup["storage"] == "i8" and setup["num_base"] else 0
        self.oracle = exact.Oracle(exact.Storage(setup["storage"], self.dim, seed), setup["id_type"])
        self.planes = setup.get("codes", 0)
        self._made = 0  # number of folders from _new_folder()
        self._touched = []  # ids of the last write, for check()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.kill()

    def id_of(self, number):
        if self.setup["id_type"] == "int64":
            return {0: 0, 1: -INT64, 2: INT64 - 1}.get(number, number * 7 - 50)
        return {0: "é", 1: "x" * 512, 2: "a\tb/c"}.get(number, f"doc-{number}")

    def begin(self):
        """Builds the collection's first generation, and starts the server with it."""
        self.build_base()
        self.start()

    def build_base(self):
        setup = self.setup
        for number in range(setup["num_base"]):
            payload = json.loads(payload_of(number % 3 and number)) if number % 3 else None
            text = json.dumps(payload, ensure_ascii=False, separators=(",", ":")) if payload else ""
            self.oracle.begin_with(self.id_of(number), vectors(setup["seed"] + number // 2, self.dim), text)
        if setup["num_base"]:
            self.oracle.build(self.programs, self.path, NAME, *self._codes())

    def _codes(self):
        return ["--codes", self.planes] if self.planes else []

    def start(self):
        setup = self.setup
        if setup["num_base"]:
            self.server.start()
            self.server.load(NAME, self.path, live=True)
        else:
            self.server.start()
            request = admin_pb2.CreateCollectionRequest(name=NAME, path=str(self.path), dim=self.dim)
            request.storage = DATA_TYPES[setup["storage"]]
            request.id_type = {"string": rerank_pb2.ID_TYPE_STRING, "int64": rerank_pb2.ID_TYPE_INT64}[setup["id_type"]]
            request.code_planes = self.planes
            request.code_factors = self.planes > 0 and setup["seed"] % 2 == 0
            self.server.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
            manifest = json.loads((self.path / "collection.json").read_text())
            self.oracle.storage.rotation_seed = manifest.get("rotation", {}).get("seed", 0)

    def apply(self, operation):
        """Does one operation and checks its answer. Then checks the answers to other requests (check()). Raises
        Mismatch if a call fails."""
        try:
            getattr(self, "do_" + operation["op"])(operation)
            self.check(operation.get("check", 0))
        except grpc.RpcError as error:
            raise Mismatch(f"{error.code()}: {error.details()}") from error
        if reports := self.server.reports():
            raise Mismatch(reports[0])

    # Writes.

    def _documents(self, made):
        """Returns one Document message for each [number of the id, number of the vectors, version, number of the
        payload, data type]."""
        return [
            client.document(self.id_of(k), vectors(v, self.dim), payload_of(p), version, dtype)
            for k, v, version, p, dtype in made
        ]

    def _written(self, dtype, v):
        rows = vectors(v, self.dim)
        return rows.astype(np.float16).astype(np.float32) if dtype == "f16" else rows

    def _expect_result(self, result, outcome, what):
        expect(result.outcome == outcome, f"{what}: outcome {result.outcome} instead of {outcome}")
        if outcome == exact.NOT_FOUND and result.sequence:  # the server may give such a delete a sequence
            self.oracle.sequence += 1
        number = self.oracle.sequence if outcome == exact.APPLIED or result.sequence else 0
        expect(result.sequence == number, f"{what}: sequence {result.sequence} instead of {number}")

    def _upsert_each(self, made, results=None):
        outcomes = []
        self._touched = list(dict.fromkeys(self.id_of(k) for k, *_ in made))
        for i, (k, v, version, p, dtype) in enumerate(made):
            outcome = self.oracle.upsert(self.id_of(k), self._written(dtype, v), payload_of(p), version)
            outcomes.append(outcome)
            if results is not None:
                self._expect_result(results[i], outcome, f"upsert {self.id_of(k)!r:.40} with version {version}")
        return outcomes

    def do_upsert(self, operation):
        made = operation["docs"]
        response = self.server.upsert(client.upsert_request(NAME, self._documents(made)))
        expect(len(response.results) == len(made), f"{len(response.results)} results of {len(made)} documents")
        self._upsert_each(made, response.results)
        self._expect_sequence(response)

    def do_stream(self, operation):
        calls = [client.upsert_request(NAME, self._documents(made)) for made in operation["calls"]]
        response = self.server.documents.UpsertStream(iter(calls), timeout=client.CALL_LIMIT_S)
        outcomes = [one for made in operation["calls"] for one in self._upsert_each(made)]
        expect(response.num_requests == len(calls), f"{response.num_requests} requests of {len(calls)}")
        expect(response.num_applied == outcomes.count(exact.APPLIED), f"{response.num_applied} applied of a stream")
        expect(response.num_stale == outcomes.count(exact.STALE), f"{response.num_stale} stale of a stream")
        self._expect_sequence(response)

    def do_delete(self, operation):
        ids = [self.id_of(k) for k in operation["ids"]]
        version = operation.get("version", 0)
        response = self.server.delete(client.delete_request(NAME, ids, version))
        expect(len(response.results) == len(ids), f"{len(response.results)} results of {len(ids)} ids")
        self._touched = list(dict.fromkeys(ids))
        for id, result in zip(ids, response.results):
            outcome = self.oracle.delete(id, version)
            self._expect_result(result, outcome, f"delete {id!r:.40} with version {version}")
        self._expect_sequence(response)

    def _expect_sequence(self, response):
        expect(
            response.sequence == self.oracle.sequence,
            f"sequence {response.sequence} of the collection instead of {self.oracle.sequence}",
        )

    def do_bad(self, operation):
        """Makes a call with a valid and an invalid document, which the server must refuse. The following check() would
        notice if the server wrote the valid one."""
        good = self._documents([[3, 1, 0, 1, "f32"]])[0]
        bad = self._documents([[4, 2, 0, 0, "f32"]])[0]
        kind = operation["kind"]
        if kind == "dim":
            bad.tokens.CopyFrom(client.matrix(np.ones((2, self.dim + 1))))
        elif kind == "nan":
            bad.tokens.CopyFrom(client.matrix(np.full((2, self.dim), np.nan)))
        elif kind == "id":
            bad.ClearField("id")
        elif kind == "other_id":
            other = {"string": {"int_id": 5}, "int64": {"string_id": "5"}}[self.setup["id_type"]]
            bad.MergeFrom(documents_pb2.Document(**other))
        elif kind == "long_id":
            bad.string_id = "x" * 513
        elif kind == "payload":
            bad.payload = "[1]"
        elif kind == "tokens":
            bad.ClearField("tokens")
        request = client.upsert_request(NAME, [good, bad])
        if kind == "none":
            request = client.upsert_request(NAME, [])
        with client.refused(grpc.StatusCode.INVALID_ARGUMENT):
            self.server.upsert(request)

    # Operations that do not change the answers of requests.

    def do_reload(self, _):
        self.server.reload(NAME)

    def do_compact(self, _):
        self.server.compact(NAME)
        info = self.server.info(NAME)
        expect(info.live.compacted_sequence == self.oracle.sequence, "a compaction left writes behind")
        expect(info.num_documents == len(self.oracle.documents), f"{info.num_documents} documents after a compaction")
        self.check_all()

    def do_restart(self, operation):
        self.server.stop()
        if operation.get("offline"):
            self.compact_offline()
        self.server.start({NAME: self.path})
        self.check_all()

    def compact_offline(self):
        command = [str(self.programs / "maxsim-shard"), "compact", str(self.path)]
        environment = {**os.environ, **self.server.environment}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        expect(done.returncode == 0, f"maxsim-shard compact: {done.stdout}{done.stderr}")

    def do_kill(self, _):
        self.server.kill()
        self.server.start({NAME: self.path})
        self.check_all()

    def _new_folder(self, name):
        self._made += 1
        return self.folder / f"{name}-{self._made}"

    def do_snapshot(self, operation):
        """Makes a snapshot, loads it as a live collection, and writes to it. The original collection must not
        change."""
        path = self._new_folder("snapshot")
        sequence = self.server.snapshot(NAME, path)
        expect(sequence == self.oracle.sequence, f"a snapshot of sequence {sequence} instead of {self.oracle.sequence}")
        self.server.load("snapshot", path)
        expect(self.server.info("snapshot").HasField("live"), "a snapshot is not live")
        self.check_whole("snapshot", operation.get("check", 0), len(self.oracle.documents) + 1)
        self.check_all("snapshot")
        copy, self.oracle = self.oracle, self.oracle.copy()
        request = client.upsert_request("snapshot", self._documents([[3, 5, 0, 1, "f32"]]))
        response = self.server.upsert(request)
        self._upsert_each([[3, 5, 0, 1, "f32"]], response.results)
        self.check_whole("snapshot", operation.get("check", 0), 5)
        check_codes(self, "snapshot", operation.get("check", 0))
        self.oracle = copy
        self.server.unload("snapshot")
        shutil.rmtree(path)

    # Reads.

    def check(self, seed):
        """Compares a scan, a ranking of listed ids and some documents with the oracle."""
        chooser = random.Random(seed)
        count = len(self.oracle.documents)
        self.check_whole(NAME, seed, chooser.choice([1, 3, count + 1, ALL]))
        self.check_list(NAME, seed, chooser)
        check_codes(self, NAME, seed)
        known = self.oracle.order()
        ids = chooser.sample(known, min(5, count)) + [self.id_of(90_000 + seed % 9)] + self._touched
        self.check_get(NAME, list(dict.fromkeys(ids)), seed % 2 == 0)
        self._touched = []
        if seed % 7 == 0:
            request = client.rerank_request(NAME, query_vectors(seed, self.dim), min_sequence=self.oracle.sequence + 1)
            with client.refused(grpc.StatusCode.UNAVAILABLE):
                self.server.rerank(request)

    def weights(self, chooser, query):
        return [chooser.choice([1.0, 0.5, -2.0, 0.0]) for _ in query] if chooser.random() < 0.3 else None

    def rank(self, name, query, ids, top_k, weights, full, refinement=None):
        fields = {"return_payloads": full, "return_alignments": full and len(self.oracle.documents) < 2000}
        request = client.rerank_request(
            name, query, ids, top_k=min(top_k, ALL), weights=weights, min_sequence=self._min_sequence(name), **fields
        )
        if refinement is not None:
            request.refinement.CopyFrom(refinement)
        response = self.server.rerank(request)
        if name in (NAME, "snapshot"):
            self._expect_sequence(response)
        return client.Ranking(response.results[0])

    def _min_sequence(self, name):
        return self.oracle.sequence if name in (NAME, "snapshot") else 0

    def check_whole(self, name, seed, top_k):
        chooser, rows = random.Random(seed), query_vectors(seed, self.dim)
        weights = self.weights(chooser, rows)
        ranking = self.rank(name, rows, None, top_k, weights, chooser.random() < 0.5)
        found = exact.check_result(
            ranking, self.oracle.order(), self.oracle.whole(), self.oracle.storage.query(rows), top_k, weights, {}
        )
        expect(not found, f"scan of {name}: {found}")
        check_extras(self.oracle, name, ranking, rows)
        return ranking

    def check_list(self, name, seed, chooser):
        known = self.oracle.order()
        ids = chooser.sample(known, min(len(known), chooser.choice([1, 10, 100])))
        ids += [self.id_of(k) for k in (chooser.randrange(80), 90_001, chooser.randrange(80))]
        ids += chooser.sample(ids, min(2, len(ids)))
        chooser.shuffle(ids)
        rows, top_k = query_vectors(seed + 1, self.dim), chooser.choice([2, len(ids)])
        weights = self.weights(chooser, rows)
        ranking = self.rank(name, rows, ids, top_k, weights, chooser.random() < 0.5)
        once = list(dict.fromkeys(ids))
        alive = [id for id in once if id in self.oracle.documents]
        missing = [id for id in once if id not in self.oracle.documents]
        expect(ranking.missing == missing, f"list of {name}: missing {ranking.missing} instead of {missing}")
        first = {id: ids.index(id) for id in once}
        expect(
            all(first[id] == position for id, position in zip(ranking.ids, ranking.positions) if id in first),
            f"list of {name}: positions {ranking.positions}",
        )
        ranking.positions = [alive.index(id) if id in alive else -1 for id in ranking.ids]
        candidates = exact.Candidates([self.oracle.documents[id] for id in alive])
        query = self.oracle.storage.query(rows)
        found = exact.check_result(ranking, alive, candidates, query, top_k, weights)
        expect(not found, f"list of {name}: {found}")
        check_extras(self.oracle, name, ranking, rows)
        return ranking

    def check_all(self, name=NAME):
        """Compares every document, with its vectors, with the oracle."""
        ids = self.oracle.order()
        for begin in range(0, len(ids), GET_IDS):
            self.check_get(name, ids[begin : begin + GET_IDS], True)

    def check_get(self, name, ids, return_tokens):
        response = self.server.get(client.get_request(name, ids, return_tokens, self._min_sequence(name)))
        alive = [id for id in ids if id in self.oracle.documents]
        found = [client.stored_id(one) for one in response.documents]
        expect(found == alive, f"Get of {name}: {found[:5]} instead of {alive[:5]}")
        missing = [id for id in ids if id not in self.oracle.documents]
        expect(client.missing_ids(response) == missing, f"Get of {name}: missing {client.missing_ids(response)}")
        for id, stored in zip(found, response.documents):
            self.check_stored(name, id, stored, return_tokens)

    def check_stored(self, name, id, stored, return_tokens):
        expected = self.oracle.documents[id]
        where = f"{id!r:.40} in {name}"
        count = len(expected.elements)
        expect(stored.num_tokens == count, f"{where} has {stored.num_tokens} tokens, not {count}")
        expect(same_json(stored.payload, expected.payload), f"{where} has the payload {stored.payload!r}")
        if name in (NAME, "snapshot"):
            version = self.oracle.versions.get(id, 0)
            expect(stored.version == version, f"{where} has version {stored.version} instead of {version}")
            # The server reports the sequence 0 for a document that a compaction has moved into a shard.
            numbers = {expected.sequence, 0}
            expect(stored.sequence in numbers, f"{where} has sequence {stored.sequence}, not {expected.sequence}")
        if not return_tokens:
            expect(not stored.HasField("tokens"), f"{where} has tokens that nobody asked for")
            return
        kind = DATA_TYPES[self.setup["storage"]]
        tokens = stored.tokens
        expect((tokens.dtype, tokens.num_tokens, tokens.dim) == (kind, count, self.dim), f"{where} has other tokens")
        expect(tokens.data == expected.elements.tobytes(), f"{where} has other vectors than were written")
        scale = float(expected.scale)
        expect(stored.scale == scale, f"{where} has the scale {stored.scale!r} instead of {scale!r}")

    def do_fresh(self, operation):
        """Builds a new collection of the current documents. It must give the same ids and exactly the same scores."""
        if not self.oracle.documents:
            return
        path = self._new_folder("fresh")
        self.oracle.build(self.programs, path, "fresh", *self._codes())
        self.server.load("fresh", path)
        seed = operation.get("check", 0)
        codes = [json.loads((one / "collection.json").read_text()).get("codes") for one in (self.path, path)]
        found = [check_codes(self, name, seed) for name in (NAME, "fresh")]
        # Compares the answers by codes only if both collections have the same kind of codes. A build decides by its
        # vectors whether codes get factors, so the kinds may differ.
        expect(codes[0] != codes[1] or found[0] == found[1], f"codes differ from a fresh build's: {found}")
        for i, top_k in enumerate((len(self.oracle.documents), 5, 1)):
            rankings = [self.check_whole(name, seed + i, top_k).essence() for name in (NAME, "fresh")]
            expect(rankings[0] == rankings[1], f"a scan differs from a fresh build's: {first_difference(rankings)}")
            rankings = [self.check_list(name, seed + i, random.Random(seed + i)).essence() for name in (NAME, "fresh")]
            expect(rankings[0] == rankings[1], f"a list differs from a fresh build's: {first_difference(rankings)}")
        self.check_all("fresh")
        with client.refused(grpc.StatusCode.FAILED_PRECONDITION):
            self.server.upsert(client.upsert_request("fresh", self._documents([[3, 1, 0, 1, "f32"]])))
        self.server.unload("fresh")
        shutil.rmtree(path)


def first_difference(essences):
    for a, b in zip(zip(*essences[0]), zip(*essences[1])):
        if a != b:
            return f"{a} instead of {b}"
    return "one is longer"
