"""Tests the code that all adapters share, without a server and without a framework.

python scorer_test.py      needs grpcio, protobuf and numpy
"""

import asyncio
import copy
import pathlib
import pickle
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from python_package import use_package  # noqa: E402

use_package()

import numpy as np  # noqa: E402
from maxsim.adapters import scorer  # noqa: E402
from maxsim.adapters.encoders import LockedEncoder  # noqa: E402
from maxsim.adapters.scorer import (  # noqa: E402
    Candidates,
    Scorer,
    as_id,
    check_filter,
    check_ids,
    id_in,
    merge,
    split,
    text_and_metadata,
)
from maxsim.ranking import Document  # noqa: E402
from maxsim.vectors import token_vectors  # noqa: E402


class Hit:
    def __init__(self, position, score, id=None):
        self.position, self.score, self.id = position, score, id


class FakeClient:
    """A fake client. A candidate's score is determined by its id, the length of its text, or its first value."""

    def __init__(self):
        self.calls = []

    def rerank(self, collection, query, *, ids, documents, **arguments):
        self.calls.append({"collection": collection, "ids": ids, "documents": documents, **arguments})
        if ids is not None:
            scores = [float(id) for id in ids]
        else:
            scores = [float(len(one) if isinstance(one, str) else one.data[0, 0]) for one in documents]
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: arguments["top_k"]]
        return [Hit(i, scores[i]) for i in order]


class FakeEncoder:
    """An encoder whose vectors of a text are [[number of characters, 1 for a query]]."""

    def __init__(self):
        self.calls = []

    def encode_query(self, texts):
        self.calls.append(("query", texts))
        return [np.array([[len(text), 1]], np.float32) for text in texts]

    def encode_document(self, texts):
        self.calls.append(("document", texts))
        return [np.array([[len(text), 0]], np.float32) for text in texts]


class SplitTest(unittest.TestCase):
    def parts(self, candidates):
        return [(positions, part.count()) for positions, part in split(candidates)]

    def test_texts_go_in_parts_of_at_most_so_many(self):
        with mock.patch.object(scorer, "MAX_INLINE_DOCUMENTS", 3):
            for count, wanted in ((0, []), (2, [2]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])):
                parts = self.parts(Candidates(texts=["a"] * count))
                self.assertEqual([size for _, size in parts], wanted)
                self.assertEqual(sum((positions for positions, _ in parts), []), list(range(count)))

    def test_vectors_go_in_parts_of_at_most_so_many_bytes(self):
        sizes = [1, 2, 1, 9, 1]  # tokens of 4 bytes
        vectors = [token_vectors(np.zeros((size, 1), np.float32)) for size in sizes]
        with mock.patch.object(scorer, "MAX_INLINE_BYTES", 16):
            parts = self.parts(Candidates(vectors=vectors))
        self.assertEqual([positions for positions, _ in parts], [[0, 1, 2], [3], [4]])

    def test_an_id_is_asked_for_once(self):
        with mock.patch.object(scorer, "MAX_IDS", 2):
            parts = list(split(Candidates(ids=["a", "b", "a", "c", "b", "d", "e"])))
        self.assertEqual([part.ids for _, part in parts], [["a", "b"], ["c", "d"], ["e"]])
        self.assertEqual([positions for positions, _ in parts], [[0, 1], [3, 5], [6]])


class MergeTest(unittest.TestCase):
    def test_parts_become_one_ranking_with_ties_in_the_order_of_the_candidates(self):
        parts = [([0, 1], [Hit(1, 5.0), Hit(0, 1.0)]), ([2, 3], [Hit(0, 5.0), Hit(1, 7.0)])]
        candidates = Candidates(texts=["a"] * 4)
        self.assertEqual(merge(parts, candidates, None), [(3, 7.0), (1, 5.0), (2, 5.0), (0, 1.0)])
        self.assertEqual(merge(parts, candidates, 2), [(3, 7.0), (1, 5.0)])

    def test_documents_with_one_id_have_one_score_and_count_each(self):
        candidates = Candidates(ids=[7, 3, 7])
        parts = [([0, 1], [Hit(1, 9.0), Hit(0, 4.0)])]
        self.assertEqual(merge(parts, candidates, None), [(1, 9.0), (0, 4.0), (2, 4.0)])
        self.assertEqual(merge(parts, candidates, 2), [(1, 9.0), (0, 4.0)])


