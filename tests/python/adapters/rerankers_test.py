"""Tests the adapter for rerankers with rerankers and a real server. frameworks_test.py runs this module."""

import asyncio
import unittest

from adapters_fixture import TIE, check_ranking, maxsim
from frameworks_world import World, world
from maxsim.adapters.rerankers import MaxsimRanker
from rerankers import Document, Reranker

QUESTION = 9


def keyed(results):
    return [(one.doc_id, one.score) for one in results]


class RerankersTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION, self.world.ids)

    def test_each_way_ranks_by_maxsim(self):
        metadata = [{"id": id} for id in self.world.ids]
        ways = {
            "the server's encoder": {},
            "an encoder of one's own": {"encoder": self.world.model},
            "ids in the metadata": {"collection": "demo", "id_key": "id"},
            "own ids, encoder of one's own": {"collection": "demo", "own_ids": True, "encoder": self.world.model},
        }
        for name, options in ways.items():
            with self.subTest(name):
                ranker = Reranker(self.world.target, model_type="MaxsimRanker", verbose=0, **options)
                self.assertIsInstance(ranker, MaxsimRanker)
                results = ranker.rank(self.query, self.world.texts, doc_ids=self.world.ids, metadata=metadata)
                check_ranking(self, keyed(results), self.scores)
                self.assertEqual([one.rank for one in results], list(range(1, len(self.world.ids) + 1)))
                check_ranking(self, keyed(results.top_k(4)), self.scores, 4)
                self.assertEqual(results[0].text, self.world.texts[self.world.ids.index(results[0].doc_id)])
                ranker.close()

    def test_documents_of_the_library_and_one_text_alone_are_taken(self):
        ranker = MaxsimRanker(self.world.target, verbose=0)
        documents = [Document(text, doc_id=id) for id, text in zip(self.world.ids, self.world.texts)]
        check_ranking(self, keyed(ranker.rank(self.query, documents)), self.scores)
        (result,) = ranker.rank(self.query, self.world.texts[0])
        self.assertAlmostEqual(result.score, self.scores[self.world.ids[0]], delta=TIE)
        self.assertEqual(ranker.rank(self.query, []).results, [])

    def test_async_calls_answer_alike(self):
        ranker = MaxsimRanker(self.world.target, verbose=0)
        wanted = keyed(ranker.rank(self.query, self.world.texts))

        async def ask():
            answer = await ranker.rank_async(self.query, self.world.texts)
            await ranker.aclose()
            return answer

        for _ in range(2):
            check_ranking(self, keyed(asyncio.run(ask())), dict(wanted), len(wanted))

    def test_a_score_is_that_of_one_document(self):
        ranker = MaxsimRanker(self.world.target, encoder=self.world.model)
        wanted = maxsim(self.world.question_vectors[QUESTION], self.world.vectors[0])
        self.assertAlmostEqual(ranker.score(self.query, self.world.all_texts[0]), wanted, delta=TIE)

    def test_an_image_is_refused(self):
        image = Document(document_type="image", image_path="a.png", doc_id=1)
        with self.assertRaisesRegex(ValueError, r"docs\[0\] is of type 'image' and has no text"):
            MaxsimRanker(self.world.target).rank(self.query, [image])
