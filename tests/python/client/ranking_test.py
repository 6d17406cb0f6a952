"""Tests the Ranking objects that a client makes from answers.

python ranking_test.py
"""

import concurrent.futures
import copy as copy_module
import dataclasses
import json
import pickle
import threading
import unittest
import unittest.mock

import numpy as np

from client_fixture import use_package

use_package()
import maxsim  # noqa: E402
from maxsim.ranking import read_response  # noqa: E402
from maxsim.v1 import rerank_pb2 as pb  # noqa: E402


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
        self.response = pb.RerankResponse(results=[result], generation=7, unavailable_groups=["g1"])
        self.ranking = read_response(self.response)[0]

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

    def test_columns_and_an_index_make_no_other_documents(self):
        made, make = [], maxsim.Document

        def counted(*values):
            document = make(*values)
            made.append(document.position)
            return document

        with unittest.mock.patch("maxsim.ranking.Document", counted):
            ranking = self.ranking
            self.assertEqual((len(ranking), ranking.ids, ranking.missing), (3, ["a", "b", "c"], ["z"]))
            self.assertEqual((ranking.scores[0], ranking.positions[0]), (3.5, 4))
            self.assertEqual(made, [])
            ranking[-1].payload["seen"] = True
            self.assertEqual(made, [9])
            self.assertEqual((ranking[2:].ids, ranking[::-2].ids), (["c"], ["c", "a"]))
            self.assertEqual(made, [9, 4])
            # Reading a document again must return the same object, because the caller may have changed its payload.
            self.assertEqual([document.payload for document in ranking], [{"title": "A"}, None, {"seen": True}])
            self.assertIs(ranking[2], ranking.documents[2])
            self.assertIs(ranking[-3], ranking[0])
            self.assertEqual(sorted(made), [0, 4, 4, 9, 9])
            self.assertEqual((len(ranking), ranking.ids), (3, ["a", "b", "c"]))

    def test_it_equals_is_printed_and_pickled_as_one_that_was_made_by_hand(self):
        def again():
            return read_response(self.response)[0]

        by_hand = maxsim.Ranking([*again()], ["z"], 7, 2, ["what", "?"], unavailable_groups=["g1"])
        self.assertEqual(again(), by_hand)
        self.assertNotEqual(again(), again()[:2])
        self.assertEqual(again()[:2], by_hand[:2])
        self.assertEqual(repr(again()), repr(by_hand))
        for copy in (pickle.loads(pickle.dumps(again())), copy_module.copy(again()), copy_module.deepcopy(again())):
            self.assertEqual(copy, by_hand)
            self.assertEqual((copy.ids, len(copy), copy[1].position), (["a", "b", "c"], 3, 0))
            self.assertEqual(copy.documents[0].matches.tolist(), [1, 0])
        self.assertEqual([dataclasses.asdict(again())["documents"][i]["id"] for i in range(3)], ["a", "b", "c"])
        self.assertEqual(dataclasses.replace(again(), generation=8).ids, ["a", "b", "c"])
        for name in ("best", "__len", "_documents"):
            self.assertRaisesRegex(AttributeError, f"'Ranking' .* '{name}'", getattr, again(), name)
        for index in (3, -4):
            self.assertRaises(IndexError, lambda: again()[index])
        self.assertRaises(TypeError, lambda: again()["a"])
        self.assertRaises(dataclasses.FrozenInstanceError, setattr, again(), "generation", 1)

    def test_threads_that_read_one_ranking_see_the_same_documents(self):
        result = pb.QueryResult(scores=np.arange(500.0), positions=range(500))
        for _ in range(20):
            ranking = read_response(pb.RerankResponse(results=[result]))[0]
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                jobs = [threads.submit(lambda: (len(ranking), ranking.ids, ranking.documents)) for _ in range(8)]
                seen = [job.result() for job in jobs]
            self.assertEqual({(one[0], *one[1]) for one in seen}, {(500, *range(500))})
            self.assertEqual(len({id(one[2]) for one in seen}), 1)

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
        wanted = {
            "missing": ["z"],
            "generation": 7,
            "unavailable": 2,
            "query_tokens": ["what", "?"],
            "sequence": 0,
            "query_truncated": False,
            "refinement": None,
            "unavailable_groups": ["g1"],
        }
        self.assertEqual(values, wanted)
        self.assertEqual(self.ranking[:1].unavailable_groups, ["g1"])

    def test_a_scan_is_described(self):
        self.assertIsNone(self.ranking.refinement)
        message = pb.Refinement(planes=4, documents=50, certificate=pb.CERTIFICATE_PROVEN, margin=0.5)
        result = pb.QueryResult(scores=[2, 1], positions=[1, 0], refinement=message)
        ranking = read_response(pb.RerankResponse(results=[result]))[0]
        self.assertEqual(ranking.refinement, maxsim.Refinement(4, 50, True, 0.5))
        self.assertEqual(ranking[:1].refinement, ranking.refinement)
        message.certificate, message.margin = pb.CERTIFICATE_NOT_PROVEN, -0.25
        message.outside_score, message.outside_is_bound = 1.25, True
        result = pb.QueryResult(scores=[1], positions=[1], refinement=message)
        ranking = read_response(pb.RerankResponse(results=[result]))[0]
        self.assertEqual(ranking.refinement, maxsim.Refinement(4, 50, False, -0.25, 1.25, True))
        self.assertEqual(
            json.loads(json.dumps(ranking.to_dict()))["refinement"],
            {
                "planes": 4,
                "documents": 50,
                "proven": False,
                "margin": -0.25,
                "outside_score": 1.25,
                "outside_is_bound": True,
            },
        )

    def test_texts_that_the_encoder_cut_are_marked(self):
        result = pb.QueryResult(scores=[2, 1], positions=[1, 0], query_truncated=True, truncated=[False, True])
        for read_all in (False, True):
            ranking = read_response(pb.RerankResponse(results=[result]))[0]
            if read_all:
                self.assertEqual(len(ranking.documents), 2)
            self.assertEqual([ranking[i].truncated for i in range(2)], [False, True])
            self.assertTrue(ranking.query_truncated)
            self.assertNotIn("truncated", ranking[0].to_dict())
            self.assertIs(ranking[1].to_dict()["truncated"], True)
            self.assertIs(ranking.to_dict()["query_truncated"], True)

    def test_documents_of_groups_have_the_groups_value(self):
        result = pb.QueryResult(scores=[2, 1], positions=[1, 0], group_values=["", "b"])
        for read_all in (False, True):
            ranking = read_response(pb.RerankResponse(results=[result]))[0]
            if read_all:
                self.assertEqual(len(ranking.documents), 2)
            self.assertEqual([ranking[i].group for i in range(2)], ["", "b"])
            self.assertEqual(ranking[0].to_dict()["group"], "")
        result.ClearField("group_values")
        self.assertIsNone(read_response(pb.RerankResponse(results=[result]))[0][0].group)

    def test_a_document_that_one_thread_makes_is_the_one_that_all_threads_see(self):
        making, go_on = threading.Event(), threading.Event()
        payload_of = maxsim.ranking._payload

        def slow_payload(text):
            if not making.is_set():
                making.set()
                go_on.wait()
            return payload_of(text)

        with unittest.mock.patch.object(maxsim.ranking, "_payload", slow_payload):
            with concurrent.futures.ThreadPoolExecutor(2) as threads:
                one = threads.submit(lambda: self.ranking[0])
                making.wait()
                rest = threads.submit(lambda: self.ranking.documents)
                # Without a lock, the Ranking would make all documents a second time during this wait.
                concurrent.futures.wait([rest], timeout=1)
                go_on.set()
                self.assertIs(one.result(), rest.result()[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
