"""Tests the Haystack adapter with Haystack and a real server. frameworks_test.py runs this module."""

import asyncio
import os
import unittest
from unittest import mock

from adapters_fixture import check_ranking
from frameworks_world import World, world
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from maxsim.adapters.haystack import MaxsimRanker

QUESTION = 7


def keyed(answer):
    return [(one.meta["id"], one.score) for one in answer["documents"]]


class HaystackTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        pairs = zip(self.world.ids, self.world.texts)
        self.documents = [Document(id=id, content=text, meta={"id": id}) for id, text in pairs]
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION, self.world.ids)

    def test_each_way_ranks_by_maxsim(self):
        ways = {
            "the server's encoder": {},
            "an encoder of one's own": {"encoder": self.world.model},
            "a model that warm_up loads": {"model": str(self.world.model_folder)},
            "ids in the metadata": {"collection": "demo", "id_key": "id"},
            "own ids, encoder of one's own": {"collection": "demo", "own_ids": True, "encoder": self.world.model},
        }
        for name, options in ways.items():
            with self.subTest(name):
                ranker = MaxsimRanker(self.world.target, top_k=100, **options)
                check_ranking(self, keyed(ranker.run(self.query, self.documents)), self.scores)
                check_ranking(self, keyed(ranker.run(self.query, self.documents, top_k=4)), self.scores, 4)
                ranker.close()
        self.assertEqual({one.score for one in self.documents}, {None}, "the documents that were given are changed")

    def test_async_runs_answer_alike(self):
        ranker = MaxsimRanker(self.world.target, top_k=5)
        wanted = keyed(ranker.run(self.query, self.documents))

        async def ask():
            answer = await ranker.run_async(self.query, self.documents)
            await ranker.close_async()
            return answer

        for _ in range(2):
            check_ranking(self, keyed(asyncio.run(ask())), dict(wanted), len(wanted))

    def pipeline(self):
        store = InMemoryDocumentStore()
        store.write_documents(self.documents)
        pipeline = Pipeline()
        pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=6))
        pipeline.add_component("ranker", MaxsimRanker(self.world.target, collection="demo", own_ids=True, top_k=3))
        pipeline.connect("retriever.documents", "ranker.documents")
        return pipeline

    def test_a_pipeline_ranks_what_bm25_finds(self):
        asked = {"retriever": {"query": self.query}, "ranker": {"query": self.query}}
        outputs = {"include_outputs_from": {"retriever"}}
        answers = (
            self.pipeline().run(asked, **outputs),
            asyncio.run(self.pipeline().run_async(asked, **outputs)),
        )
        for answer in answers:
            found = [one.id for one in answer["retriever"]["documents"]]
            self.assertEqual(len(found), 6)
            check_ranking(self, keyed(answer["ranker"]), {id: self.scores[id] for id in found}, 3)

    def test_a_pipeline_is_saved_and_loaded(self):
        pipeline = Pipeline()
        options = {"model": str(self.world.model_folder), "meta_fields_to_embed": ["title"], "top_k": 4}
        with mock.patch.dict(os.environ, {"MAXSIM_TEST_TOKEN": "secret-token"}):
            token = Secret.from_env_var("MAXSIM_TEST_TOKEN")
            pipeline.add_component("ranker", MaxsimRanker(self.world.target, token=token, **options))
            text = pipeline.dumps()
            self.assertNotIn("secret-token", text)
            with mock.patch.dict(os.environ, {"HAYSTACK_DESERIALIZATION_ALLOWLIST": "maxsim.*"}):
                loaded = Pipeline.loads(text)
            answer = loaded.run({"ranker": {"query": self.query, "documents": self.documents}})
        check_ranking(self, keyed(answer["ranker"]), self.scores, 4)
        self.assertEqual(loaded.get_component("ranker").to_dict(), pipeline.get_component("ranker").to_dict())

    def test_a_loaded_encoder_is_not_saved(self):
        with self.assertRaisesRegex(ValueError, "encoder is a MultiVectorEncoder, which is an object of this process"):
            MaxsimRanker(encoder=self.world.model).to_dict()

    def test_a_document_that_two_retrievers_found_is_ranked_once(self):
        answer = MaxsimRanker(self.world.target, top_k=100).run(self.query, [*self.documents, *self.documents[:5]])
        check_ranking(self, keyed(answer), self.scores)

    def test_members_of_meta_stand_before_the_content(self):
        documents = [Document(content="Nothing."), Document(content="Nothing.", meta={"subject": self.query})]
        ranker = MaxsimRanker(self.world.target, meta_fields_to_embed=["subject", "none"])
        first, second = ranker.run(self.query, documents)["documents"]
        self.assertEqual(first.meta, {"subject": self.query})
        self.assertGreater(first.score, second.score + 1)

    def test_no_documents_are_no_answer_and_none_without_content_is_read(self):
        ranker = MaxsimRanker(self.world.target)
        self.assertEqual(ranker.run(self.query, []), {"documents": []})
        with self.assertRaisesRegex(ValueError, r"documents\[1\] has no content"):
            ranker.run(self.query, [self.documents[0], Document(content=None)])

    def test_options_that_contradict_are_refused(self):
        for options in ({"top_k": 0}, {"id_key": "id"}, {"model": "a", "encoder": self.world.model}):
            with self.assertRaises(ValueError):
                MaxsimRanker(self.world.target, **options)
        with self.assertRaisesRegex(ValueError, "top_k is 0"):
            MaxsimRanker(self.world.target).run(self.query, self.documents, top_k=0)
