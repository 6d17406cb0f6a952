"""maxsim, and bare stubs made with grpcio-tools, against the real programs: answers equal NumPy in FP64.

python python_client_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from python_package import use_package  # noqa: E402

DIM = 48
READY_LIMIT_S = 120


class Collection:
    """Random ragged documents, and their exact scores."""

    def __init__(self, seed, num_documents, int_ids):
        rng = np.random.default_rng(seed)
        self.lengths = rng.integers(1, 40, num_documents).astype(np.int32)
        tokens = rng.standard_normal((self.lengths.sum(), DIM))
        self.tokens = (tokens / np.linalg.norm(tokens, axis=1, keepdims=True)).astype(np.float16)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = [1000 - 7 * i if int_ids else f"doc/{i:03}" for i in range(num_documents)]
        self.int_ids = int_ids

    def build(self, folder, name, storage):
        """Writes the inputs and runs maxsim-shard; returns the collection's folder."""
        source, target = folder / f"{name}-source", folder / name
        source.mkdir()
        np.save(source / "tokens.npy", self.tokens)
        np.save(source / "lengths.npy", self.lengths)
        with open(source / "docs.jsonl", "w", encoding="utf-8") as file:
            for i in self.ids:
                file.write(json.dumps({"id": i, "title": f"Título {i}"}) + "\n")
        command = [PROGRAMS / "maxsim-shard", "build", "--tokens", source / "tokens.npy", "--lengths"]
        command += [source / "lengths.npy", "--ids", source / "docs.jsonl", "--output", target, "--name", name]
        command += ["--storage", storage, "--id-type", "int64" if self.int_ids else "string", "--quiet"]
        subprocess.run(list(map(str, command)), check=True)
        return target

    def document(self, ordinal):
        return self.tokens[self.offsets[ordinal] : self.offsets[ordinal + 1]].astype(np.float64)

    def scores(self, query, weights=None):
        """FP64 MaxSim with every document, and the magnitudes that errors are relative to."""
        query = np.asarray(query, np.float64)
        weights = np.ones(len(query)) if weights is None else np.asarray(weights, np.float64)
        scores, magnitudes = [], []
        for ordinal in range(len(self.ids)):
            document = self.document(ordinal)
            scores.append(np.dot(weights, (query @ document.T).max(axis=1)))
            magnitudes.append(np.dot(np.abs(weights), (np.abs(query) @ np.abs(document).T).max(axis=1)))
        return np.array(scores), np.array(magnitudes)


class Server:
    """maxsimd on free ports."""

    def __init__(self, folder, collections, flags=()):
        ports = folder / "ports.json"
        command = [PROGRAMS / "maxsimd", "--grpc.address", "127.0.0.1:0", "--http.address", "127.0.0.1:0"]
        command += ["--backend", "cpu", "--server.shutdown_delay", "0s", "--server.port_file", ports]
        command += flags
        for name, path in collections.items():
            command += ["--collection", f"{name}={path}"]
        self.log = open(folder / "maxsimd.log", "w+b")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log)
        limit = time.monotonic() + READY_LIMIT_S
        while not ports.exists():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise RuntimeError("maxsimd did not become ready:\n" + (folder / "maxsimd.log").read_text())
            time.sleep(0.05)
        self.address = f"127.0.0.1:{json.loads(ports.read_text())['grpc_port']}"

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)
        self.log.close()


class PythonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="maxsim-python-")
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = pathlib.Path(cls.temporary.name)
        use_package()
        import maxsim

        cls.text = Collection(seed=1, num_documents=90, int_ids=False)
        cls.numbers = Collection(seed=2, num_documents=60, int_ids=True)
        cls.collections = {
            "text": cls.text.build(folder, "text", "f16"),
            "numbers": cls.numbers.build(folder, "numbers", "f32"),
        }
        cls.server = Server(folder, cls.collections)
        cls.addClassCleanup(cls.server.stop)
        cls.client = maxsim.Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        rng = np.random.default_rng(3)
        cls.queries = [rng.standard_normal((n, DIM)).astype(np.float16) for n in (1, 7, 32)]

    def expect(self, collection, ranking, query, ordinals, top_k, weights=None):
        """The ranking is the FP64 top k of these documents, in order, with scores within 1e-5 of their magnitude."""
        scores, magnitudes = collection.scores(query, weights)
        order = sorted(range(len(ordinals)), key=lambda p: (-scores[ordinals[p]], p))[:top_k]
        self.assertEqual([d.position for d in ranking], order)
        self.assertEqual([d.id for d in ranking], [collection.ids[ordinals[p]] for p in order])
        for document in ranking:
            ordinal = ordinals[document.position]
            self.assertLessEqual(abs(document.score - scores[ordinal]), 1e-5 * magnitudes[ordinal])

    def test_whole_collections_of_both_kinds_of_ids(self):
        for name, collection in (("text", self.text), ("numbers", self.numbers)):
            for query in self.queries:
                ranking = self.client.rerank(name, query, top_k=25)
                self.expect(collection, ranking, query, range(len(collection.ids)), 25)
                self.assertEqual(ranking.generation, 1)

    def test_listed_ids_with_unknown_ones_and_payloads(self):
        query = self.queries[1]
        ordinals = [80, 3, 41, 0, 89]
        ids = [self.text.ids[o] for o in ordinals]
        ranking = self.client.rerank("text", query, ids, top_k=5, payloads=True)
        self.expect(self.text, ranking, query, ordinals, 5)
        self.assertEqual([d.payload["title"] for d in ranking], [f"Título {d.id}" for d in ranking])
        self.assertEqual(self.client.rerank("text", query, ids + ["nobody"]).missing, ["nobody"])
        self.assertEqual(self.client.rerank("numbers", query, [1000, -5]).missing, [-5])

    def test_ids_may_be_numpy_values(self):
        query = self.queries[1]
        ordinals = [50, 3, 41]
        numbers = [self.numbers.ids[o] for o in ordinals]
        mixed = [np.int64(numbers[0]), numbers[1], np.int16(numbers[2])]
        for ids in (np.array(numbers), mixed, iter(numbers)):
            self.expect(self.numbers, self.client.rerank("numbers", query, ids), query, ordinals, 10)
        texts = [self.text.ids[o] for o in ordinals]
        for ids in (np.array(texts), list(np.array(texts))):
            self.expect(self.text, self.client.rerank("text", query, ids), query, ordinals, 10)

    def test_ids_that_are_neither_all_strings_nor_all_integers_are_refused(self):
        for ids, position, shown in (
            ([1000.7], 0, "1000.7"),
            ([1000, 1001.0], 1, "1001.0"),
            (np.array([1000.0, 1001.0]), 0, "1000.0"),
            ([1000, "1001"], 1, "'1001'"),
            ([1, 2, "a"], 2, "'a'"),
            (["a", 1], 1, "1"),
            (["a", b"b"], 1, "b'b'"),
            ([True], 0, "True"),
            ([1, np.True_], 1, repr(np.True_)),
            (np.array([True]), 0, "True"),
            ([None], 0, "None"),
            (np.array([[1, 2], [3, 4]]), 0, "[1, 2]"),
        ):
            with self.subTest(ids=ids), self.assertRaises(ValueError) as raised:
                self.client.rerank("numbers", self.queries[0], ids)
            self.assertEqual(
                str(raised.exception), f"ids[{position}] is {shown}; ids must be all strings or all integers"
            )

    def test_no_ids_and_one_bare_id_are_refused(self):
        for ids in ([], (), np.array([], np.int64), iter(())):
            with self.subTest(ids=ids), self.assertRaisesRegex(ValueError, "^ids is empty; at least one candidate"):
                self.client.rerank("text", self.queries[0], ids)
        for ids in ("doc/001", b"doc/001", np.array("doc/001")):
            with self.subTest(ids=ids), self.assertRaisesRegex(ValueError, "this is one string"):
                self.client.rerank("text", self.queries[0], ids)

    def test_weights_and_several_queries_in_one_call(self):
        weights = [np.linspace(0.5, 2, len(q)).astype(np.float32) for q in self.queries]
        rankings = self.client.rerank_many("text", self.queries, weights=weights, top_k=10)
        for ranking, query, w in zip(rankings, self.queries, weights):
            self.expect(self.text, ranking, query, range(len(self.text.ids)), 10, w)

    def recorder(self, **methods):
        """The port of a server in this process whose methods are these functions of a request and its context."""
        import concurrent.futures

        import grpc
        from maxsim.v1 import rerank_pb2_grpc

        servicer = rerank_pb2_grpc.RerankerServicer()
        vars(servicer).update(methods)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        rerank_pb2_grpc.add_RerankerServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        return port

    def test_calls_carry_the_clients_name(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        calls = []

        def record(request, context):
            calls.append(dict(context.invocation_metadata()))
            return rerank_pb2.GetInfoResponse()

        port = self.recorder(GetInfo=record)
        for arguments in (
            {},
            {"client_id": "shop"},
            {"client_id": "shop", "token": "secret"},
            {"client_id": "shop", "client_key": "x-tenant"},
        ):
            with Client(f"127.0.0.1:{port}", **arguments) as client:
                client.info()
        self.assertEqual([call.get("x-client-id") for call in calls], [None, "shop", "shop", None])
        self.assertEqual([call.get("x-tenant") for call in calls], [None, None, None, "shop"])
        self.assertEqual([call.get("authorization") for call in calls], [None, None, "Bearer secret", None])

    def secured_server(self):
        """A server of "text" that wants the token "secret" and may load what lies in the folder of the tests."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.temporary.name))
        (folder / "tokens").write_text("secret\n")
        flags = ["--auth.tokens_file", folder / "tokens", "--store.allowed_roots", self.temporary.name]
        server = Server(folder, {"text": self.collections["text"]}, flags)
        self.addCleanup(server.stop)
        return server

    def test_every_call_carries_the_token(self):
        import grpc
        from maxsim.v1 import admin_pb2, rerank_pb2
        from maxsim import Client

        server = self.secured_server()
        request = rerank_pb2.RerankRequest(request_id="s-1", collection="nowhere")

        def raw_calls(client):
            """Each as a function that makes it and returns what the server says of it."""
            listing = admin_pb2.ListCollectionsRequest()
            return {
                "blocking": lambda: client.admin.ListCollections(listing).collections[0].name,
                "future": lambda: client.admin.ListCollections.future(listing).result().collections[0].name,
                "with_call": lambda: client.admin.ListCollections.with_call(listing)[0].collections[0].name,
                "GetInfo": lambda: client.reranker.GetInfo(rerank_pb2.GetInfoRequest()).collections[0].name,
                "stream": lambda: next(client.reranker.RerankStream(iter([request]))).request_id,
                "helper": lambda: client.rerank("text", self.queries[0], top_k=1).documents[0].id[:4],
            }

        with Client(server.address, token="secret", client_id="shop") as client:
            answers = {name: call() for name, call in raw_calls(client).items()}
            self.assertEqual(answers.pop("stream"), "s-1")
            self.assertEqual(answers.pop("helper"), "doc/")
            self.assertEqual(set(answers.values()), {"text"})
            # A call's own metadata wins, and is not sent beside the client's.
            with self.assertRaises(grpc.RpcError) as raised:
                client.admin.ListCollections(
                    admin_pb2.ListCollectionsRequest(), metadata=[("authorization", "Bearer wrong")]
                )
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        with Client(server.address) as client:
            for name, call in raw_calls(client).items():
                with self.subTest(name), self.assertRaises(grpc.RpcError) as raised:
                    call()
                self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_collections_are_loaded_reloaded_and_unloaded(self):
        import grpc
        from maxsim import Client

        with Client(self.secured_server().address, token="secret") as client:
            info = client.load("second", str(self.collections["numbers"]), residency="host")
            self.assertEqual((info.name, info.num_documents, info.residency), ("second", 60, "host"))
            self.expect(self.numbers, client.rerank("second", self.queries[1]), self.queries[1], range(60), 10)
            self.assertFalse(client.reload("second"))
            client.unload("second")
            self.assertEqual([c.name for c in client.collections()], ["text"])
            for call in (lambda: client.reload("second"), lambda: client.unload("second")):
                with self.assertRaises(grpc.RpcError) as raised:
                    call()
                self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_unknown_ids_may_be_an_error(self):
        import grpc

        query = self.queries[0]
        self.assertEqual(self.client.rerank("text", query, ["nobody"], missing_policy="report").missing, ["nobody"])
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("text", query, ["nobody"], missing_policy="fail")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        for wrong in ({"missing_policy": "ignore"}, {"priority": "urgent"}):
            self.assertRaises(ValueError, self.client.rerank, "text", query, **wrong)

    def test_options_of_a_request_arrive(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        requests = []

        def record(request, context):
            requests.append(request)
            return rerank_pb2.RerankResponse(results=[rerank_pb2.QueryResult()])

        with Client(f"127.0.0.1:{self.recorder(Rerank=record)}") as client:
            client.rerank("c", self.queries[0])
            client.rerank("c", self.queries[0], priority="low", missing_policy="fail", request_id="r-7")
        self.assertEqual([r.priority for r in requests], [rerank_pb2.PRIORITY_NORMAL, rerank_pb2.PRIORITY_LOW])
        self.assertEqual(
            [r.missing_policy for r in requests], [rerank_pb2.MISSING_POLICY_REPORT, rerank_pb2.MISSING_POLICY_FAIL]
        )
        self.assertEqual([r.request_id for r in requests], ["", "r-7"])

    def test_calls_go_to_all_addresses_in_turn(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        calls = []

        def recorder(number):
            def record(request, context):
                calls.append(number)
                return rerank_pb2.GetInfoResponse()

            return self.recorder(GetInfo=record)

        with Client(f"ipv4:127.0.0.1:{recorder(1)},127.0.0.1:{recorder(2)}") as client:
            limit = time.monotonic() + 30
            while set(calls) != {1, 2} and time.monotonic() < limit:
                client.info()
        self.assertEqual(set(calls), {1, 2})

    def test_queries_are_rounded_to_the_storage_type(self):
        query = np.random.default_rng(4).standard_normal((5, DIM))  # float64
        ranking = self.client.rerank("text", query, top_k=5)
        self.expect(self.text, ranking, query.astype(np.float32).astype(np.float16), range(len(self.text.ids)), 5)
        ranking = self.client.rerank("numbers", query, top_k=5)
        self.expect(self.numbers, ranking, query.astype(np.float32), range(len(self.numbers.ids)), 5)

    def test_alignments_name_the_best_document_token(self):
        query = self.queries[2]
        for document in self.client.rerank("text", query, top_k=3, alignments=True):
            similarities = query.astype(np.float64) @ self.text.document(self.text.ids.index(document.id)).T
            np.testing.assert_array_equal(document.matches, similarities.argmax(axis=1))
            np.testing.assert_allclose(document.similarities, similarities.max(axis=1), rtol=0, atol=1e-4)

    def test_documents_that_come_with_the_call(self):
        query = self.queries[1]
        ordinals = [5, 17, 2]
        documents = [self.text.document(o).astype(np.float16) for o in ordinals]
        ranking = self.client.rerank_many("text", [query], documents=documents)[0]
        scores, _ = self.text.scores(query)
        self.assertEqual([d.position for d in ranking], sorted(range(3), key=lambda p: -scores[ordinals[p]]))
        self.assertEqual([d.id for d in ranking], [None] * 3)

    def test_errors_carry_the_servers_code_and_message(self):
        import grpc

        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("text", np.ones((2, DIM + 8), np.float32))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn(str(DIM + 8), raised.exception.details())
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("nowhere", self.queries[0])
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        for tokens in (np.ones(DIM), np.ones((1, DIM), np.int32)):
            self.assertRaises(ValueError, self.client.rerank, "text", tokens)

    def test_info_and_collections(self):
        self.assertEqual({c.name for c in self.client.info().collections}, {"text", "numbers"})
        by_name = {c.name: c for c in self.client.collections()}
        self.assertEqual(by_name["text"].num_documents, 90)
        self.assertEqual(by_name["text"].num_tokens, int(self.text.lengths.sum()))

    def test_a_stream_as_the_readme_shows(self):
        from maxsim.v1 import rerank_pb2 as pb
        from maxsim import token_matrix

        requests = [
            pb.RerankRequest(
                request_id=f"query-{i}",
                collection="text",
                queries=[pb.Query(tokens=token_matrix(tokens))],
                candidates=pb.Candidates(string_ids=pb.StringIds(ids=self.text.ids[:20])),
                top_k=3,
            )
            for i, tokens in enumerate(self.queries)
        ]
        answers = {answer.request_id: answer for answer in self.client.reranker.RerankStream(iter(requests))}
        self.assertEqual(set(answers), {request.request_id for request in requests})
        for i, query in enumerate(self.queries):
            answer = answers[f"query-{i}"]
            self.assertEqual((answer.code, answer.message), (0, ""))
            scores, _ = self.text.scores(query)
            order = np.argsort(-scores[:20], kind="stable")[:3]
            self.assertEqual(list(answer.response.results[0].string_ids.ids), [self.text.ids[o] for o in order])

    def test_bare_stubs_as_the_readme_shows(self):
        import grpc
        from maxsim.v1 import rerank_pb2 as pb
        from maxsim.v1 import rerank_pb2_grpc

        query = self.queries[1].astype("<f4")
        with grpc.insecure_channel(self.server.address) as channel:
            response = rerank_pb2_grpc.RerankerStub(channel).Rerank(
                pb.RerankRequest(
                    request_id="r-1",
                    collection="text",
                    queries=[
                        pb.Query(
                            tokens=pb.TokenMatrix(
                                dtype=pb.DATA_TYPE_F32,
                                num_tokens=query.shape[0],
                                dim=query.shape[1],
                                data=query.tobytes(),
                            )
                        )
                    ],
                    candidates=pb.Candidates(whole_collection=pb.WholeCollection()),
                    top_k=5,
                )
            )
        scores, magnitudes = self.text.scores(query)
        result = response.results[0]
        order = np.argsort(-scores, kind="stable")[:5]
        self.assertEqual(response.request_id, "r-1")
        self.assertEqual(list(result.string_ids.ids), [self.text.ids[o] for o in order])
        self.assertTrue(np.all(np.abs(np.array(result.scores) - scores[order]) <= 1e-5 * magnitudes[order]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
