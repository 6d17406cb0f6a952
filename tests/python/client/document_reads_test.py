"""Tests reads and deletes of documents, and searches and administration of live collections, with both clients. The
servers run in this process and record the requests.

python document_reads_test.py
"""

import unittest

import grpc
import numpy as np

from client_fixture import BothTest, run_async
from documents_fixture import TOKENS, FakeDocuments

import maxsim  # noqa: E402
from maxsim import AsyncClient, Client, F, FacetValue, NewDocument  # noqa: E402
from maxsim.v1 import admin_pb2, documents_pb2  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402


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
                ("a", "ids is one string; must be a list of ids"),
                (["a", 1], r"ids\[1\] is 1; ids must be all strings or all integers"),
            ):
                for call in (client.delete, client.get):
                    with self.assertRaisesRegex(ValueError, message):
                        call("docs", ids)
            with self.assertRaisesRegex(ValueError, "version is 0; must be an integer from 1"):
                client.delete("docs", ["a"], version=0)
            with self.assertRaisesRegex(ValueError, "min_sequence is -1"):
                client.get("docs", ["a"], min_sequence=-1)
            with self.assertRaisesRegex(ValueError, "return_tokens is 1; must be True or False"):
                client.get("docs", ["a"], return_tokens=1)
            self.assertEqual(server.requests, [])