class ScorerTest(unittest.TestCase):
    def make(self, **options):
        client = FakeClient()
        made = Scorer("nowhere:1", **options)
        patch = mock.patch.object(scorer, "Client", lambda *arguments, **options: client)
        patch.start()
        self.addCleanup(patch.stop)
        return made, client

    def test_texts_go_to_the_servers_encoder_without_one_of_ones_own(self):
        made, client = self.make(collection="c")
        self.assertEqual(made.rank("q", Candidates(texts=["a", "ccc", "bb"])), [(1, 3.0), (2, 2.0), (0, 1.0)])
        self.assertEqual(client.calls[0]["documents"], ["a", "ccc", "bb"])
        self.assertEqual((client.calls[0]["collection"], client.calls[0]["top_k"]), ("c", 3))

    def test_an_encoder_makes_vectors_of_texts_and_of_the_query_alone_for_ids(self):
        encoder = FakeEncoder()
        made, client = self.make(collection="c", encoder=encoder)
        self.assertEqual(made.rank("q", Candidates(texts=["a", "ccc"]), 1), [(1, 3.0)])
        self.assertEqual(encoder.calls, [("query", ["q"]), ("document", ["a", "ccc"])])
        made.rank("qq", Candidates(ids=[1, 2]))
        self.assertEqual(encoder.calls[2:], [("query", ["qq"])])
        self.assertEqual(client.calls[1]["ids"], [1, 2])

    def test_no_candidates_are_no_call(self):
        made, client = self.make(encoder=FakeEncoder())
        for nothing in (Candidates(texts=[]), Candidates(ids=[]), Candidates(vectors=[])):
            self.assertEqual(made.rank("q", nothing), [])
        self.assertEqual(client.calls, [])

    def test_the_best_of_all_parts_are_returned(self):
        made, client = self.make(collection="c")
        with mock.patch.object(scorer, "MAX_IDS", 3):
            self.assertEqual(made.rank("q", Candidates(ids=[4, 9, 1, 8, 2]), 2), [(1, 9.0), (3, 8.0)])
        self.assertEqual([call["top_k"] for call in client.calls], [2, 2])

    def test_each_event_loop_has_a_connection_until_it_ends(self):
        made, _ = self.make()
        closed = []

        class FakeAsyncClient:
            async def close(self):
                closed.append(self)

        async def clients():
            return made.async_client, made.async_client

        with mock.patch.object(scorer, "AsyncClient", lambda *arguments, **options: FakeAsyncClient()):
            first, again = asyncio.run(clients())
            self.assertIs(first, again)
            second, _ = asyncio.run(clients())
            self.assertIsNot(first, second)
            self.assertEqual(list(made._async_clients.values()), [second])

            async def ask_and_close():
                client = made.async_client
                await made.aclose()
                return client

            third = asyncio.run(ask_and_close())
            self.assertEqual(closed, [third])
            self.assertNotIn(third, made._async_clients.values())

    def test_copies_and_pickles_connect_for_themselves(self):
        made, client = self.make(collection="c", encoder=FakeEncoder())
        made.rank("q", Candidates(ids=[1]))
        for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            self.assertIsNone(other._client)
            self.assertEqual(other.rank("q", Candidates(ids=[1, 2])), [(1, 2.0), (0, 1.0)])

    def test_a_filter_goes_with_each_search(self):
        made, client = self.make(collection="c", encoder=FakeEncoder(), missing_policy="report")
        found = [Document(7, 2.0, 0, {"text": "a"})]
        calls = []

        def rerank(collection, query, **arguments):
            calls.append((collection, query.data.tolist(), arguments))
            return mock.Mock(documents=found)

        def rerank_many(collection, queries, ids, **arguments):
            calls.append((collection, [query.data.tolist() for query in queries], {"ids": ids, **arguments}))
            return [found] * len(queries)

        async def rerank_async(*positional, **arguments):
            return rerank(*positional, **arguments)

        client.rerank, client.rerank_many = rerank, rerank_many
        self.assertEqual(made.find("abc", 3, "x = 1"), found)
        with mock.patch.object(scorer, "AsyncClient", lambda *_, **__: mock.Mock(rerank=rerank_async)):
            self.assertEqual(asyncio.run(made.find_async("abc", 3, "x = 1")), found)
        one = ("c", [[3.0, 1.0]], {"top_k": 3, "payloads": True, "filter": "x = 1"})
        self.assertEqual(calls, [one, one])
        self.assertEqual(made.search(["ab", "a"], 4, [[1], []], "x = 2"), [[(7, 2.0)], []])
        several = {"ids": [[1]], "top_k": 4, "missing_policy": "report", "filter": "x = 2"}
        self.assertEqual(calls[2], ("c", [[[2.0, 1.0]]], several))


