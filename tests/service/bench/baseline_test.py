"""Runs bench/serving/baseline/server.py on the CPU with collections that maxsim-shard built, and compares its answers
with NumPy's.

    baseline_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin").resolve()
sys.path.insert(0, str(ROOT / "client/python"))
sys.path.insert(0, str(ROOT / "bench/serving/cases"))

from generate import generate  # noqa: E402
from servers import free_port  # noqa: E402

DIM = 24
LENGTHS = np.random.default_rng(1).integers(1, 12, 60)


def documents():
    rows = np.random.default_rng(2).standard_normal((LENGTHS.sum(), DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float16)


# Lengths for a second collection of the same vectors. The baseline has separate code for documents of equal length.
SAME = np.full(60, 5)


def reference(query, ordinals, lengths):
    ends = np.concatenate([[0], np.cumsum(lengths)])
    rows = documents().astype(np.float64)
    return np.array([(query.astype(np.float64) @ rows[ends[n] : ends[n + 1]].T).max(axis=1).sum() for n in ordinals])


class BaselineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.temporary.name)
        generate(folder / "stubs")
        sys.path.insert(0, str(folder / "stubs"))
        from maxsim.v1 import rerank_pb2, rerank_pb2_grpc

        cls.pb = rerank_pb2
        np.save(folder / "tokens.npy", documents())
        np.save(folder / "lengths.npy", LENGTHS)
        np.save(folder / "same-tokens.npy", documents()[: SAME.sum()])
        np.save(folder / "same-lengths.npy", SAME)
        (folder / "ids.jsonl").write_text("".join(json.dumps({"id": f"doc-{n}"}) + "\n" for n in range(len(LENGTHS))))
        shard = PROGRAMS / "maxsim-shard"
        build = [shard, "build", "--tokens", folder / "tokens.npy", "--lengths", folder / "lengths.npy", "--quiet"]
        subprocess.run([shard, "build", "--tokens", folder / "same-tokens.npy", "--lengths", folder / "same-lengths.npy",
                        "--quiet", "--output", folder / "same"], check=True)  # fmt: skip
        subprocess.run([*build, "--output", folder / "ints"], check=True)
        subprocess.run([*build, "--output", folder / "strings", "--ids", folder / "ids.jsonl"], check=True)
        for source, target in (("ints", "quantised"), ("same", "same-quantised")):
            subprocess.run([shard, "quantize", folder / source, folder / target, "--quiet", "--no-comparison"], check=True)
        cls.servers, cls.stubs = [], {}
        for name, storage, collections in (
            ("f16", "f16", ("ints", "strings", "same")),
            ("i8", "i8", ("ints", "quantised", "same", "same-quantised")),
        ):
            port, ready = free_port(), folder / f"{name}.ready"
            command = [sys.executable, ROOT / "bench/serving/baseline/server.py", "--port", port, "--storage", storage,
                       "--device", "cpu", "--ready-file", ready, "--warm-candidates", 5, "--warm-query-tokens", 4]  # fmt: skip
            for collection in collections:
                command += ["--collection", f"{collection}={folder / collection}"]
            server = subprocess.Popen(list(map(str, command)))
            cls.servers.append(server)
            deadline = time.monotonic() + 120
            while not ready.exists():
                assert server.poll() is None, "the baseline ended"
                assert time.monotonic() < deadline, "the baseline is not ready"
                time.sleep(0.05)
            cls.stubs[name] = rerank_pb2_grpc.RerankerStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.terminate()
            server.wait()
        cls.temporary.cleanup()

    def request(self, collection, queries, ids=None, top_k=5):
        request = self.pb.RerankRequest(collection=collection, top_k=top_k, request_id="r")
        for query in queries:
            data = np.ascontiguousarray(query)
            kind = self.pb.DATA_TYPE_F16 if data.dtype == np.float16 else self.pb.DATA_TYPE_F32
            request.queries.add(tokens=self.pb.TokenMatrix(dtype=kind, num_tokens=len(data), dim=DIM, data=data.tobytes()))
        if ids is None:
            request.candidates.whole_collection.SetInParent()
        elif ids and isinstance(ids[0], str):
            request.candidates.string_ids.ids.extend(ids)
        else:
            request.candidates.int_ids.ids.extend(ids)
        return request

    def queries(self, number, tokens=4, dtype=np.float32):
        rows = np.random.default_rng(number).standard_normal((number, tokens, DIM))
        return (rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float16).astype(dtype)

    def check(self, result, query, ordinals, tolerance, positions=None, lengths=LENGTHS):
        expected = reference(query, ordinals, lengths)
        order = np.argsort(-expected, kind="stable")[: len(result.scores)]
        np.testing.assert_allclose(result.scores, expected[order], atol=tolerance)
        places = np.arange(len(ordinals)) if positions is None else np.asarray(positions)
        by_position = dict(zip(places.tolist(), expected))
        for score, position in zip(result.scores, result.positions):
            self.assertAlmostEqual(score, by_position[position], delta=tolerance)

    def test_lists_of_integer_ids_in_the_order_that_was_sent(self):
        for name, collection, tolerance in (("f16", "ints", 2e-3), ("i8", "ints", 5e-2), ("i8", "quantised", 5e-2),
                                            ("f16", "same", 2e-3), ("i8", "same", 5e-2), ("i8", "same-quantised", 5e-2)):  # fmt: skip
            with self.subTest(name=name, collection=collection):
                (query,) = self.queries(1)
                ids = [7, 3, 59, 0, 21, 4]
                response = self.stubs[name].Rerank(self.request(collection, [query], ids))
                self.assertEqual((response.request_id, response.generation), ("r", 1))
                lengths = SAME if collection.startswith("same") else LENGTHS
                self.check(response.results[0], query, ids, tolerance, lengths=lengths)
                self.assertEqual([ids[position] for position in response.results[0].positions],
                                 list(response.results[0].int_ids.ids))  # fmt: skip

    def test_strings_missing_and_repeated_ids(self):
        (query,) = self.queries(1, dtype=np.float16)
        ids = ["doc-7", "nobody", "doc-3", "doc-7", "nothing", "nobody"]
        result = self.stubs["f16"].Rerank(self.request("strings", [query], ids)).results[0]
        self.check(result, query, [7, 3], 2e-3, positions=[0, 2])
        self.assertEqual(list(result.missing_string_ids.ids), ["nobody", "nothing"])
        self.assertEqual(set(result.string_ids.ids), {"doc-7", "doc-3"})

    def test_several_queries_and_the_whole_collection(self):
        queries = self.queries(3)
        for name, collection, tolerance in (("f16", "ints", 2e-3), ("i8", "quantised", 5e-2), ("f16", "same", 2e-3)):
            response = self.stubs[name].Rerank(self.request(collection, queries, top_k=100))
            lengths = SAME if collection == "same" else LENGTHS
            for query, result in zip(queries, response.results):
                self.assertEqual(len(result.scores), len(LENGTHS))
                self.check(result, query, list(range(len(LENGTHS))), tolerance, lengths=lengths)

    def test_requests_that_come_together_get_their_own_answers(self):
        queries = self.queries(20)
        lists = [list(np.random.default_rng(n).permutation(60)[: 3 + n]) for n in range(20)]
        for collection, lengths in (("ints", LENGTHS), ("same", SAME)):
            calls = [self.stubs["f16"].Rerank.future(self.request(collection, [query], [int(i) for i in ids], top_k=2))
                     for query, ids in zip(queries, lists)]  # fmt: skip
            for call, query, ids in zip(calls, queries, lists):
                self.check(call.result().results[0], query, ids, 2e-3, lengths=lengths)

    def test_a_request_without_a_known_candidate_is_answered_empty(self):
        result = self.stubs["f16"].Rerank(self.request("strings", self.queries(1), ["nobody"])).results[0]
        self.assertEqual(len(result.scores), 0)
        self.assertEqual(list(result.missing_string_ids.ids), ["nobody"])

    def test_wrong_requests_are_refused_by_name(self):
        for request, code, text in (
            (self.request("nowhere", self.queries(1), [1]), grpc.StatusCode.NOT_FOUND, "nowhere"),
            (self.request("strings", self.queries(1), [1]), grpc.StatusCode.INVALID_ARGUMENT, "ids"),
            (self.request("ints", self.queries(1) * np.inf, [1]), grpc.StatusCode.INVALID_ARGUMENT, "finite"),
        ):
            with self.assertRaises(grpc.RpcError) as caught:
                self.stubs["f16"].Rerank(request)
            self.assertEqual(caught.exception.code(), code)
            self.assertIn(text, caught.exception.details())

    def test_the_collections_are_listed(self):
        info = self.stubs["f16"].GetInfo(self.pb.GetInfoRequest())
        self.assertEqual({(one.name, one.num_documents, one.dim) for one in info.collections},
                         {("ints", 60, DIM), ("strings", 60, DIM), ("same", 60, DIM)})  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
