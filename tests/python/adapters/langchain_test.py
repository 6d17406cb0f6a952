"""Tests the LangChain adapter with LangChain and a real server. frameworks_test.py runs this module."""

import asyncio
import copy
import gc
import unittest
import warnings

from adapters_fixture import check_ranking
from frameworks_world import World, world
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from maxsim.errors import NotFound
from maxsim.adapters.langchain import MaxsimRerank

QUESTION = 3


def keyed(documents):
    """Returns (id, score) of ranked documents."""
    return [(one.metadata["id"], one.metadata["relevance_score"]) for one in documents]


class LangChainTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        pairs = zip(self.world.ids, self.world.texts)
        self.documents = [Document(page_content=text, id=id, metadata={"id": id}) for id, text in pairs]
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION, self.world.ids)

    def test_each_way_ranks_by_maxsim(self):
        ways = {
            "the server's encoder": {},
            "an encoder of one's own": {"encoder": self.world.model},
            "ids in the metadata": {"collection": "demo", "id_key": "id"},
            "own ids, encoder of one's own": {"collection": "demo", "own_ids": True, "encoder": self.world.model},
        }
        for name, options in ways.items():
            with self.subTest(name):
                ranker = MaxsimRerank(target=self.world.target, top_n=None, **options)
                check_ranking(self, keyed(ranker.compress_documents(self.documents, self.query)), self.scores)
                ranker.top_n = 4
                check_ranking(self, keyed(ranker.compress_documents(self.documents, self.query)), self.scores, 4)
                ranker.close()

    def test_async_calls_of_several_event_loops_answer_alike(self):
        for options in ({}, {"encoder": self.world.model}, {"collection": "demo", "id_key": "id"}):
            ranker = MaxsimRerank(target=self.world.target, top_n=5, **options)
            wanted = keyed(ranker.compress_documents(self.documents, self.query))

            async def ask(ranker=ranker):
                calls = (ranker.acompress_documents(self.documents, self.query) for _ in range(3))
                answers = await asyncio.gather(*calls)
                await ranker.aclose()
                return answers

            for _ in range(2):
                for answer in asyncio.run(ask()):
                    check_ranking(self, keyed(answer), dict(wanted), len(wanted))

    def test_event_loops_may_end_without_a_word(self):
        ranker = MaxsimRerank(target=self.world.target, collection="demo", id_key="id", top_n=5)
        wanted = keyed(ranker.compress_documents(self.documents, self.query))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(4):
                ranked = asyncio.run(ranker.acompress_documents(self.documents, self.query))
                check_ranking(self, keyed(ranked), dict(wanted), len(wanted))
            gc.collect()
        self.assertEqual([str(one.message) for one in caught], [])

    def test_documents_are_copied(self):
        ranker = MaxsimRerank(target=self.world.target)
        before = copy.deepcopy(self.documents)
        best = ranker.compress_documents(self.documents, self.query)[0]
        self.assertEqual(self.documents, before)
        self.assertEqual(best.page_content, self.world.texts[self.world.ids.index(best.id)])

    def test_a_chain_of_a_retriever_and_the_ranker_answers(self):
        documents = self.documents

        class Everything(BaseRetriever):
            def _get_relevant_documents(self, query, *, run_manager):
                return documents

        ranker = MaxsimRerank(target=self.world.target, top_n=2)
        find = Everything()
        chain = RunnableLambda(lambda query: ranker.compress_documents(find.invoke(query), query))
        check_ranking(self, keyed(chain.invoke(self.query)), self.scores, 2)

    def test_no_documents_are_no_answer(self):
        ranker = MaxsimRerank(target=self.world.target)
        self.assertEqual(list(ranker.compress_documents([], self.query)), [])
        self.assertEqual(list(asyncio.run(ranker.acompress_documents([], self.query))), [])

    def test_a_document_that_the_collection_lacks_fails_or_is_left_out(self):
        documents = [*self.documents, Document(page_content="A new one.", metadata={"id": "new"})]
        options = {"target": self.world.target, "collection": "demo", "id_key": "id", "top_n": None}
        with self.assertRaisesRegex(NotFound, "new"):
            MaxsimRerank(**options).compress_documents(documents, self.query)
        ranked = MaxsimRerank(missing_policy="report", **options).compress_documents(documents, self.query)
        check_ranking(self, keyed(ranked), self.scores)

    def test_a_document_without_an_id_is_named(self):
        documents = [*self.documents[:2], Document(page_content="A text alone.")]
        ranker = MaxsimRerank(target=self.world.target, collection="demo", id_key="id")
        with self.assertRaisesRegex(ValueError, r"the metadata 'id' of documents\[2\] is None"):
            ranker.compress_documents(documents, self.query)

    def test_parts_of_one_document_share_its_score(self):
        documents = [self.documents[0], *self.documents[:2]]
        ranker = MaxsimRerank(target=self.world.target, collection="demo", id_key="id")
        ranked = keyed(ranker.compress_documents(documents, self.query))
        self.assertEqual(len(ranked), 3)
        self.assertEqual(len(dict(ranked)), 2)
        for id, score in ranked:
            self.assertAlmostEqual(score, self.scores[id], delta=5e-3)

    def test_options_that_contradict_or_are_unknown_are_refused(self):
        for options in ({"id_key": "id"}, {"collection": "demo", "id_key": "id", "own_ids": True}, {"top": 3}):
            with self.assertRaises(ValueError):
                MaxsimRerank(target=self.world.target, **options)

    def test_the_token_is_not_in_what_is_printed_or_dumped(self):
        ranker = MaxsimRerank(target=self.world.target, token="secret-token")
        self.assertNotIn("secret-token", f"{ranker!r} {ranker.model_dump()} {ranker.model_dump_json()}")