class PayloadTest(unittest.TestCase):
    def test_a_payload_is_a_text_and_metadata(self):
        payload = {"text": "a", "lang": "en"}
        found = Document("x", 1.0, 0, payload)
        self.assertEqual(text_and_metadata(found, "text"), ("a", {"lang": "en"}))
        self.assertEqual(text_and_metadata(found, "lang"), ("en", {"text": "a"}))
        self.assertEqual(text_and_metadata(found, None), ("", payload))
        self.assertEqual(text_and_metadata(Document("x", 1.0, 0), None), ("", {}))
        self.assertEqual(payload, {"text": "a", "lang": "en"})

    def test_a_payload_without_the_text_is_named(self):
        for payload in (None, {}, {"text": None}, {"text": ["a"]}):
            with self.assertRaisesRegex(ValueError, r"the payload of the document 'x' has (None|\['a'\]) as 'text'"):
                text_and_metadata(Document("x", 1.0, 0, payload), "text")

    def test_a_filter_is_checked(self):
        for right in (None, "lang = ", {"field": "lang", "equals": "en"}):
            check_filter(right)
        for wrong in (7, {}, {"field": "lang", "equals": None}):
            with self.assertRaisesRegex(ValueError, "filter"):
                check_filter(wrong)


class EncoderTest(unittest.TestCase):
    def test_what_is_no_encoder_is_named(self):
        with self.assertRaisesRegex(TypeError, "encoder is a str"):
            LockedEncoder("model")

    def test_one_vector_a_text_is_refused(self):
        class Dense(FakeEncoder):
            def encode_query(self, texts):
                return np.zeros((len(texts), 8), np.float32)

        with self.assertRaisesRegex(ValueError, r"the encoder's query 0 has shape \[8\]"):
            LockedEncoder(Dense()).query("a")

    def test_a_wrong_number_of_answers_is_refused(self):
        class Forgetful(FakeEncoder):
            def encode_document(self, texts):
                return super().encode_document(texts[1:])

        with self.assertRaisesRegex(ValueError, "answered 2 texts with 1 arrays"):
            LockedEncoder(Forgetful()).documents(["a", "b"])

    def test_pylates_models_are_told_what_a_text_is(self):
        class PyLate(FakeEncoder):
            def encode(self, texts, is_query=True, show_progress_bar=True):
                return [np.array([[len(text), 10 + is_query]], np.float32) for text in texts]

        made = LockedEncoder(PyLate())
        self.assertEqual(made.query("abc").data.tolist(), [[3, 11]])
        self.assertEqual(made.documents(["ab"])[0].data.tolist(), [[2, 10]])


class IdTest(unittest.TestCase):
    def test_ids_are_strings_and_integers(self):
        self.assertEqual(id_in({"id": "a"}, "id", 0), "a")
        number = id_in({"id": np.int32(7)}, "id", 0)
        self.assertEqual((number, type(number)), (7, int))
        for metadata in ({}, None, {"id": None}, {"id": True}, {"id": 1.5}):
            with self.assertRaisesRegex(ValueError, r"the metadata 'id' of documents\[3\] is (None|True|1\.5)"):
                id_in(metadata, "id", 3)
        with self.assertRaisesRegex(ValueError, "it is None"):
            as_id(None, "it")

    def test_ids_want_a_collection_and_one_way_to_be_found(self):
        check_ids("", None, False)
        check_ids("c", "id", False)
        check_ids("c", None, True)
        with self.assertRaisesRegex(ValueError, "give only one of them"):
            check_ids("c", "id", True)
        for id_key, own_ids in (("id", False), (None, True)):
            with self.assertRaisesRegex(ValueError, "collection is missing"):
                check_ids("", id_key, own_ids)


if __name__ == "__main__":
    unittest.main(verbosity=2)
