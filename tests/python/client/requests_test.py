"""Tests the messages that maxsim makes from arguments, without a server.

python requests_test.py
"""

import asyncio
import inspect
import unittest
import unittest.mock

import numpy as np

from client_fixture import DIM, use_package

use_package()
import maxsim  # noqa: E402
from maxsim.methods import RerankMethods  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402

QUERY = np.ones((2, DIM), np.float16)


class CoroutinesTest(unittest.TestCase):
    def test_methods_of_the_client_for_asyncio_are_coroutine_functions(self):
        # Frameworks check that a method is a coroutine function before they await its result.
        one = maxsim.AsyncClient("localhost:1")
        collection = one.collection("docs")
        asked = {name for name in dir(maxsim.Client) if not name.startswith("_")}
        asked -= {"collection", "rerank_stream", "scroll", "reranker", "admin", "documents"}
        self.assertLessEqual({"info", "load", "get", "delete", "upsert", "rerank", "rerank_many", "close"}, asked)
        for name in asked:
            self.assertTrue(inspect.iscoroutinefunction(getattr(one, name)), name)
            self.assertTrue(asyncio.iscoroutinefunction(getattr(maxsim.AsyncClient, name)), name)
        for name in ("rerank", "rerank_many", "explain", "upsert", "upsert_stream", "delete", "get"):
            self.assertTrue(inspect.iscoroutinefunction(getattr(collection, name)), name)
            self.assertFalse(inspect.iscoroutinefunction(getattr(maxsim.Client("localhost:1").collection("d"), name)))
            wanted = [*inspect.signature(getattr(maxsim.Client, name)).parameters]
            wanted = [one for one in wanted if one not in ("self", "collection")]
            self.assertEqual([*inspect.signature(getattr(collection, name)).parameters], wanted)

    def test_they_refuse_what_the_other_refuses(self):
        one = maxsim.AsyncClient("localhost:1")
        for make in (
            lambda: one.rerank("docs", QUERY, [1], top_k=-1),
            lambda: one.collection("docs").rerank(QUERY, [1], top_k=-1),
            lambda: one.get("docs", [1, "a"]),
            lambda: one.collection("docs").delete([1, "a"]),
            lambda: one.load(1, "/srv/docs"),
        ):
            with self.assertRaises((TypeError, ValueError)):
                asyncio.run(make())


