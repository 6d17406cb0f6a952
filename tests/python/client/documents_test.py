"""Tests writes of documents with both clients. The servers run in this process and record the requests.

python documents_test.py
"""

import json
import unittest

import grpc
import numpy as np

from client_fixture import BothTest
from documents_fixture import APPLIED, QUICK, TOKENS, FakeDocuments
from wire_details import refuse

from maxsim import Client, NewDocument, Retry, WriteResult, errors  # noqa: E402
from maxsim.v1 import documents_pb2  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402


class UpsertTest(BothTest):
    def test_documents_of_every_form_arrive_whole(self):
        documents = [
            NewDocument("a", TOKENS, payload={"title": "Título", "n": [1, None]}, version=3),
            {"id": "b", "text": "how do birds fly", "payload": '{"raw":  true}'},
            ("c", TOKENS.astype(np.float32)),
            ("d", "a text", {"title": "d"}),
            {"id": "e", "tokens": [[0.5, 1.0], [1, 2]], "version": np.uint64(2**64 - 1)},
        ]
        for client in self.clients(server := FakeDocuments(self)):
            server.requests.clear()
            server.held.clear()
            server.sequence = 0
            written = client.upsert("docs", iter(documents))
            self.assertEqual(list(written), [WriteResult("applied", i + 1) for i in range(5)])
            self.assertEqual((written.sequence, written.encoded_tokens, written.num_applied), (5, 20, 5))
            [request] = server.requests
            self.assertEqual(request.collection, "docs")
            a, b, c, d, e = request.documents
            self.assertEqual((a.string_id, a.version, json.loads(a.payload)["title"]), ("a", 3, "Título"))
            self.assertEqual((a.tokens.dtype, a.tokens.num_tokens, a.tokens.dim), (pb.DATA_TYPE_F16, 3, 8))
            self.assertEqual(a.tokens.data, TOKENS.tobytes())
            self.assertEqual((b.text, b.payload, b.version), ("how do birds fly", '{"raw":  true}', 0))
            self.assertEqual((c.tokens.dtype, c.payload), (pb.DATA_TYPE_F32, ""))
            self.assertEqual((d.text, d.payload, d.HasField("tokens")), ("a text", '{"title": "d"}', False))
            self.assertEqual((e.tokens.num_tokens, e.version), (2, 2**64 - 1))

    def test_an_older_version_is_stale(self):
        for client in self.clients(server := FakeDocuments(self)):
            server.held.clear()
            client.upsert("docs", [NewDocument("a", TOKENS, version=5)])
            written = client.upsert("docs", [NewDocument("a", TOKENS, version=5), NewDocument("b", TOKENS)])
            self.assertEqual([result.outcome for result in written], ["stale", "applied"])
            self.assertEqual(written[0].sequence, 0)

    def test_integers_of_numpy_are_ids(self):
        for client in self.clients(server := FakeDocuments(self)):
            server.requests.clear()
            client.upsert("docs", [(np.int64(-7), TOKENS), (2**63 - 1, TOKENS)])
            self.assertEqual([one.int_id for one in server.requests[0].documents], [-7, 2**63 - 1])

    def test_requests_are_cut_by_the_servers_bytes_and_hold_as_many_documents_as_fit(self):
        def at_most(size, num_documents):
            server = FakeDocuments(self, max_request_bytes=size)
            with Client(server.address) as client:
                client.upsert("docs", [(f"{i:04}", TOKENS) for i in range(num_documents)])
            return [request.ByteSize() for request in server.requests], server

        [whole], _ = at_most(1 << 20, 20)
        frame = 6 * 20  # bytes reserved for the lengths of documents, which take fewer
        sizes, server = at_most(whole // 3 + frame, 20)
        self.assertTrue(3 <= len(sizes) <= 4, sizes)
        self.assertTrue(all(size <= whole // 3 + frame for size in sizes), sizes)
        self.assertEqual([*server.held], [f"{i:04}" for i in range(20)])

    def test_requests_have_ten_thousand_documents_at_most(self):
        one = np.ones((1, 1), np.float16)
        for client in self.clients(server := FakeDocuments(self, max_request_bytes=64 << 20)):
            server.requests.clear()
            written = client.upsert("docs", ((i, one) for i in range(20_001)))
            self.assertEqual([len(request.documents) for request in server.requests], [10_000, 10_000, 1])
            self.assertEqual(len(written), 20_001)

    def test_the_server_is_asked_for_its_limits_once(self):
        server = FakeDocuments(self)
        with Client(server.address) as client:
            for i in range(3):
                client.upsert("docs", [(str(i), TOKENS)])
        self.assertEqual(server.num_infos, 1)

    def test_a_document_that_is_larger_than_any_request_is_named(self):
        for client in self.clients(FakeDocuments(self, max_request_bytes=2000)):
            large = np.ones((30, 64), np.float16)
            with self.assertRaisesRegex(ValueError, r"documents\[1\] takes 3\d\d\d bytes .*_bytes is 2000"):
                client.upsert("docs", [("a", TOKENS), ("b", large)])

    def test_a_wrong_argument_is_named_and_nothing_is_written(self):
        cases = [
            ([("a", TOKENS), ("b", TOKENS[0])], r"documents\[1\]\.tokens has shape \[8\]"),
            ([{"tokens": TOKENS}], r"documents\[0\] has no id"),
            ([{"id": "a", "token": TOKENS}], r"documents\[0\] has 'token'; a document has id, tokens, text"),
            ([NewDocument("a")], r"documents\[0\] has neither tokens nor text"),
            ([NewDocument("a", TOKENS, text="t")], r"documents\[0\] has both tokens and text"),
            ([NewDocument(1.5, TOKENS)], r"documents\[0\]\.id is 1\.5; must be a string or an integer of 64 bits"),
            ([NewDocument(2**63, TOKENS)], r"documents\[0\]\.id is 9223372036854775808"),
            ([NewDocument(True, TOKENS)], r"documents\[0\]\.id is True"),
            ([NewDocument("\ud800", TOKENS)], r"documents\[0\]\.id .* half of a surrogate pair"),
            ([NewDocument("a", TOKENS, payload=[1])], r"documents\[0\]\.payload is \[1\]; must be a mapping"),
            ([NewDocument("a", TOKENS, payload={"x": np.ones(2)})], r"documents\[0\]\.payload .* is not JSON"),
            ([NewDocument("a", TOKENS, payload={"x": float("nan")})], r"documents\[0\]\.payload .* is not JSON"),
            ([NewDocument("a", TOKENS, version=0)], r"documents\[0\]\.version is 0; must be an integer from 1 to"),
            ([NewDocument("a", TOKENS, version=2**64)], r"documents\[0\]\.version is 1844"),
            (["a"], r"documents\[0\] is 'a'; must be a maxsim\.NewDocument, a mapping"),
            ([("a", TOKENS, {}, 3)], r"documents\[0\] is \("),
            ({"id": "a", "tokens": TOKENS}, r"documents is .*; must be an iterable of documents"),
            (NewDocument("a", TOKENS), r"documents is .*; must be an iterable of documents"),
            ("abc", r"documents is 'abc'; must be an iterable of documents"),
            ([], "documents is empty; at least one document is needed"),
        ]
        for client in self.clients(server := FakeDocuments(self)):
            for documents, message in cases:
                with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                    client.upsert("docs", documents)
            for collection in (None, "", 3):
                with self.assertRaisesRegex(ValueError, "collection is .*; must be the name of a collection"):
                    client.upsert(collection, [("a", TOKENS)])
            self.assertEqual(server.requests, [])

    def test_a_later_requests_error_names_the_document_among_all(self):
        def upsert(request, context):
            if request.documents[0].int_id == 0:
                results = [documents_pb2.WriteResult(outcome=APPLIED, sequence=1)] * len(request.documents)
                return documents_pb2.UpsertResponse(results=results, sequence=1)
            refuse(context, "documents[3].payload", "2000000 bytes; the limit is 1048576", limit="1048576")

        one = np.ones((1, 1), np.float16)
        for client in self.clients(FakeDocuments(self, max_request_bytes=64 << 20, Upsert=upsert)):
            with self.assertRaises(errors.InvalidArgument) as caught:
                client.upsert("docs", [(i, one) for i in range(10_005)])
            self.assertEqual(caught.exception.field, "documents[10003].payload")
            self.assertEqual((caught.exception.reason, caught.exception.limit), ("INVALID_FIELD", 1_048_576))
            self.assertTrue(caught.exception.message.startswith("documents[10003].payload: 2000000"))
            self.check_cause(caught.exception)

    def test_unavailable_is_retried_and_a_full_memory_where_it_is_wanted(self):
        attempts = []

        def upsert(request, context):
            attempts.append(request)
            if len(attempts) == 1:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the log cannot be written")
            if len(attempts) == 2:
                context.set_trailing_metadata([("grpc-retry-pushback-ms", "10")])
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the memory for changed documents is full")
            results = [documents_pb2.WriteResult(outcome=APPLIED, sequence=9)]
            return documents_pb2.UpsertResponse(results=results, sequence=9)

        patient = Retry(max_attempts=3, initial_backoff=0.01, resource_exhausted=True)
        for client in self.clients(server := FakeDocuments(self, Upsert=upsert), retry=patient):
            attempts.clear()
            self.assertEqual(client.upsert("docs", [("a", TOKENS)]).sequence, 9)
            self.assertEqual([one.SerializeToString() for one in attempts], [attempts[0].SerializeToString()] * 3)
        with Client(server.address, retry=QUICK) as client, self.assertRaises(errors.ResourceExhausted):
            attempts.clear()
            client.upsert("docs", [("a", TOKENS)])

    def test_a_collection_that_is_not_live_is_a_failed_precondition(self):
        def refuse(request, context):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "collection 'docs' is not live")

        for client in self.clients(FakeDocuments(self, Upsert=refuse, Delete=refuse)):
            with self.assertRaisesRegex(errors.FailedPrecondition, "not live") as caught:
                client.upsert("docs", [("a", TOKENS)])
            self.check_cause(caught.exception)
            with self.assertRaisesRegex(errors.FailedPrecondition, "not live") as caught:
                client.delete("docs", ["a"])
            self.check_cause(caught.exception)


if __name__ == "__main__":
    unittest.main(verbosity=2)
