"""maxsim_client, and bare stubs made with grpcio-tools, against the real programs: answers equal NumPy in FP64.

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
PYTHON_CLIENT = pathlib.Path(__file__).resolve().parents[3] / "client" / "python"
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

    def __init__(self, folder, collections):
        ports = folder / "ports.json"
        command = [PROGRAMS / "maxsimd", "--grpc.address", "127.0.0.1:0", "--http.address", "127.0.0.1:0"]
        command += ["--backend", "cpu", "--server.shutdown_delay", "0s", "--server.port_file", ports]
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
        stubs = folder / "stubs"
        subprocess.run([sys.executable, str(PYTHON_CLIENT / "generate.py"), str(stubs)], check=True)
        sys.path[:0] = [str(stubs), str(PYTHON_CLIENT)]
        import maxsim_client

        cls.text = Collection(seed=1, num_documents=90, int_ids=False)
        cls.numbers = Collection(seed=2, num_documents=60, int_ids=True)
        collections = {"text": cls.text.build(folder, "text", "f16"), "numbers": cls.numbers.build(folder, "numbers", "f32")}
        cls.server = Server(folder, collections)
        cls.addClassCleanup(cls.server.stop)
        cls.client = maxsim_client.Client(cls.server.address)
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

    def test_weights_and_several_queries_in_one_call(self):
        weights = [np.linspace(0.5, 2, len(q)).astype(np.float32) for q in self.queries]
        rankings = self.client.rerank_many("text", self.queries, weights=weights, top_k=10)
        for ranking, query, w in zip(rankings, self.queries, weights):
            self.expect(self.text, ranking, query, range(len(self.text.ids)), 10, w)

    def test_calls_carry_the_clients_name(self):
        import concurrent.futures

        import grpc
        from maxsim.v1 import rerank_pb2, rerank_pb2_grpc
        from maxsim_client import Client

        calls = []

        class Recorder(rerank_pb2_grpc.RerankerServicer):
            def GetInfo(self, request, context):
                calls.append(dict(context.invocation_metadata()))
                return rerank_pb2.GetInfoResponse()

        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        rerank_pb2_grpc.add_RerankerServicer_to_server(Recorder(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        for arguments in ({}, {"client_id": "shop"}, {"client_id": "shop", "token": "secret"}):
            with Client(f"127.0.0.1:{port}", **arguments) as client:
                client.info()
        self.assertEqual([call.get("x-client-id") for call in calls], [None, "shop", "shop"])
        self.assertEqual([call.get("authorization") for call in calls], [None, None, "Bearer secret"])

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