class Recorder(RerankMethods):
    """A client that returns its requests instead of sending them."""

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
            "offset": 6,
            "min_score": -2.5,
            "group_by": "book",
            "group_size": 4,
            "payloads": True,
            "payload_fields": ["title"],
            "alignments": True,
            "normalize": True,
            "priority": "low",
            "missing_policy": "fail",
            "request_id": "r-7",
            "refinement": maxsim.RefinementOptions(2000, require_proof=True, budget=5000),
            "filter": maxsim.F.lang.exists(),
        }
        wanted = pb.RerankRequest(
            collection="c",
            queries=[pb.Query(text="a question", weights=[1, 0.5])],
            candidates=pb.Candidates(string_ids=pb.StringIds(ids=["a", "b"])),
            top_k=3,
            offset=6,
            min_score=-2.5,
            group_by="book",
            group_size=4,
            return_payloads=True,
            payload_fields=["title"],
            return_alignments=True,
            normalize=True,
            priority=pb.PRIORITY_LOW,
            missing_policy=pb.MISSING_POLICY_FAIL,
            request_id="r-7",
            refinement=pb.RefinementOptions(documents=2000, budget=5000, require_proof=True),
            filter=pb.Filter(exists="lang"),
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

    def test_a_page_is_checked_before_it_is_sent(self):
        self.assertFalse(self.client.rerank("c", QUERY, min_score=None).HasField("min_score"))
        self.assertTrue(self.client.rerank("c", QUERY, min_score=0).HasField("min_score"))
        self.assertEqual(self.client.rerank("c", QUERY, min_score=np.float32(0.1)).min_score, np.float32(0.1))
        for value in (float("nan"), float("inf"), 1e39, -1e39, "1", True):
            with self.assertRaisesRegex(ValueError, "min_score is .*; must be a finite number of 32 bits, or None"):
                self.client.rerank("c", QUERY, min_score=value)
        for value in (-1, 1.5, 2**32, None):
            with self.assertRaisesRegex(ValueError, "offset is .*; must be an integer from 0 to 4294967295"):
                self.client.rerank("c", QUERY, offset=value)

    def test_groups_are_checked_before_they_are_sent(self):
        self.assertEqual(self.client.rerank("c", QUERY, group_by="book").group_size, 1)
        self.assertEqual(self.client.rerank("c", QUERY).group_size, 0)
        for arguments, wanted in (
            ({"group_by": 3}, "group_by is 3; must be the name of a field, or None"),
            ({"group_by": "book", "group_size": 0}, "group_size is 0; must be an integer from 1"),
            ({"group_size": 2}, "group_size is 2, but group_by is None; only groups have a size"),
        ):
            with self.assertRaisesRegex(ValueError, wanted):
                self.client.rerank("c", QUERY, **arguments)

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
            (lambda: many("c", "text"), "queries is one string; must be a list of queries"),
            (lambda: many("c", [QUERY, QUERY[0]]), r"queries\[1\] has shape \[48\]"),
            (lambda: one("c", QUERY, documents="text"), "documents is one string; must be a list of documents"),
            (lambda: one("c", QUERY, documents=[]), "documents is empty"),
            (lambda: one("c", QUERY, documents=["a", QUERY]), "documents holds texts and vectors"),
            (lambda: one("c", QUERY, documents=[QUERY, QUERY[0]]), r"documents\[1\] has shape \[48\]"),
            (lambda: one("c", QUERY, priority="urgent"), "priority is 'urgent'; must be one of low, normal, high"),
            (lambda: one("c", QUERY, missing_policy="ignore"), "missing_policy is 'ignore'"),
            (lambda: one("c", QUERY, payload_fields="title"), "payload_fields is one string; must be"),
            (lambda: one("c", QUERY[0]), r"query has shape \[48\]"),
            (lambda: one("c", QUERY, refinement=2000), "refinement is 2000; must be a RefinementOptions, or None"),
            (
                lambda: one("c", QUERY, refinement=maxsim.RefinementOptions(-1)),
                "refinement.documents is -1; must be an integer from 0 to 4294967295",
            ),
            (
                lambda: many("c", [QUERY], refinement=maxsim.RefinementOptions(require_proof=1)),
                "refinement.require_proof is 1; must be True or False",
            ),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()


    def test_every_wrong_value_is_named_with_what_is_accepted(self):
        half = "\ud800"
        top_k = "must be an integer from 0 to 4294967295"
        for options, message in (
            ({"top_k": -1}, f"top_k is -1; {top_k}"),
            ({"top_k": 2**32}, f"top_k is 4294967296; {top_k}"),
            ({"top_k": 3.0}, f"top_k is 3.0; {top_k}"),
            ({"top_k": "3"}, f"top_k is '3'; {top_k}"),
            ({"top_k": True}, f"top_k is True; {top_k}"),
            ({"top_k": None}, f"top_k is None; {top_k}"),
            ({"normalize": "no"}, "normalize is 'no'; must be True or False"),
            ({"payloads": "title"}, "payloads is 'title'; must be True or False"),
            ({"alignments": None}, "alignments is None; must be True or False"),
            ({"payload_fields": "title"}, "payload_fields is one string; must be a list of names"),
            ({"payload_fields": 3}, "payload_fields is 3; must be a list of names"),
            ({"payload_fields": ["title", 3]}, "payload_fields[1] is 3; must be a string"),
            ({"request_id": 5}, "request_id is 5; must be a string"),
            ({"request_id": "é" * 129}, "258 bytes; must have at most 256"),
            ({"request_id": half}, "request_id is '\\ud800', which holds half of a surrogate pair"),
            ({"priority": ["low"]}, "priority is ['low']; must be one of low, normal, high"),
            ({"priority": None}, "priority is None; must be one of"),
            ({"missing_policy": {}}, "missing_policy is {}; must be one of report, fail"),
            ({"ids": 5}, "ids is 5; must be a list of ids"),
            ({"ids": "17"}, "ids is one string; must be a list of ids"),
            ({"ids": {"17": 1}}, "ids is {'17': 1}; must be a list of ids"),
            ({"ids": ["17", half]}, "ids[1] is '\\ud800'; must be Unicode text"),
            ({"ids": [1, 2**63]}, "ids[1] is 9223372036854775808; must be an integer of 64 bits"),
            ({"documents": 5}, "documents is 5; must be a list of documents"),
            ({"documents": {"17": QUERY}}, "must be a list of documents"),
            ({"documents": ["a", half]}, "documents[1] is '\\ud800'; must be Unicode text"),
            ({"documents": [QUERY, 5]}, "documents[1] is a int; token vectors are an array [tokens, dim]"),
        ):
            for call in (
                lambda: self.client.rerank("c", QUERY, **options),
                lambda: self.client.rerank_many("c", [QUERY], **options),
                lambda: self.client.collection("c").rerank(QUERY, **options),
                lambda: self.client.collection("c").rerank_many([QUERY], **options),
                lambda: maxsim.Request("c", QUERY, **options).to_message(),
            ):
                with self.subTest(message), self.assertRaises(ValueError) as caught:
                    call()
                self.assertIn(message, str(caught.exception))

    def test_wrong_names_queries_and_weights_are_named(self):
        one, many = self.client.rerank, self.client.rerank_many
        for call, message in (
            (lambda: one(QUERY, "demo"), "collection is an array [2, 48]; must be the name of a collection, or None"),
            (lambda: one(QUERY.tolist(), "demo"), "must be the name of a collection, or None"),
            (lambda: self.client.collection(5), "collection is 5; must be the name of a collection, or None"),
            (lambda: one("c", None), "query is a NoneType; token vectors are an array [tokens, dim]"),
            (lambda: one("c", {"a": 1}.values()), "query is a dict_values; token vectors are an array"),
            (lambda: one("c", "\ud800"), "query is '\\ud800', which holds half of a surrogate pair"),
            (lambda: many("c", 5), "queries is 5; must be a list of queries"),
            (lambda: many("c", [QUERY, None]), "queries[1] is a NoneType"),
            (lambda: one("c", QUERY, weights=["a", "b"]), "weights[0] is 'a'; must be a finite number"),
            (lambda: one("c", QUERY, weights=[1, "2"]), "weights[1] is '2'; must be a finite number"),
            (lambda: one("c", QUERY, weights=[1.0, float("nan")]), "weights[1] is nan; must be a finite number"),
            (lambda: one("c", QUERY, weights=QUERY), "weights[0] is [1.0, 1.0, "),
            (lambda: one("c", QUERY, weights=2), "weights is 2; must be a list with a number for each token"),
            (lambda: one("c", QUERY, weights="aa"), "is one string; must be a list"),
            (lambda: many("c", [QUERY], weights=2), "weights is 2; must be a list with the weights of each query"),
            (lambda: many("c", [QUERY], weights=[[1, None]]), "weights[0][1] is None; must be a finite number"),
        ):
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    def test_values_of_numpy_are_taken(self):
        request = self.client.rerank("c", QUERY, top_k=np.uint8(3), normalize=np.True_, weights=np.float32([1, 0.5]))
        self.assertEqual((request.top_k, request.normalize), (3, True))
        self.assertEqual([*request.queries[0].weights], [1, 0.5])
        request = self.client.rerank("c", QUERY, weights=[np.float16(0.5), 2])
        self.assertEqual([*request.queries[0].weights], [0.5, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
