"""Tests the adapter for sentence-transformers with a MultiVectorEncoder and a real server. frameworks_test.py runs this
module."""

import unittest

from adapters_fixture import check_ranking
from frameworks_world import World, world
from maxsim import Client
from maxsim.errors import NotFound
from maxsim.adapters.sentence_transformers import MaxsimReranker

QUESTION = 11


def keyed(hits):
    return [(hit["corpus_id"], hit["score"]) for hit in hits]


class SentenceTransformersTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION, self.world.ids)

    def test_texts_are_ranked_as_the_library_scores_them(self):
        model = self.world.model
        similarities = model.similarity(model.encode_query([self.query]), model.encode_document(self.world.texts))
        wanted = dict(enumerate(similarities[0].tolist()))
        with MaxsimReranker(model, self.world.target) as reranker:
            hits = reranker.rank(self.query, self.world.texts, return_documents=True)
            check_ranking(self, keyed(hits), wanted)
            for hit in hits:
                self.assertEqual(hit["text"], self.world.texts[hit["corpus_id"]])
            best = reranker.rank(self.query, self.world.texts, top_k=3)
            check_ranking(self, keyed(best), wanted, 3)
            self.assertNotIn("text", best[0])

    def test_documents_of_a_collection_are_ranked_by_their_ids(self):
        for model in (self.world.model, None):
            with MaxsimReranker(model, self.world.target, collection="demo") as reranker:
                check_ranking(self, keyed(reranker.rank_ids(self.query, self.world.ids)), self.scores)
                check_ranking(self, keyed(reranker.rank_ids(self.query, self.world.ids, top_k=4)), self.scores, 4)
                check_ranking(self, keyed(reranker.search(self.query, top_k=6)), self.world.scores(QUESTION), 6)
                with self.assertRaisesRegex(NotFound, "nothing-1"):
                    reranker.rank_ids(self.query, ["bread-1", "nothing-1"])

    def test_a_search_scores_the_documents_that_match_a_filter(self):
        scores = self.world.scores(QUESTION)
        wanted = {id: scores[id] for id, one in self.world.payloads.items() if one.get("lang") == "en"}
        with MaxsimReranker(self.world.model, self.world.target, collection="fields") as reranker:
            check_ranking(self, keyed(reranker.search(self.query, top_k=1000, filter='lang = "en"')), wanted)

    def test_tensors_of_the_model_go_to_the_client_as_they_are(self):
        model = self.world.model
        with Client(self.world.target) as client:
            ranking = client.rerank(
                None, model.encode_query(self.query), documents=model.encode_document(self.world.texts), top_k=100
            )
        pairs = [(self.world.ids[one.position], one.score) for one in ranking]
        check_ranking(self, pairs, self.scores)

    def test_what_is_missing_is_said(self):
        with MaxsimReranker(self.world.model, self.world.target) as reranker:
            for call in (lambda: reranker.rank_ids(self.query, ["bread-1"]), lambda: reranker.search(self.query)):
                with self.assertRaisesRegex(ValueError, "collection is missing"):
                    call()
            with self.assertRaisesRegex(ValueError, "documents is one string"):
                reranker.rank(self.query, "one text")
            self.assertEqual(reranker.rank(self.query, []), [])
