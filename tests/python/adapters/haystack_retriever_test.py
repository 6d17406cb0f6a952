"""Tests the Haystack retriever with Haystack and a real server, whose collection has fields. The retriever must find
the same documents as Haystack's own evaluation of the filters. frameworks_test.py runs this module."""

import asyncio
import datetime
import os
import random
import unittest
from unittest import mock

from adapters_fixture import check_ranking
from frameworks_world import World, world
from haystack import Document, Pipeline
from haystack.errors import FilterError
from haystack.utils import Secret
from haystack.utils.filters import document_matches_filter
from maxsim import Client
from maxsim.adapters.haystack import MaxsimRanker, MaxsimRetriever, to_filter
from maxsim.errors import InvalidArgument

QUESTION = 7
SEED = random.SystemRandom().randrange(2**32)
VALUES = {
    "lang": ["de", "en", "fr", "it"],
    "year": range(2017, 2027),
    "price": [one / 4 for one in range(0, 40, 3)],
    "sold": [True, False],
    "at": [f"2024-0{month}-01T13:00:00+01:00" for month in range(1, 9)]
    + [datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)],
    "author": ["Ada", "Bo"],
}
RANGES = ("year", "price", "at")


def comparison(field, operator, value):
    return {"field": f"meta.{field}", "operator": operator, "value": value}


def random_comparison(chance):
    field = chance.choice(list(VALUES))
    operators = ["==", "!=", "in", "not in", *([">", ">=", "<", "<="] * (field in RANGES))]
    operator = chance.choice(operators)
    if "in" in operator:
        return comparison(field, operator, [*chance.choices(VALUES[field], k=chance.randrange(4))])
    return comparison(field, operator, None if chance.random() < 0.1 else chance.choice(VALUES[field]))


def random_filter(chance, depth=3):
    if depth == 0 or chance.random() < 0.3:
        return random_comparison(chance)
    conditions = [random_filter(chance, depth - 1) for _ in range(chance.randrange(1, 4))]
    return {"operator": chance.choice(["AND", "OR", "NOT"]), "conditions": conditions}


class HaystackRetrieverTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION)
        # In the collection, the field "author" is inside of the payload's member "about". Haystack needs it directly in
        # `meta`.
        self.documents = {
            id: Document(id=id, meta={**payload, "author": payload.get("about", {}).get("author")})
            for id, payload in self.world.payloads.items()
        }
        self.retriever = self.make()

    def make(self, **options):
        made = MaxsimRetriever(self.world.target, **{"collection": "fields", "top_k": 1000, **options})
        self.addCleanup(made.close)
        return made

    def matching(self, filters):
        return {id for id, document in self.documents.items() if document_matches_filter(filters, document)}

    def check(self, answer, ids, top_k=None):
        ranked = [(one.id, one.score) for one in answer["documents"]]
        check_ranking(self, ranked, {id: self.scores[id] for id in ids}, top_k)

    def test_without_filters_the_whole_collection_is_searched(self):
        self.check(self.retriever.run(self.query), self.scores)
        self.check(self.retriever.run(self.query, filters={}, top_k=3), self.scores, 3)
        for one in self.retriever.run(self.query, top_k=20)["documents"]:
            payload = dict(self.world.payloads[one.id])
            self.assertEqual(one.content, payload.pop("text"))
            self.assertEqual(one.meta, payload)

    def test_random_filters_find_what_haystack_finds(self):
        chance = random.Random(SEED)
        sizes = set()
        with Client(self.world.target) as client:
            for _ in range(150):
                filters = random_filter(chance)
                with self.subTest(filters=filters, seed=SEED):
                    wanted = self.matching(filters)
                    ranking = client.rerank("fields", self.query, top_k=1000, filter=to_filter(filters))
                    self.assertEqual(set(ranking.ids), wanted)
                    sizes.add(len(wanted))
        self.assertGreater(len(sizes), 20)
        self.assertIn(0, sizes)

    def test_each_operator_finds_what_haystack_finds(self):
        for filters in (
            comparison("lang", "==", "en"),
            comparison("lang", "!=", "en"),
            comparison("year", ">", 2020),
            comparison("year", ">=", 2020),
            comparison("price", "<", 2.5),
            comparison("price", "<=", 2.5),
            comparison("lang", "in", ["de", "fr"]),
            comparison("lang", "not in", ["de", "fr"]),
            comparison("lang", "==", None),
            comparison("lang", "in", ["de", None]),
            {"operator": "AND", "conditions": [comparison("lang", "==", "en"), comparison("year", ">", 2020)]},
            {"operator": "OR", "conditions": [comparison("lang", "==", "fr"), comparison("year", ">", 2023)]},
            {"operator": "NOT", "conditions": [comparison("lang", "==", "en"), comparison("year", ">", 2020)]},
        ):
            with self.subTest(filters):
                wanted = self.matching(filters)
                self.assertTrue(0 < len(wanted) < len(self.scores))
                self.check(self.retriever.run(self.query, filters=filters), wanted)
                self.check(self.retriever.run(self.query, filters=filters, top_k=2), wanted, 2)

    def test_a_list_of_keywords_has_a_value(self):
        answer = self.retriever.run(self.query, filters=comparison("tags", "in", ["new", "red"]))
        payloads = self.world.payloads.items()
        self.check(answer, {id for id, one in payloads if {"new", "red"} & set(one.get("tags", ()))})

    def test_filters_of_a_run_replace_or_join_those_of_the_component(self):
        english, late = comparison("lang", "==", "en"), comparison("year", ">", 2020)
        self.check(self.make(filters=english).run(self.query), self.matching(english))
        self.check(self.make(filters=english).run(self.query, filters=late), self.matching(late))
        both = self.matching(english) & self.matching(late)
        self.check(self.make(filters=english, filter_policy="merge").run(self.query, filters=late), both)

    def test_async_runs_and_own_encoders_answer_alike(self):
        filters = comparison("year", "<", 2022)
        wanted = self.matching(filters)

        async def ask(retriever):
            answer = await retriever.run_async(self.query, filters=filters)
            await retriever.close_async()
            return answer

        for options in ({}, {"encoder": self.world.model}, {"model": str(self.world.model_folder)}):
            retriever = self.make(**options)
            self.check(retriever.run(self.query, filters=filters), wanted)
            for _ in range(2):
                self.check(asyncio.run(ask(retriever)), wanted)

    def test_a_pipeline_is_saved_and_loaded_with_its_filters(self):
        filters = comparison("lang", "in", ["en", "de"])
        with mock.patch.dict(os.environ, {"MAXSIM_TEST_TOKEN": "secret-token"}):
            token = Secret.from_env_var("MAXSIM_TEST_TOKEN")
            pipeline = Pipeline()
            retriever = self.make(token=token, filters=filters, filter_policy="merge", top_k=20)
            pipeline.add_component("retriever", retriever)
            pipeline.add_component("ranker", MaxsimRanker(self.world.target, collection="demo", own_ids=True, top_k=5))
            pipeline.connect("retriever.documents", "ranker.documents")
            text = pipeline.dumps()
            self.assertNotIn("secret-token", text)
            with mock.patch.dict(os.environ, {"HAYSTACK_DESERIALIZATION_ALLOWLIST": "maxsim.*"}):
                loaded = Pipeline.loads(text)
            answer = loaded.run({"retriever": {"query": self.query}, "ranker": {"query": self.query}})
        self.check(answer["ranker"], self.matching(filters), 5)
        self.assertEqual(loaded.get_component("retriever").to_dict(), pipeline.get_component("retriever").to_dict())
        with self.assertRaisesRegex(ValueError, "encoder is a MultiVectorEncoder"):
            self.make(encoder=self.world.model).to_dict()

    def test_filters_that_cannot_be_evaluated_are_refused(self):
        wrong = comparison("lang", "contains", "e")
        with self.assertRaisesRegex(FilterError, "the operator 'contains' of the field 'lang' is unknown"):
            self.make(filters=wrong)
        with self.assertRaisesRegex(FilterError, "the operator 'contains' of the field 'lang' is unknown"):
            self.retriever.run(self.query, filters=wrong)
        with self.assertRaisesRegex(InvalidArgument, 'field "colour" is not declared; the collection has lang, year'):
            self.retriever.run(self.query, filters=comparison("colour", "==", "red"))
        with self.assertRaisesRegex(InvalidArgument, 'field "year" is of kind integer: the value is "red"'):
            self.retriever.run(self.query, filters=comparison("year", "==", "red"))

    def test_options_that_are_wrong_are_refused(self):
        for options in ({"collection": ""}, {"top_k": 0}, {"model": "a", "encoder": 1}, {"filter_policy": "join"}):
            with self.assertRaises(ValueError):
                self.make(**options)
        with self.assertRaisesRegex(ValueError, "has None as 'body'; text_key names the member"):
            self.make(text_key="body").run(self.query)
        best = self.make(text_key=None).run(self.query)["documents"][0]
        self.assertEqual((best.content, best.meta), (None, self.world.payloads[best.id]))
