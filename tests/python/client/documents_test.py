"""Writing and reading documents with both clients, over servers in this process that keep what they are sent.

python documents_test.py
"""

import json
import threading
import unittest

import grpc
import numpy as np

from client_fixture import BothTest, Waiting, run_async, serve
from wire_details import refuse

import maxsim  # noqa: E402
from maxsim import AsyncClient, Client, NewDocument, Retry, WriteResult, errors  # noqa: E402
from maxsim.v1 import admin_pb2, documents_pb2  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402

TOKENS = np.arange(24, dtype=np.float16).reshape(3, 8)
APPLIED, STALE, NOT_FOUND = 1, 2, 3
QUICK = Retry(max_attempts=3, initial_backoff=0.01, max_backoff=0.02)


class FakeDocuments:
    """A live collection of documents without vectors."""

    def __init__(self, test, max_request_bytes=1 << 20, **methods):
        self.requests, self.num_infos, self.sequence, self.held = [], 0, 0, {}
        self.max_request_bytes = max_request_bytes
        own = {name: getattr(self, name) for name in ("GetInfo", "Upsert", "UpsertStream", "Delete", "Get")}
        self.address = f"127.0.0.1:{serve(test, **{**own, **methods})}"

    def GetInfo(self, request, context):
        self.num_infos += 1
        return pb.GetInfoResponse(limits=pb.Limits(max_request_bytes=self.max_request_bytes))

    def write(self, document):
        id = document.string_id or document.int_id
        if document.version and id in self.held and self.held[id].version >= document.version:
            return documents_pb2.WriteResult(outcome=STALE)
        self.held[id] = document
        self.sequence += 1
        return documents_pb2.WriteResult(outcome=APPLIED, sequence=self.sequence)

    def Upsert(self, request, context):
        self.requests.append(request)
        results = [self.write(document) for document in request.documents]
        texts = sum(bool(document.text) for document in request.documents)
        return documents_pb2.UpsertResponse(results=results, sequence=self.sequence, encoded_tokens=10 * texts)

    def UpsertStream(self, requests, context):
        summary = documents_pb2.UpsertStreamResponse()
        for request in requests:
            results = self.Upsert(request, context).results
            summary.num_requests += 1
            summary.num_applied += sum(result.outcome == APPLIED for result in results)
            summary.num_stale += sum(result.outcome == STALE for result in results)
        summary.sequence = self.sequence
        return summary

    def Delete(self, request, context):
        self.requests.append(request)
        response = documents_pb2.DeleteResponse()
        for id in request.string_ids.ids or request.int_ids.ids:
            found = self.held.pop(id, None)
            self.sequence += found is not None
            response.results.add(outcome=APPLIED if found else NOT_FOUND, sequence=self.sequence if found else 0)
        response.sequence = self.sequence
        return response

    def Get(self, request, context):
        self.requests.append(request)
        response = documents_pb2.GetResponse(generation=4, sequence=self.sequence)
        for id in request.string_ids.ids:
            if id not in self.held:
                response.missing_string_ids.ids.append(id)
                continue
            held = self.held[id]
            tokens = held.tokens if request.return_tokens else None
            one = documents_pb2.StoredDocument(
                string_id=id, num_tokens=held.tokens.num_tokens, payload=held.payload, version=held.version
            )
            if tokens:
                one.tokens.CopyFrom(tokens)
            one.sequence = 7
            response.documents.append(one)
        return response


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
        frame = 6 * 20  # what is reserved for the lengths of documents, which take fewer bytes
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
            ([("a", TOKENS), ("b", TOKENS[0])], r"documents\[1\]\.tokens has the shape \[8\]"),
            ([{"tokens": TOKENS}], r"documents\[0\] has no id"),
            ([{"id": "a", "token": TOKENS}], r"documents\[0\] has 'token'; a document has id, tokens, text"),
            ([NewDocument("a")], r"documents\[0\] has neither tokens nor text"),
            ([NewDocument("a", TOKENS, text="t")], r"documents\[0\] has both tokens and text"),
            ([NewDocument(1.5, TOKENS)], r"documents\[0\]\.id is 1\.5; it is a string or an integer of 64 bits"),
            ([NewDocument(2**63, TOKENS)], r"documents\[0\]\.id is 9223372036854775808"),
            ([NewDocument(True, TOKENS)], r"documents\[0\]\.id is True"),
            ([NewDocument("\ud800", TOKENS)], r"documents\[0\]\.id .* half of a surrogate pair"),
            ([NewDocument("a", TOKENS, payload=[1])], r"documents\[0\]\.payload is \[1\]; it is a mapping"),
            ([NewDocument("a", TOKENS, payload={"x": np.ones(2)})], r"documents\[0\]\.payload .* is no JSON"),
            ([NewDocument("a", TOKENS, payload={"x": float("nan")})], r"documents\[0\]\.payload .* is no JSON"),
            ([NewDocument("a", TOKENS, version=0)], r"documents\[0\]\.version is 0; it is an integer from 1 to"),
            ([NewDocument("a", TOKENS, version=2**64)], r"documents\[0\]\.version is 1844"),
            (["a"], r"documents\[0\] is 'a'; it is a maxsim\.NewDocument, a mapping"),
            ([("a", TOKENS, {}, 3)], r"documents\[0\] is \("),
            ({"id": "a", "tokens": TOKENS}, r"documents is .*; it is an iterable of documents"),
            (NewDocument("a", TOKENS), r"documents is .*; it is an iterable of documents"),
            ("abc", r"documents is 'abc'; it is an iterable of documents"),
            ([], "documents is empty; at least one document is needed"),
        ]
        for client in self.clients(server := FakeDocuments(self)):
            for documents, message in cases:
                with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                    client.upsert("docs", documents)
            for collection in (None, "", 3):
                with self.assertRaisesRegex(ValueError, "collection is .*; it is the name of a collection"):
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
            with self.assertRaisesRegex(errors.FailedPrecondition, "not live"):
                client.upsert("docs", [("a", TOKENS)])
            with self.assertRaisesRegex(errors.FailedPrecondition, "not live"):
                client.delete("docs", ["a"])


