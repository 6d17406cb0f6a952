"""Tests the LlamaIndex adapter with LlamaIndex and a real server. frameworks_test.py runs this module."""

import asyncio
import unittest

from adapters_fixture import check_ranking
from frameworks_world import World, world
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from maxsim.adapters.llama_index import MaxsimRerank

QUESTION = 5


def keyed(nodes):
    return [(one.node.node_id, one.score) for one in nodes]


class LlamaIndexTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        pairs = zip(self.world.ids, self.world.texts)
        # Excludes the id from encoding, because LlamaIndex encodes metadata together with the text.
        nodes = [
            TextNode(id_=id, text=text, metadata={"id": id}, excluded_embed_metadata_keys=["id"]) for id, text in pairs
        ]
        self.nodes = [NodeWithScore(node=node, score=0.5) for node in nodes]
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
                check_ranking(self, keyed(ranker.postprocess_nodes(self.nodes, query_str=self.query)), self.scores)
                ranker.top_n = 4
                ranked = ranker.postprocess_nodes(self.nodes, QueryBundle(self.query))
                check_ranking(self, keyed(ranked), self.scores, 4)
                ranker.close()
        self.assertEqual({one.score for one in self.nodes}, {0.5}, "the nodes that were given are changed")

    def test_async_calls_answer_alike(self):
        ranker = MaxsimRerank(target=self.world.target, top_n=5)
        wanted = keyed(ranker.postprocess_nodes(self.nodes, query_str=self.query))

        async def ask():
            answer = await ranker.apostprocess_nodes(self.nodes, query_str=self.query)
            await ranker.aclose()
            return answer

        for _ in range(2):
            check_ranking(self, keyed(asyncio.run(ask())), dict(wanted), len(wanted))

    def test_a_query_engine_answers_from_the_ranked_nodes(self):
        nodes = self.nodes

        class Everything(BaseRetriever):
            def _retrieve(self, query_bundle):
                return nodes

        synthesizer = get_response_synthesizer(response_mode=ResponseMode.COMPACT, llm=MockLLM())
        engine = RetrieverQueryEngine(
            Everything(), synthesizer, [MaxsimRerank(target=self.world.target, collection="demo", own_ids=True)]
        )
        check_ranking(self, keyed(engine.query(self.query).source_nodes), self.scores, 3)
        check_ranking(self, keyed(asyncio.run(engine.aquery(self.query)).source_nodes), self.scores, 3)

    def test_metadata_that_are_embedded_are_scored(self):
        node = TextNode(text="Nothing.", metadata={"subject": self.query})
        nodes = [NodeWithScore(node=node), NodeWithScore(node=TextNode(text="Nothing."))]
        first, second = MaxsimRerank(target=self.world.target).postprocess_nodes(nodes, query_str=self.query)
        self.assertEqual(first.node.metadata, node.metadata)
        self.assertGreater(first.score, second.score + 1)

    def test_the_instrumentation_sees_the_ranking(self):
        class Seen(BaseEventHandler):
            names: list = []

            def handle(self, event, **_):
                self.names.append(event.class_name())

        seen = Seen()
        dispatcher = get_dispatcher("root")
        dispatcher.add_event_handler(seen)
        self.addCleanup(dispatcher.event_handlers.remove, seen)
        MaxsimRerank(target=self.world.target).postprocess_nodes(self.nodes, query_str=self.query)
        self.assertEqual([name for name in seen.names if "ReRank" in name], ["ReRankStartEvent", "ReRankEndEvent"])

    def test_no_nodes_are_no_answer_and_no_question_is_an_error(self):
        ranker = MaxsimRerank(target=self.world.target)
        self.assertEqual(ranker.postprocess_nodes([], query_str=self.query), [])
        with self.assertRaisesRegex(ValueError, "query_str or query_bundle is missing"):
            ranker.postprocess_nodes(self.nodes)

    def test_options_that_contradict_are_refused(self):
        with self.assertRaisesRegex(ValueError, "collection is missing"):
            MaxsimRerank(id_key="id")

    def test_it_becomes_a_dictionary_and_back_without_secrets(self):
        ranker = MaxsimRerank(target=self.world.target, top_n=7, token="secret-token")
        values = ranker.to_dict()
        self.assertNotIn("secret-token", str(values))
        self.assertEqual(MaxsimRerank.from_dict(values).top_n, 7)
