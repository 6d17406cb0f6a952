"""Tests the LangChain retriever with LangChain and a real server, whose collection has fields. frameworks_test.py runs
this module."""

import asyncio
import unittest

from adapters_fixture import check_ranking
from frameworks_world import World, world
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from maxsim import F
from maxsim.adapters.langchain import MaxsimRetriever
from maxsim.errors import InvalidArgument

QUESTION = 3
# Filters in every form that is accepted, each with a Python function that selects the same documents.
FILTERS = (
    (F.lang == "en", lambda one: one.get("lang") == "en"),
    ((F.lang != "en") & (F.year >= 2020), lambda one: one.get("lang") != "en" and one.get("year", 0) >= 2020),
    ('lang = "de" or not exists(year)', lambda one: one.get("lang") == "de" or "year" not in one),
    ({"field": "price", "gte": 2, "lt": 5.5}, lambda one: 2 <= one.get("price", 0) < 5.5),
    (F.tags.is_in(["new", "red"]), lambda one: bool({"new", "red"} & set(one.get("tags", ())))),
    (F.author == "Ada", lambda one: one.get("about") == {"author": "Ada"}),
    (F.year > 2100, lambda one: False),
)


class LangChainRetrieverTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION)

    def make(self, **options):
        made = MaxsimRetriever(**{"target": self.world.target, "collection": "fields", "k": 1000, **options})
        self.addCleanup(made.close)
        return made

    def check(self, documents, matches=lambda one: True, top_k=None):
        ranked = [(one.id, one.metadata["relevance_score"]) for one in documents]
        wanted = {id: score for id, score in self.scores.items() if matches(self.world.payloads[id])}
        check_ranking(self, ranked, wanted, top_k)

    def test_without_a_filter_the_whole_collection_is_searched(self):
        self.check(self.make().invoke(self.query))
        self.check(MaxsimRetriever(target=self.world.target, collection="fields").invoke(self.query), top_k=4)
        for one in self.make(k=20).invoke(self.query):
            payload = dict(self.world.payloads[one.id])
            self.assertEqual(one.page_content, payload.pop("text"))
            self.assertEqual(one.metadata, {**payload, "relevance_score": one.metadata["relevance_score"]})

    def test_each_filter_finds_the_documents_that_match(self):
        retriever = self.make()
        for given, matches in FILTERS:
            with self.subTest(given):
                self.check(self.make(filter=given).invoke(self.query), matches)
                self.check(retriever.invoke(self.query, filter=given), matches)
                self.check(retriever.invoke(self.query, filter=given, k=2), matches, 2)

    def test_the_filter_of_a_call_replaces_the_retrievers(self):
        matches = FILTERS[1][1]
        self.check(self.make(filter=F.lang == "en").invoke(self.query, filter=FILTERS[1][0]), matches)
        retriever = self.make().configurable_fields(filter=ConfigurableField(id="filter"))
        self.check(retriever.with_config(configurable={"filter": FILTERS[1][0]}).invoke(self.query), matches)

    def test_async_calls_of_several_event_loops_answer_alike(self):
        given, matches = FILTERS[1]
        for encoder in (None, self.world.model):
            retriever = self.make(encoder=encoder, filter=given)
            self.check(retriever.invoke(self.query), matches)

            async def ask(retriever=retriever):
                answers = await asyncio.gather(*(retriever.ainvoke(self.query) for _ in range(3)))
                answers.append(await retriever.ainvoke(self.query, filter=given))
                await retriever.aclose()
                return answers

            for _ in range(2):
                for answer in asyncio.run(ask()):
                    self.check(answer, matches)

    def test_a_chain_begins_with_the_retriever(self):
        chain = RunnablePassthrough() | self.make(filter=F.lang == "en") | len
        self.assertEqual(chain.invoke(self.query), sum(one.get("lang") == "en" for one in self.world.payloads.values()))
        self.assertEqual(len(self.make(k=2).batch([self.query] * 3)), 3)

    def test_filters_that_are_wrong_are_refused(self):
        for wrong in ({"lang": "en"}, 7, {"field": "lang", "equals": None}):
            with self.assertRaisesRegex(ValueError, "filter"):
                self.make(filter=wrong)
            with self.assertRaisesRegex(ValueError, "filter"):
                self.make().invoke(self.query, filter=wrong)
        with self.assertRaisesRegex(InvalidArgument, "colour"):
            self.make(filter=F.colour == "red").invoke(self.query)
        with self.assertRaisesRegex(InvalidArgument, "year"):
            self.make().invoke(self.query, filter='year = "red"')

    def test_options_that_are_wrong_are_refused(self):
        for options in ({"collection": ""}, {"k": 0}, {"top_n": 3}):
            with self.assertRaises(ValueError):
                self.make(**options)
        with self.assertRaisesRegex(ValueError, "k is 0; must be 1 or more"):
            self.make().invoke(self.query, k=0)
        with self.assertRaisesRegex(ValueError, "has None as 'body'; text_key names the member"):
            self.make(text_key="body").invoke(self.query)
        best = self.make(text_key=None).invoke(self.query)[0]
        self.assertEqual(best.page_content, "")
        self.assertEqual(best.metadata["text"], self.world.payloads[best.id]["text"])

    def test_it_is_dumped_with_its_filter_and_without_secrets(self):
        retriever = self.make(filter=F.lang == "en", token="secret-token")
        dumped = retriever.model_dump_json()
        self.assertIn('"filter":{"field":"lang","equals":"en"}', dumped)
        self.assertNotIn("secret-token", f"{retriever!r} {dumped}")
