"""Messages that maxsim makes of arguments, and rankings that it reads, without a server.

python requests_test.py
"""

import json
import unittest

import numpy as np

from client_fixture import DIM, use_package

use_package()
import maxsim  # noqa: E402
from maxsim.methods import RerankMethods  # noqa: E402
from maxsim.ranking import read_response  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402

QUERY = np.ones((2, DIM), np.float16)


class Recorder(RerankMethods):
    """A client that returns what it would send."""

    def _rerank_one(self, request, timeout):
        return request

    _rerank_many = _rerank_one


class RequestTest(unittest.TestCase):
    def setUp(self):
        self.client = Recorder()

    def test_every_option_arrives(self):
        defaults = self.client.rerank("c", QUERY)
        self.assertEqual(
            defaults,
            pb.RerankRequest(
                collection="c",
                queries=[pb.Query(tokens=maxsim.token_matrix(QUERY))],
                candidates=pb.Candidates(whole_collection=pb.WholeCollection()),
                top_k=10,
                priority=pb.PRIORITY_NORMAL,
                missing_policy=pb.MISSING_POLICY_REPORT,
            ),
        )
        options = {
            "top_k": 3,
            "payloads": True,
            "payload_fields": ["title"],
            "alignments": True,
            "normalize": True,
            "priority": "low",
            "missing_policy": "fail",
            "request_id": "r-7",
        }
        wanted = pb.RerankRequest(
            collection="c",
            queries=[pb.Query(text="a question", weights=[1, 0.5])],
            candidates=pb.Candidates(string_ids=pb.StringIds(ids=["a", "b"])),
            top_k=3,
            return_payloads=True,
            payload_fields=["title"],
            return_alignments=True,
            normalize=True,
            priority=pb.PRIORITY_LOW,
            missing_policy=pb.MISSING_POLICY_FAIL,
            request_id="r-7",
        )
        named = self.client.collection("c")
        weights = np.array([1, 0.5])
        for request in (
            self.client.rerank("c", "a question", ["a", "b"], weights=weights, **options),
            self.client.rerank_many("c", ["a question"], ["a", "b"], weights=[weights], **options),
            named.rerank("a question", ["a", "b"], weights=weights, **options),
            named.rerank_many(["a question"], ["a", "b"], weights=[weights], **options),
            maxsim.Request("c", "a question", ["a", "b"], weights=weights, **options).to_message(),
        ):
            self.assertEqual(request, wanted)

    def test_documents_may_be_vectors_or_texts(self):
        inline = self.client.rerank(None, QUERY, documents=[QUERY, QUERY[:1]]).candidates.inline_documents
        self.assertEqual([document.num_tokens for document in inline.documents], [2, 1])
        self.assertEqual(list(inline.texts), [])
        inline = self.client.rerank(None, "a question", documents=["one", "two"]).candidates.inline_documents
        self.assertEqual((list(inline.texts), len(inline.documents)), (["one", "two"], 0))

    def test_candidates_that_are_shared_stand_once(self):
        for arguments in ({"ids": ["a"]}, {"ids": iter(["a"])}, {"documents": ["text"]}, {"documents": [QUERY]}, {}):
            request = self.client.rerank_many("c", [QUERY, QUERY], **arguments)
            self.assertTrue(request.HasField("candidates"))
            self.assertFalse(any(query.HasField("candidates") for query in request.queries))

    def test_candidates_of_each_query_stand_with_it(self):
        texts = [["one"], ["two", "three"]]
        rows = QUERY.tolist()
        for arguments, kinds in (
            ({"ids": [["a"], ("b", "c")]}, ["string_ids", "string_ids"]),
            ({"ids": [None, np.array([1])]}, ["whole_collection", "int_ids"]),
            ({"ids": iter([[1], [2]])}, ["int_ids", "int_ids"]),
            ({"documents": texts}, ["inline_documents"] * 2),
            ({"documents": [[QUERY], [QUERY, QUERY]]}, ["inline_documents"] * 2),
            ({"documents": [[rows], [rows]]}, ["inline_documents"] * 2),
            ({"documents": np.ones((2, 5, 3, DIM), np.float32)}, ["inline_documents"] * 2),
        ):
            with self.subTest(arguments):
                request = self.client.rerank_many("c", [QUERY, QUERY], **arguments)
                self.assertFalse(request.HasField("candidates"))
                self.assertEqual([query.candidates.WhichOneof("kind") for query in request.queries], kinds)

    def test_wrong_arguments_are_named(self):
        one, many = self.client.rerank, self.client.rerank_many
        for call, message in (
            (lambda: one("c", QUERY, ["a"], documents=[QUERY]), "ids or documents, not both"),
            (lambda: many("c", [QUERY], ["a"], documents=[QUERY]), "ids or documents, not both"),
            (lambda: many("c", [QUERY], [["a"], ["b"]]), "2 lists of ids for 1 queries"),
            (lambda: many("c", [QUERY], documents=[["a"], ["b"]]), "2 lists of documents for 1 queries"),
            (lambda: many("c", [QUERY], weights=[[1], [1]]), "2 lists of weights for 1 queries"),
            (lambda: many("c", [QUERY, QUERY], [["a"], ["b", 1]]), r"ids\[1\]\[1\] is 1; ids must be all strings"),
            (lambda: many("c", [QUERY, QUERY], [["a"], []]), r"ids\[1\] is empty"),
            (lambda: many("c", "text"), "queries is a list of queries; this is one string"),
            (lambda: many("c", [QUERY, QUERY[0]]), r"queries\[1\] has the shape \[48\]"),
            (lambda: one("c", QUERY, documents="text"), "documents is a list of documents; this is one string"),
            (lambda: one("c", QUERY, documents=[]), "documents is empty"),
            (lambda: one("c", QUERY, documents=["a", QUERY]), "documents holds texts and vectors"),
            (lambda: one("c", QUERY, documents=[QUERY, QUERY[0]]), r"documents\[1\] has the shape \[48\]"),
            (lambda: one("c", QUERY, priority="urgent"), "priority is 'urgent'; it is one of low, normal, high"),
            (lambda: one("c", QUERY, missing_policy="ignore"), "missing_policy is 'ignore'"),
            (lambda: one("c", QUERY, payload_fields="title"), "payload_fields is a list of names"),
            (lambda: one("c", QUERY[0]), r"query has the shape \[48\]"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()


class RankingTest(unittest.TestCase):
    def setUp(self):
        result = pb.QueryResult(
            string_ids=pb.StringIds(ids=["a", "b", "c"]),
            scores=[3.5, 2.25, 1],
            positions=[4, 0, 9],
            payloads=['{"title": "A"}', "", "{}"],
            alignments=[pb.Alignment(document_tokens=[1, 0], similarities=[0.5, 0.25])] * 3,
            missing_string_ids=pb.StringIds(ids=["z"]),
            unavailable_documents=2,
            query_tokens=["what", "?"],
        )
        self.ranking = read_response(pb.RerankResponse(results=[result], generation=7))[0]

    def test_it_is_a_sequence_of_documents(self):
        ranking = self.ranking
        self.assertEqual((len(ranking), ranking[0].id, ranking[-1].id), (3, "a", "c"))
        self.assertEqual([document.id for document in ranking], ["a", "b", "c"])
        self.assertIn(ranking[1], ranking)
        self.assertEqual(ranking.index(ranking[2]), 2)
        best = ranking[:2]
        self.assertIsInstance(best, maxsim.Ranking)
        self.assertEqual((best.ids, best.missing, best.generation), (["a", "b"], ["z"], 7))
        self.assertRaises(IndexError, lambda: ranking[3])

    def test_columns(self):
        self.assertEqual(self.ranking.ids, ["a", "b", "c"])
        self.assertEqual(self.ranking.scores.dtype, np.float32)
        self.assertEqual(self.ranking.scores.tolist(), [3.5, 2.25, 1])
        self.assertEqual(self.ranking.positions.tolist(), [4, 0, 9])
        self.assertEqual([d.payload for d in self.ranking], [{"title": "A"}, None, {}])

    def test_inline_documents_are_named_by_position(self):
        result = pb.QueryResult(scores=[2, 1], positions=[5, 3])
        ranking = read_response(pb.RerankResponse(results=[result]))[0]
        self.assertEqual([d.id for d in ranking], [None, None])
        self.assertEqual(ranking.ids, [5, 3])

    def test_a_dictionary_of_it_is_json(self):
        values = json.loads(json.dumps(self.ranking.to_dict()))
        self.assertEqual(
            values["documents"][0],
            {
                "id": "a",
                "score": 3.5,
                "position": 4,
                "payload": {"title": "A"},
                "matches": [1, 0],
                "similarities": [0.5, 0.25],
            },
        )
        self.assertEqual({*values["documents"][1]}, {"id", "score", "position", "matches", "similarities"})
        del values["documents"]
        wanted = {"missing": ["z"], "generation": 7, "unavailable": 2, "query_tokens": ["what", "?"]}
        self.assertEqual(values, wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
