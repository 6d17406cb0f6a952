"""Tests streams of documents with both clients. The servers run in this process and record the requests.

python document_streams_test.py
"""

import asyncio
import threading
import unittest

import grpc
import numpy as np

from client_fixture import BothTest, Waiting
from documents_fixture import QUICK, TOKENS, FakeDocuments
from wire_details import refuse

from maxsim import NewDocument, errors  # noqa: E402
from maxsim.v1 import documents_pb2  # noqa: E402


class StreamTest(BothTest):
    def test_a_stream_is_cut_into_batches_and_summed_up(self):
        documents = [NewDocument(f"{i % 8}", TOKENS, version=1) for i in range(10)]
        for client in self.clients(server := FakeDocuments(self)):
            server.requests.clear()
            server.held.clear()
            server.sequence = 0
            summary = client.upsert_stream("docs", iter(documents), batch_documents=4)
            self.assertEqual([len(request.documents) for request in server.requests], [4, 4, 2])
            self.assertEqual((summary.num_applied, summary.num_stale, summary.sequence), (8, 2, 8))
            self.assertEqual(summary.num_requests, 3)
            server.requests.clear()
            client.upsert_stream("docs", documents, batch_bytes=1)
            self.assertEqual([len(request.documents) for request in server.requests], [1] * 10)
            self.assertEqual(client.upsert_stream("docs", []).num_requests, 0)

    def test_documents_are_taken_only_as_fast_as_the_server_takes_them(self):
        go, taken = threading.Event(), []

        def stall(requests, context):
            next(requests)
            self.assertTrue(go.wait(60))
            count = 1 + sum(1 for _ in requests)
            return documents_pb2.UpsertStreamResponse(num_requests=count)

        large = np.ones((500, 128), np.float16)  # 128 KB

        def documents():
            for i in range(400):
                taken.append(i)
                yield f"{i}", large

        for client in self.clients(FakeDocuments(self, UpsertStream=stall)):
            go.clear()
            taken.clear()
            threading.Timer(1, go.set).start()
            most = []
            watch = threading.Timer(0.9, lambda: most.append(len(taken)))
            watch.start()
            self.assertEqual(client.upsert_stream("docs", documents(), batch_documents=1).num_requests, 400)
            watch.join()
            self.assertLess(most[0], 200, "gRPC's windows hold some, never all")

    def test_what_the_iterator_raises_is_raised_after_what_came_before(self):
        def broken(last):
            yield from [("a", TOKENS), ("b", TOKENS)]
            if isinstance(last, Exception):
                raise last
            yield last

        for client in self.clients(server := FakeDocuments(self)):
            server.held.clear()
            with self.assertRaisesRegex(OSError, "the disk is gone"):
                client.upsert_stream("docs", broken(OSError("the disk is gone")), batch_documents=1)
            self.assertEqual([*server.held], ["a", "b"])
            with self.assertRaisesRegex(ValueError, r"documents\[2\]\.tokens has shape \[8\]"):
                client.upsert_stream("docs", broken(("c", TOKENS[0])))
            self.assertEqual([*server.held], ["a", "b"])

    def test_an_error_ends_the_stream_and_its_documents(self):
        def refuse(requests, context):
            next(requests)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the memory for changed documents is full")

        taken = []

        def endless():
            while True:
                taken.append(1)
                yield "a", TOKENS

        for client in self.clients(FakeDocuments(self, UpsertStream=refuse), retry=QUICK):
            with self.assertRaisesRegex(errors.ResourceExhausted, "memory for changed documents"):
                client.upsert_stream("docs", endless(), batch_documents=1, timeout=60)
        self.assertTrue(taken)

    def test_a_stream_that_is_refused_between_two_writes_raises_the_servers_error(self):
        async def slow():
            for i in range(3):
                yield f"{i}", TOKENS
                await asyncio.sleep(0.2)

        def upsert_stream(requests, context):
            refuse(context, "documents", "enough")

        client = Waiting(FakeDocuments(self, UpsertStream=upsert_stream).address)
        with self.assertRaisesRegex(errors.InvalidArgument, "enough"):
            client.upsert_stream("docs", slow(), batch_documents=2)
        client.close()

    def test_an_error_names_the_document_among_all(self):
        def upsert_stream(requests, context):
            for _ in zip(range(3), requests):
                pass
            refuse(context, "requests[2].documents[1].payload", "3 bytes, which are not JSON")

        for client in self.clients(FakeDocuments(self, UpsertStream=upsert_stream)):
            with self.assertRaises(errors.InvalidArgument) as caught:
                client.upsert_stream("docs", [("a", TOKENS)] * 20, batch_documents=4)
            self.assertEqual(caught.exception.field, "documents[9].payload")
            self.assertTrue(caught.exception.message.startswith("documents[9].payload: 3 bytes"))

    def test_an_asynchronous_iterator_is_taken(self):
        async def documents():
            for i in range(3):
                yield f"{i}", TOKENS

        server = FakeDocuments(self)
        client = Waiting(server.address)
        self.assertEqual(client.upsert_stream("docs", documents()).num_applied, 3)
        self.assertEqual(len(client.upsert("docs", documents())), 3)
        client.close()

    def test_wrong_arguments_are_named(self):
        for client in self.clients(server := FakeDocuments(self)):
            for arguments, message in (
                ({"batch_documents": 0}, "batch_documents is 0; must be an integer from 1 to 10000"),
                ({"batch_documents": 10_001}, "batch_documents is 10001"),
                ({"batch_bytes": 0}, "batch_bytes is 0; must be an integer of 1 or more"),
                ({"timeout": -1}, "timeout is -1"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    client.upsert_stream("docs", [("a", TOKENS)], **arguments)
            with self.assertRaisesRegex(ValueError, "documents is 3; must be an iterable of documents"):
                client.upsert_stream("docs", 3)
            self.assertEqual(server.requests, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