class ScrollTest(BothTest):
    IDS = [f"d{n:02}" for n in range(25)]

    def serve_pages(self, ids=None):
        """Returns a server that lists these ids, and the requests that it gets."""
        seen, ids = [], self.IDS if ids is None else ids

        def scroll(request, context):
            seen.append(documents_pb2.ScrollRequest.FromString(request.SerializeToString()))
            after = request.WhichOneof("after")
            rest = [one for one in ids if after is None or one > getattr(request, after)]
            response = documents_pb2.ScrollResponse(has_more=len(rest) > request.limit)
            for one in rest[: request.limit]:
                document = response.documents.add(num_tokens=3, payload='{"n": 1}', version=9)
                setattr(document, "string_id" if isinstance(one, str) else "int_id", one)
            return response

        return FakeDocuments(self, Scroll=scroll), seen

    def listed(self, client, *given, **named):
        """Returns the documents that a client's scroll yields."""
        if isinstance(client, Client):
            return list(client.scroll(*given, **named))

        async def collect():
            return [document async for document in client._client.scroll(*given, **named)]

        return run_async(collect())

    def test_all_pages_are_listed(self):
        server, seen = self.serve_pages()
        for client in self.clients(server):
            seen.clear()
            found = self.listed(client, "docs", page_size=10, filter="year > 2000", min_sequence=3)
            self.assertEqual([document.id for document in found], self.IDS)
            self.assertEqual((found[0].num_tokens, found[0].payload, found[0].version), (3, {"n": 1}, 9))
            self.assertEqual([request.after_string_id for request in seen], ["", "d09", "d19"])
            self.assertEqual({request.limit for request in seen}, {10})
            self.assertEqual({(request.filter_text, request.min_sequence) for request in seen}, {("year > 2000", 3)})
            self.assertEqual((seen[0].return_payloads, seen[0].return_tokens), (True, False))
            rest = self.listed(client, "docs", after="d20", payloads=False, return_tokens=True, filter=F.year > 2000)
            self.assertEqual([document.id for document in rest], self.IDS[21:])
            self.assertEqual((seen[-1].limit, seen[-1].return_payloads, seen[-1].return_tokens), (100, False, True))
            self.assertEqual(seen[-1].filter.range.field, "year")

    def test_integers_and_empty_collections_are_listed(self):
        for ids in ([-(2**63), -1, 0, 7, 2**63 - 1], []):
            server, seen = self.serve_pages(ids)
            for client in self.clients(server):
                self.assertEqual([document.id for document in self.listed(client, "docs", page_size=2)], ids)
                if ids:
                    self.assertEqual([one.id for one in self.listed(client, "docs", after=-1)], [0, 7, 2**63 - 1])

    def test_pages_are_read_when_they_are_needed(self):
        server, seen = self.serve_pages()
        with Client(server.address) as client:
            documents = client.collection("docs").scroll(page_size=10)
            self.assertEqual(len(seen), 0)
            for _ in range(10):
                next(documents)
            self.assertEqual(len(seen), 1)
            next(documents)
            self.assertEqual(len(seen), 2)

    def test_a_busy_server_is_asked_again(self):
        calls = []

        def scroll(request, context):
            calls.append(request)
            if len(calls) % 2 == 1:
                context.set_trailing_metadata((("grpc-retry-pushback-ms", "1"),))
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "2 calls are in progress")
            return documents_pb2.ScrollResponse()

        for client in self.clients(FakeDocuments(self, Scroll=scroll)):
            self.assertEqual(self.listed(client, "docs"), [])
        self.assertEqual(len(calls), 4)

    def test_wrong_arguments_are_named(self):
        server, seen = self.serve_pages()
        for client in self.clients(server):
            for named, message in (
                ({"page_size": 0}, "page_size is 0; must be an integer from 1 to 1000"),
                ({"page_size": 1001}, "page_size is 1001; must be an integer from 1 to 1000"),
                ({"after": 1.5}, "after is 1.5; must be a string, an integer of 64 bits or None"),
                ({"after": 2**63}, "after is 9223372036854775808; must be a string"),
                ({"payloads": 1}, "payloads is 1; must be True or False"),
                ({"filter": 3}, "filter is 3; must be a text"),
                ({"timeout": 0}, "timeout is 0"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    self.listed(client, "docs", **named)
            with self.assertRaisesRegex(ValueError, "collection is ''"):
                self.listed(client, "")
        self.assertEqual(seen, [])


class CountTest(BothTest):
    def test_counts_are_of_the_filter(self):
        seen = []

        def count(request, context):
            seen.append(request)
            return documents_pb2.CountResponse(count=7, generation=1)

        for client in self.clients(FakeDocuments(self, Count=count)):
            self.assertEqual(client.count("docs"), 7)
            self.assertIsNone(seen[-1].WhichOneof("matching"))
            self.assertEqual(client.count("docs", filter="year > 2000", min_sequence=3), 7)
            self.assertEqual((seen[-1].filter_text, seen[-1].min_sequence), ("year > 2000", 3))
            client.count("docs", filter=F.lang == "en")
            self.assertEqual(seen[-1].filter.equals.field, "lang")
            with self.assertRaisesRegex(ValueError, "filter is 3; must be a text"):
                client.count("docs", filter=3)
            with self.assertRaisesRegex(ValueError, "collection is ''"):
                client.count("")

    def test_facets_are_a_sequence_of_values(self):
        seen = []

        def facets(request, context):
            seen.append(request)
            response = documents_pb2.FacetsResponse(num_values=9, num_documents=20, generation=4, sequence=5)
            response.values.add(value="en", count=12)
            response.values.add(value="", count=3)
            return response

        for client in self.clients(FakeDocuments(self, Facets=facets)):
            found = client.facets("docs", "lang", filter={"field": "year", "gt": 2000}, limit=2)
            self.assertEqual([(value.value, value.count) for value in found], [("en", 12), ("", 3)])
            self.assertEqual((found.num_values, found.num_documents, found.generation, found.sequence), (9, 20, 4, 5))
            self.assertEqual((len(found), found[0], found[1:]), (2, FacetValue("en", 12), [FacetValue("", 3)]))
            self.assertEqual((seen[-1].field, seen[-1].limit), ("lang", 2))
            self.assertTrue(seen[-1].filter.HasField("range"))
            client.facets("docs", "lang")
            self.assertEqual((seen[-1].limit, seen[-1].WhichOneof("matching")), (10, None))
            for limit in (0, 65_537, True):
                with self.assertRaisesRegex(ValueError, "limit is .*; must be an integer from 1 to 65536"):
                    client.facets("docs", "lang", limit=limit)
            with self.assertRaisesRegex(ValueError, "field is None; must be the name of a field"):
                client.facets("docs", None)


class CollectionTest(BothTest):
    def test_a_collections_own_calls_name_it(self):
        server = FakeDocuments(self)
        with Client(server.address) as client:
            notes = client.collection("notes")
            self.assertEqual(notes.upsert([("a", TOKENS)]).num_applied, 1)
            self.assertEqual(notes.upsert_stream([("b", TOKENS)], batch_documents=1, batch_bytes=9).num_applied, 1)
            self.assertEqual(len(notes.get(["a", "b"], return_tokens=True, min_sequence=1)), 2)
            self.assertEqual(notes.delete(["a"], version=3)[0].outcome, "applied")
            with self.assertRaisesRegex(ValueError, "collection is ''; must be the name of a collection"):
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
            info = client.create_collection(
                "notes", 96, storage="i8", id_type="int64", path="/x", encoder=encoder, codes=2, code_factors=True,
                fields="lang:keyword=meta.lang,at:time",
            )
            self.assertEqual((info.live.sequence, info.live.log_bytes), (3, 70))
            self.assertEqual(client.load("notes", "/x", live=True), made)
            self.assertIs(client.compact_collection("notes"), True)
            self.assertEqual(client.snapshot_collection("notes", "/y"), 41)
            create, load, compact, snapshot = seen
            self.assertEqual((create.name, create.dim, create.path), ("notes", 96, "/x"))
            self.assertEqual((create.storage, create.id_type), (pb.DATA_TYPE_I8, pb.ID_TYPE_INT64))
            self.assertEqual((create.encoder, load.live), (encoder, True))
            self.assertEqual((create.code_planes, create.code_factors), (2, True))
            self.assertEqual(
                [(field.name, field.kind, field.path) for field in create.fields],
                [("lang", pb.FIELD_KIND_KEYWORD, "meta.lang"), ("at", pb.FIELD_KIND_TIME, "")],
            )
            self.assertEqual((compact.name, snapshot.name, snapshot.path), ("notes", "notes", "/y"))
            for arguments, message in (
                ({"storage": "f8"}, "storage is 'f8'; must be one of f16, bf16, f32, i8"),
                ({"id_type": "uuid"}, "id_type is 'uuid'; must be one of string, int64"),
                ({"encoder": "m"}, "encoder is 'm'; must be an EncoderInfo"),
                ({"dim": 0}, "dim is 0; must be an integer from 1"),
                ({"codes": 3}, "codes is 3; must be 0, 1, 2 or 4 planes"),
                ({"codes": True}, "codes is True; must be 0, 1, 2 or 4 planes"),
                ({"code_factors": 1}, "code_factors is 1"),
                ({"fields": "at:time,lang:text"}, "fields: 'lang:text' is not NAME:KIND or NAME:KIND=PATH, where KIND is"),
                ({"fields": "lang"}, "fields: 'lang' is not NAME:KIND"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    client.create_collection("notes", **{"dim": 96, **arguments})


if __name__ == "__main__":
    unittest.main(verbosity=2)
