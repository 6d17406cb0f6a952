"""Tests the LlamaIndex retriever with LlamaIndex and a real server, whose collection has fields. The retriever must
find the same nodes as LlamaIndex's own evaluation of the filters. frameworks_test.py runs this module."""

import asyncio
import random
import unittest

from adapters_fixture import check_ranking
from frameworks_world import World, world
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn
from maxsim import F
from maxsim.adapters.llama_index import MaxsimRetriever, to_filter
from maxsim.errors import InvalidArgument

QUESTION = 5
SEED = random.SystemRandom().randrange(2**32)
VALUES = {
    "lang": ["de", "en", "fr", "it"],
    "year": range(2017, 2027),
    "price": [one / 4 for one in range(0, 40, 3)],
    "author": ["Ada", "Bo"],
}
TAGS = ["draft", "new", "old", "red"]


def one(key, operator, value):
    return MetadataFilter(key=key, operator=operator, value=value)


def random_filter(chance):
    if chance.random() < 0.3:
        operator = chance.choice(["any", "all", "contains", "is_empty"])
        value = chance.choice(TAGS) if operator == "contains" else chance.sample(TAGS, chance.randrange(1, 4))
        return one("tags", operator, None if operator == "is_empty" else value)
    key = chance.choice(list(VALUES))
    ranges = [">", ">=", "<", "<="] if key in ("year", "price") else []
    operator = chance.choice(["==", "!=", "in", "nin", "is_empty", *ranges])
    if operator in ("in", "nin"):
        return one(key, operator, chance.choices(VALUES[key], k=chance.randrange(4)))
    return one(key, operator, None if operator == "is_empty" else chance.choice(VALUES[key]))


def random_filters(chance, depth):
    nested = depth > 0 and chance.random() < 0.7
    make = (lambda: random_filters(chance, depth - 1)) if nested else (lambda: random_filter(chance))
    condition = chance.choice(["and", "or", "not"])
    return MetadataFilters(filters=[make() for _ in range(chance.randrange(1, 4))], condition=condition)


class LlamaIndexRetrieverTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()
        self.query = self.world.questions[QUESTION]
        self.scores = self.world.scores(QUESTION)
        self.metadata = {
            id: {**payload, "author": payload.get("about", {}).get("author")}
            for id, payload in self.world.payloads.items()
        }
        # For the collection, an empty list means that the field has no value. LlamaIndex treats it differently. So the
        # test replaces empty lists by None.
        for values in self.metadata.values():
            values["tags"] = values.get("tags") or None

    def make(self, **options):
        options = {"collection": "fields", "similarity_top_k": 1000, **options}
        made = MaxsimRetriever(self.world.target, **options)
        self.addCleanup(made.close)
        return made

    def matching(self, filters):
        """Returns the ids of matching documents. LlamaIndex evaluates the innermost filters, and this function combines
        nested ones."""
        if isinstance(filters, MetadataFilter):
            filters = MetadataFilters(filters=[filters])
        if not any(isinstance(child, MetadataFilters) for child in filters.filters):
            return set(filter(build_metadata_filter_fn(self.metadata.get, filters), self.metadata))
        parts = [self.matching(child) for child in filters.filters]
        if filters.condition == FilterCondition.AND:
            return set.intersection(*parts)
        found = set.union(*parts)
        return found if filters.condition == FilterCondition.OR else set(self.metadata) - found

    def check(self, nodes, ids, top_k=None):
        ranked = [(one.node.node_id, one.score) for one in nodes]
        check_ranking(self, ranked, {id: self.scores[id] for id in ids}, top_k)

    def test_without_filters_the_whole_collection_is_searched(self):
        self.check(self.make().retrieve(self.query), self.scores)
        self.check(self.make(filters=MetadataFilters(filters=[])).retrieve(self.query), self.scores)
        self.check(MaxsimRetriever(self.world.target, collection="fields").retrieve(self.query), self.scores, 2)
        for one in self.make(similarity_top_k=20).retrieve(self.query):
            payload = dict(self.world.payloads[one.node.node_id])
            self.assertEqual(one.node.text, payload.pop("text"))
            self.assertEqual(one.node.metadata, payload)

    def test_random_filters_find_what_llama_index_finds(self):
        chance = random.Random(SEED)
        retriever = self.make()
        sizes = set()
        for _ in range(150):
            filters = random_filters(chance, 2)
            with self.subTest(filters=filters, seed=SEED):
                wanted = self.matching(filters)
                retriever.filters = filters
                self.check(retriever.retrieve(self.query), wanted)
                sizes.add(len(wanted))
        self.assertGreater(len(sizes), 20)

    def test_each_operator_finds_what_llama_index_finds(self):
        for key, operator, value in (
            ("lang", FilterOperator.EQ, "en"),
            ("lang", FilterOperator.NE, "en"),
            ("year", FilterOperator.GT, 2020),
            ("year", FilterOperator.GTE, 2020),
            ("price", FilterOperator.LT, 2.5),
            ("price", FilterOperator.LTE, 2.5),
            ("lang", FilterOperator.IN, ["de", "fr"]),
            ("lang", FilterOperator.NIN, ["de", "fr"]),
            ("tags", FilterOperator.ANY, ["new", "old"]),
            ("tags", FilterOperator.ALL, ["new", "old"]),
            ("tags", FilterOperator.CONTAINS, "new"),
            ("lang", FilterOperator.IS_EMPTY, None),
        ):
            with self.subTest(operator=operator):
                wanted = self.matching(one(key, operator, value))
                self.assertTrue(0 < len(wanted) < len(self.scores))
                filters = MetadataFilters(filters=[one(key, operator, value)])
                self.check(self.make(filters=filters).retrieve(self.query), wanted)

    def test_filters_of_maxsim_are_taken(self):
        wanted = {id for id, payload in self.world.payloads.items() if payload.get("sold") is True}
        for filters in (F.sold == True, "sold = true", {"field": "sold", "equals": True}):  # noqa: E712
            self.check(self.make(filters=filters).retrieve(self.query), wanted)

    def test_a_query_engine_answers_from_the_nodes_sync_and_async(self):
        filters = MetadataFilters(filters=[one("year", "<", 2022), one("lang", "==", "en")])
        wanted = self.matching(filters)
        for encoder in (None, self.world.model):
            retriever = self.make(filters=filters, similarity_top_k=3, encoder=encoder)
            synthesizer = get_response_synthesizer(response_mode=ResponseMode.COMPACT, llm=MockLLM())
            engine = RetrieverQueryEngine(retriever, synthesizer)
            self.check(engine.query(self.query).source_nodes, wanted, 3)
            for _ in range(2):

                async def ask(retriever=retriever, engine=engine):
                    answer = await engine.aquery(self.query)
                    await retriever.aclose()
                    return answer

                self.check(asyncio.run(ask()).source_nodes, wanted, 3)

    def test_what_cannot_be_evaluated_is_named(self):
        inner = MetadataFilters(filters=[one("lang", "text_match", "e")])
        nested = MetadataFilters(filters=[one("year", ">", 1), inner])
        in_nested = r"filters.filters\[1\].filters\[0\]: the operator 'text_match' of the field 'lang' cannot be"
        for filters, expected in (
            (nested, in_nested),
            (one("lang", "text_match_insensitive", "e"), "the operator 'text_match_insensitive' of the field 'lang'"),
            (one("lang", "==", None), "the operator '==' of the field 'lang' cannot take None"),
            (one("lang", "==", ["en"]), r"the operator '==' of the field 'lang' cannot take \['en'\]"),
            (one("lang", "in", "en"), "the operator 'in' of the field 'lang' cannot take 'en'; it takes a list"),
            (one("year", ">", [1]), r"the operator '>' of the field 'year' cannot take \[1\]"),
            (MetadataFilters(filters=[]), r"filters.filters\[0\].filters is empty"),
        ):
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                to_filter(filters if filters is nested else MetadataFilters(filters=[filters]))
        with self.assertRaisesRegex(InvalidArgument, "colour"):
            self.make(filters=MetadataFilters(filters=[one("colour", "==", "red")])).retrieve(self.query)

    def test_options_that_are_wrong_are_refused(self):
        for options in ({"collection": ""}, {"similarity_top_k": 0}, {"filters": 7}, {"filters": {"lang": "en"}}):
            with self.assertRaises(ValueError):
                self.make(**options)
        with self.assertRaisesRegex(ValueError, "has None as 'body'; text_key names the member"):
            self.make(text_key="body").retrieve(self.query)
        best = self.make(text_key=None).retrieve(self.query)[0].node
        self.assertEqual((best.text, best.metadata), ("", self.world.payloads[best.node_id]))