class CollectionTest(BothTest):
    def test_a_collections_own_calls_name_it(self):
        server = FakeDocuments(self)
        with Client(server.address) as client:
            notes = client.collection("notes")
            self.assertEqual(notes.upsert([("a", TOKENS)]).num_applied, 1)
            self.assertEqual(notes.upsert_stream([("b", TOKENS)], batch_documents=1, batch_bytes=9).num_applied, 1)
            self.assertEqual(len(notes.get(["a", "b"], return_tokens=True, min_sequence=1)), 2)
            self.assertEqual(notes.delete(["a"], version=3)[0].outcome, "applied")
            with self.assertRaisesRegex(ValueError, "collection is ''; it is the name of a collection"):
                client.collection(None).upsert([("a", TOKENS)])

        async def asynchronous():
            async with AsyncClient(server.address) as client:
                notes = client.collection("notes")
                await notes.upsert([("a", TOKENS)])
                await notes.upsert_stream([("b", TOKENS)], batch_documents=1, batch_bytes=9)
                self.assertEqual(len(await notes.get(["a", "b"])), 2)
                self.assertEqual((await notes.delete(["a"]))[0].outcome, "applied")

        run_async(asynchronous())
        self.assertEqual({request.collection for request in server.requests}, {"notes"})


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
            with self.assertRaisesRegex(ValueError, r"documents\[2\]\.tokens has the shape \[8\]"):
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

    def test_an_error_names_the_document_among_all(self):
        def upsert_stream(requests, context):
            for _ in zip(range(3), requests):
                pass
            refuse(context, "requests[2].documents[1].payload", "3 bytes, which are no JSON")

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
                ({"batch_documents": 0}, "batch_documents is 0; it is an integer from 1 to 10000"),
                ({"batch_documents": 10_001}, "batch_documents is 10001"),
                ({"batch_bytes": 0}, "batch_bytes is 0; it is an integer of 1 or more"),
                ({"timeout": -1}, "timeout is -1"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    client.upsert_stream("docs", [("a", TOKENS)], **arguments)
            with self.assertRaisesRegex(ValueError, "documents is 3; it is an iterable of documents"):
                client.upsert_stream("docs", 3)
            self.assertEqual(server.requests, [])


class DeleteAndGetTest(BothTest):
    def test_ids_that_are_not_there_are_no_error(self):
        for client in self.clients(server := FakeDocuments(self)):
            client.upsert("docs", [("a", TOKENS)])
            server.requests.clear()
            gone = client.delete("docs", ["a", "z"], version=7)
            self.assertEqual([result.outcome for result in gone], ["applied", "not_found"])
            self.assertEqual((server.requests[0].version, server.requests[0].collection), (7, "docs"))
            self.assertEqual(gone.sequence, server.sequence)

    def test_many_ids_go_in_several_requests(self):
        for client in self.clients(server := FakeDocuments(self)):
            server.requests.clear()
            gone = client.delete("docs", np.arange(25_000))
            self.assertEqual([len(request.int_ids.ids) for request in server.requests], [10_000, 10_000, 5000])
            self.assertEqual(len(gone), 25_000)

    def test_documents_are_read_back(self):
        for client in self.clients(server := FakeDocuments(self)):
            client.upsert("docs", [NewDocument("a", TOKENS, payload={"n": 1}, version=server.sequence + 1)])
            found = client.get("docs", ["z", "a"], min_sequence=server.sequence)
            self.assertEqual((found.missing, found.generation, found.sequence), (["z"], 4, server.sequence))
            self.assertEqual(server.requests[-1].min_sequence, server.sequence)
            self.assertFalse(server.requests[-1].return_tokens)
            [document] = found
            self.assertEqual((document.id, document.num_tokens, document.payload), ("a", 3, {"n": 1}))
            self.assertEqual((document.version, document.sequence, document.tokens), (server.sequence, 7, None))

    def test_tokens_of_every_storage_come_back_as_float32(self):
        values = np.array([[1, -2], [0.5, 3]], np.float32)
        stored = {
            pb.DATA_TYPE_F32: (values.tobytes(), 0),
            pb.DATA_TYPE_F16: (values.astype(np.float16).tobytes(), 0),
            pb.DATA_TYPE_BF16: ((values.view(np.uint32) >> 16).astype(np.uint16).tobytes(), 0),
            pb.DATA_TYPE_I8: (np.array([[2, -4], [1, 6]], np.int8).tobytes(), 0.5),
        }

        def get(request, context):
            response = documents_pb2.GetResponse()
            for dtype, (data, scale) in stored.items():
                matrix = pb.TokenMatrix(dtype=dtype, num_tokens=2, dim=2, data=data)
                response.documents.add(int_id=dtype, num_tokens=2, tokens=matrix, scale=scale)
            return response

        for client in self.clients(FakeDocuments(self, Get=get)):
            found = client.get("docs", [1, 2], return_tokens=True)
            self.assertEqual([document.id for document in found], [*stored])
            for document in found:
                self.assertEqual(document.tokens.dtype, np.float32)
                np.testing.assert_array_equal(document.tokens, values)

    def test_wrong_arguments_are_named(self):
        for client in self.clients(server := FakeDocuments(self)):
            for ids, message in (
                ([], "ids is empty; at least one id is needed"),
                ("a", "ids is a list of ids; this is one string"),
                (["a", 1], r"ids\[1\] is 1; ids must be all strings or all integers"),
            ):
                for call in (client.delete, client.get):
                    with self.assertRaisesRegex(ValueError, message):
                        call("docs", ids)
            with self.assertRaisesRegex(ValueError, "version is 0; it is an integer from 1"):
                client.delete("docs", ["a"], version=0)
            with self.assertRaisesRegex(ValueError, "min_sequence is -1"):
                client.get("docs", ["a"], min_sequence=-1)
            with self.assertRaisesRegex(ValueError, "return_tokens is 1; it is True or False"):
                client.get("docs", ["a"], return_tokens=1)
            self.assertEqual(server.requests, [])


class RerankTest(BothTest):
    def test_min_sequence_travels_and_the_answer_has_the_sequence(self):
        seen = []

        def rerank(request, context):
            seen.append(request.min_sequence)
            result = pb.QueryResult(scores=[1.0], positions=[0], string_ids=pb.StringIds(ids=["a"]))
            return pb.RerankResponse(results=[result], sequence=12)

        def rerank_stream(requests, context):
            for request in requests:
                yield pb.RerankStreamResponse(request_id=request.request_id, response=rerank(request, context))

        server = FakeDocuments(self, Rerank=rerank, RerankStream=rerank_stream)
        for client in self.clients(server):
            seen.clear()
            ranking = client.rerank("docs", TOKENS, min_sequence=11)
            self.assertEqual((ranking.sequence, ranking.to_dict()["sequence"]), (12, 12))
            client.rerank_many("docs", [TOKENS], min_sequence=2**64 - 1)
            client.rerank("docs", TOKENS)
            self.assertEqual(seen, [11, 2**64 - 1, 0])
            with self.assertRaisesRegex(ValueError, "min_sequence is '3'"):
                client.rerank("docs", TOKENS, min_sequence="3")
        with Client(server.address) as client:
            seen.clear()
            self.assertEqual(client.collection("docs").rerank(TOKENS, min_sequence=5).sequence, 12)
            [answer] = client.rerank_stream([maxsim.Request("docs", TOKENS, min_sequence=6)])
            self.assertEqual((answer.ranking.sequence, seen), (12, [5, 6]))


class AdminTest(BothTest):
    def test_collections_are_made_compacted_and_copied(self):
        seen = []

        def keep(response):
            def answer(request, context):
                seen.append(request)
                return response

            return answer

        made = pb.CollectionInfo(name="notes", live=pb.LiveInfo(sequence=3, log_bytes=70))
        server = FakeDocuments(
            self,
            CreateCollection=keep(admin_pb2.CreateCollectionResponse(collection=made)),
            LoadCollection=keep(admin_pb2.LoadCollectionResponse(collection=made)),
            CompactCollection=keep(admin_pb2.CompactCollectionResponse(changed=True)),
            SnapshotCollection=keep(admin_pb2.SnapshotCollectionResponse(sequence=41)),
        )
        encoder = pb.EncoderInfo(model="m", dim=96)
        for client in self.clients(server):
            seen.clear()
            info = client.create_collection("notes", 96, storage="i8", id_type="int64", path="/x", encoder=encoder)
            self.assertEqual((info.live.sequence, info.live.log_bytes), (3, 70))
            self.assertEqual(client.load("notes", "/x", live=True), made)
            self.assertIs(client.compact_collection("notes"), True)
            self.assertEqual(client.snapshot_collection("notes", "/y"), 41)
            create, load, compact, snapshot = seen
            self.assertEqual((create.name, create.dim, create.path), ("notes", 96, "/x"))
            self.assertEqual((create.storage, create.id_type), (pb.DATA_TYPE_I8, pb.ID_TYPE_INT64))
            self.assertEqual((create.encoder, load.live), (encoder, True))
            self.assertEqual((compact.name, snapshot.name, snapshot.path), ("notes", "notes", "/y"))
            for arguments, message in (
                ({"storage": "f8"}, "storage is 'f8'; it is one of f16, bf16, f32, i8"),
                ({"id_type": "uuid"}, "id_type is 'uuid'; it is one of string, int64"),
                ({"encoder": "m"}, "encoder is 'm'; it is an EncoderInfo"),
                ({"dim": 0}, "dim is 0; it is an integer from 1"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    client.create_collection("notes", **{"dim": 96, **arguments})


if __name__ == "__main__":
    unittest.main(verbosity=2)
