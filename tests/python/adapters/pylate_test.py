"""Tests the adapter for PyLate with PyLate, a ColBERT model of MiniLM's weights, and a real server. `rerank`, and
retrieve.ColBERT with a MaxsimIndex, must rank like pylate.rank.rerank over all documents.

python pylate_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import sys
import tempfile
import unittest

from adapters_fixture import World, check_ranking, maxsim, run_example

import minilm_models
import numpy as np
import torch
from maxsim import Client, F
from maxsim.adapters.pylate import MaxsimIndex, rerank
from maxsim.adapters.scorer import Candidates, Scorer
from maxsim.errors import MaxsimError, NotFound
from pylate import models, rank, retrieve

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
NUM_QUERIES = 6
# Allowed difference of two scores that add the same 32 similarities in FP32 in different orders.
TIE_F32 = 1e-4
# Tolerance if the vectors of these similarities are rounded to float16.
TIE_F16 = 1e-2
WORLD: World


def pairs(ranked):
    return [(one["id"], one["score"]) for one in ranked]


class PyLateWorld(World):
    """A World that also has the ColBERT model's vectors of the texts and of some questions, and PyLate's rankings of
    the texts. The server has a collection "exact" of these vectors in FP32."""

    def start(self, programs, num_documents=50):
        super().start(programs, num_documents)
        torch.set_num_threads(2)
        folder = self.folder / "minilm-pylate"
        minilm_models.make_pylate_model(folder)
        self.model_folder = folder
        self.model = model = models.ColBERT(str(folder), device="cpu")
        self.documents = model.encode(self.texts, is_query=False, show_progress_bar=False)
        self.queries = model.encode(self.questions[:NUM_QUERIES], is_query=True, show_progress_bar=False)
        # PyLate pads a list of several documents with zeros. A zero may exceed a negative similarity and change a
        # score. A list of one document is not padded, so its scores are exact.
        self.padded = rank.rerank([self.ids] * NUM_QUERIES, self.queries, [self.documents] * NUM_QUERIES)
        self.exact = [self.rank_alone(query) for query in self.queries]
        with MaxsimIndex("exact", self.target, folder=self.folder / "exact", storage="f32") as index:
            index.add_documents(self.ids, self.documents)

    def rank_alone(self, query):
        alone = [[vectors] for vectors in self.documents]
        scored = rank.rerank([[id] for id in self.ids], [query] * len(alone), alone)
        return sorted((one for (one,) in scored), key=lambda one: -one["score"])


class PyLateTest(unittest.TestCase):
    def setUp(self):
        self.ids, self.documents, self.queries = WORLD.ids, WORLD.documents, WORLD.queries
        self.exact = WORLD.exact

    def check(self, results, tie, exact=None, top_k=None):
        exact = self.exact if exact is None else exact
        self.assertEqual(len(results), len(exact))
        for ranked, wanted in zip(results, exact):
            check_ranking(self, pairs(ranked), dict(pairs(wanted)), top_k, tie)

    def order(self, results):
        return [[one["id"] for one in ranked] for ranked in results]


class RerankTest(PyLateTest):
    def test_documents_that_come_with_the_call_rank_as_in_pylate(self):
        arguments = ([self.ids] * NUM_QUERIES, self.queries, [self.documents] * NUM_QUERIES)
        self.check(rerank(*arguments, target=WORLD.target), TIE_F16)
        in_f32 = rerank(*arguments, target=WORLD.target, collection="exact")
        self.check(in_f32, TIE_F32)
        self.assertEqual(self.order(in_f32), self.order(WORLD.padded))
        self.assertEqual({frozenset(one) for one in in_f32[0]}, {frozenset(("id", "score"))})

    def test_each_query_has_documents_of_its_own(self):
        lists = [list(range(i, len(self.ids), i + 1)) for i in range(NUM_QUERIES)]
        ids = [[self.ids[j] for j in one] for one in lists]
        vectors = [[self.documents[j] for j in one] for one in lists]
        wanted = [[one for one in ranked if one["id"] in own] for ranked, own in zip(self.exact, ids)]
        self.check(rerank(ids, self.queries, vectors, target=WORLD.target), TIE_F16, wanted)
        self.check(rerank(ids, self.queries, target=WORLD.target, collection="exact"), TIE_F32, wanted)

    def test_the_forms_that_pylate_takes_are_taken(self):
        queries = {
            "arrays": self.queries,
            "one array": np.stack(self.queries),
            "one tensor": torch.from_numpy(np.stack(self.queries)),
            "tensors": [torch.from_numpy(one) for one in self.queries],
            "lists": [one.tolist() for one in self.queries],
        }
        documents = {
            "arrays": self.documents,
            "tensors with a gradient": [torch.from_numpy(one).requires_grad_() for one in self.documents],
        }
        for query_form, query_vectors in queries.items():
            for form, vectors in documents.items():
                with self.subTest(queries=query_form, documents=form):
                    ids = [self.ids[:5]] * NUM_QUERIES
                    wanted = rank.rerank(ids, self.queries, [self.documents[:5]] * NUM_QUERIES)
                    got = rerank(ids, query_vectors, [vectors[:5]] * NUM_QUERIES, "cpu", target=WORLD.target)
                    self.check(got, TIE_F16, wanted)
        (one,) = rerank([self.ids], self.queries[0], [self.documents], target=WORLD.target)
        self.check([one], TIE_F16, self.exact[:1])

    def test_scores_are_pylates_but_for_its_padding(self):
        ranked = rerank([self.ids] * NUM_QUERIES, self.queries, target=WORLD.target, collection="exact")
        num_padded = 0
        for query, own, padded in zip(self.queries, ranked, WORLD.padded):
            scores = dict(pairs(own))
            for id, score in pairs(padded):
                best = (query @ self.documents[self.ids.index(id)].T).max(axis=1)
                self.assertAlmostEqual(scores[id], best.sum(), delta=TIE_F32)
                # The longest document is not padded.
                self.assertLess(min(abs(score - best.sum()), abs(score - best.clip(min=0).sum())), TIE_F32)
                num_padded += bool(abs(score - best.sum()) > TIE_F32)
        self.assertLess(num_padded, len(self.ids) // 10)

    def test_integer_ids_come_back(self):
        numbers = list(range(100, 100 + len(self.ids)))
        (ranked,) = rerank([numbers], self.queries[:1], [self.documents], target=WORLD.target)
        wanted = {numbers[self.ids.index(one["id"])]: one["score"] for one in self.exact[0]}
        check_ranking(self, pairs(ranked), wanted, tie=TIE_F16)

    def test_more_documents_than_one_call_takes_are_one_ranking(self):
        random = np.random.default_rng(1)
        query = random.standard_normal((5, 16)).astype(np.float16)
        documents = [random.standard_normal((1 + i % 4, 16)).astype(np.float16) for i in range(2100)]
        (ranked,) = rerank([range(len(documents))], [query], [documents], target=WORLD.target)
        wanted = {i: maxsim(query, document) for i, document in enumerate(documents)}
        check_ranking(self, pairs(ranked), wanted, tie=1e-4)

    def test_what_does_not_fit_is_named(self):
        target = {"target": WORLD.target}
        with self.assertRaisesRegex(ValueError, "documents_embeddings is missing, and so is the collection"):
            rerank([self.ids], self.queries[:1], **target)
        with self.assertRaisesRegex(ValueError, "documents_ids has length 1; must have length 2"):
            rerank([self.ids], self.queries[:2], [self.documents] * 2, **target)
        with self.assertRaisesRegex(ValueError, r"documents_embeddings\[0\] has length 4"):
            rerank([self.ids], self.queries[:1], [self.documents[:4]], **target)
        with self.assertRaisesRegex(ValueError, r"documents_ids\[0\]\[1\] is 1.5"):
            rerank([["a", 1.5]], self.queries[:1], [self.documents[:2]], **target)
        with self.assertRaisesRegex(NotFound, "nothing-1"):
            rerank([[self.ids[0], "nothing-1"]], self.queries[:1], **target, collection="exact")


class IndexTest(PyLateTest):
    def test_retrieve_colbert_ranks_as_pylates_exact_path(self):
        retriever = retrieve.ColBERT(index=MaxsimIndex("exact", WORLD.target))
        for k in (1, 10, 1000):
            results = retriever.retrieve(queries_embeddings=self.queries, k=k)
            self.check(results, TIE_F32, top_k=k)
            self.assertEqual(self.order(results), [ids[:k] for ids in self.order(WORLD.padded)])
        tensor = torch.from_numpy(self.queries[0])
        self.check(retriever.retrieve(tensor, k=5), TIE_F32, self.exact[:1], 5)

    def test_batches_are_published_by_the_first_search(self):
        index = MaxsimIndex("halves", WORLD.target, folder=WORLD.folder / "halves")
        self.addCleanup(index.close)
        half = len(self.ids) // 2
        self.assertIs(index.add_documents(self.ids[:half], self.documents[:half]), index)
        index.add_documents(self.ids[half:], [torch.from_numpy(one) for one in self.documents[half:]], batch_size=2)
        self.assertFalse((WORLD.folder / "halves" / "collection.json").exists())
        self.check(retrieve.ColBERT(index=index).retrieve(self.queries, k=1000), TIE_F16)
        with self.assertRaisesRegex(NotImplementedError, "'halves' is published, but maxsimd cannot add to it"):
            index.add_documents("new", self.documents[:1])

    def test_a_subset_restricts_the_search(self):
        index = MaxsimIndex("exact", WORLD.target)
        self.addCleanup(index.close)
        retriever = retrieve.ColBERT(index=index)
        some = self.ids[3:9]
        wanted = rank.rerank([some] * NUM_QUERIES, self.queries, [self.documents[3:9]] * NUM_QUERIES)
        self.check(retriever.retrieve(self.queries, k=10, subset=[*some, "nothing-1"]), TIE_F32, wanted)
        self.check(retriever.retrieve(self.queries, k=10, subset=[some] * NUM_QUERIES), TIE_F32, wanted)
        self.check(retriever.retrieve(self.queries, k=2, subset=some), TIE_F32, wanted, 2)
        each = [some[: i + 1] for i in range(NUM_QUERIES - 1)] + [[]]
        sizes = [len(one) for one in retriever.retrieve(self.queries, k=10, subset=each)]
        self.assertEqual(sizes, [1, 2, 3, 4, 5, 0])
        self.assertEqual(retriever.retrieve(self.queries, k=10, subset=[]), [[]] * NUM_QUERIES)
        with self.assertRaisesRegex(ValueError, "subset has length 1; must have length 6"):
            retriever.retrieve(self.queries, subset=[some])

    def filtered(self, matches):
        return [[one for one in ranked if matches(WORLD.payloads[one["id"]])] for ranked in self.exact]

    def test_filters_restrict_the_search(self):
        english = self.filtered(lambda one: one.get("lang") == "en")
        late = self.filtered(lambda one: one.get("year", 0) > 2021)
        payloads = [{**WORLD.payloads[id], "late": WORLD.payloads[id].get("year", 0) > 2021} for id in self.ids]
        fields = "lang:keyword,late:boolean"
        folder = WORLD.folder / "with-fields"
        for options in ({"folder": folder, "storage": "f32"}, {"live": True, "storage": "f32"}):
            name = "live-fields" if "live" in options else "with-fields"
            with self.subTest(name), MaxsimIndex(name, WORLD.target, fields=fields, **options) as index:
                index.add_documents(self.ids, self.documents, payloads=payloads)
                self.check(index(self.queries, k=1000), TIE_F32)
                self.check(index(self.queries, k=1000, filter=F.lang == "en"), TIE_F32, english)
                index.filter = "late = true"
                self.check(retrieve.ColBERT(index=index).retrieve(self.queries, k=1000), TIE_F32, late)
                self.check(retrieve.ColBERT(index=index).retrieve(self.queries, k=2), TIE_F32, late, 2)
                some = self.ids[:20]
                wanted = [[one for one in ranked if one["id"] in some] for ranked in late]
                self.check(index(self.queries, k=1000, subset=some), TIE_F32, wanted)
        index = MaxsimIndex("with-fields", WORLD.target, filter=F.colour == "red")
        self.addCleanup(index.close)
        with self.assertRaisesRegex(MaxsimError, 'field "colour" is not declared; the collection has lang, late'):
            index(self.queries)
        with self.assertRaisesRegex(ValueError, "filter is 7; must be a text, a dict"):
            MaxsimIndex("with-fields", WORLD.target, filter=7)
        with self.assertRaisesRegex(ValueError, "payloads has length 1; must have length 2"):
            MaxsimIndex("a", folder=folder).add_documents(["a", "b"], self.documents[:2], payloads=[{}])

    def test_an_update_of_a_live_index_replaces_payloads(self):
        with MaxsimIndex("updated", WORLD.target, live=True, fields="lang:keyword") as index:
            index.add_documents(self.ids[:2], self.documents[:2], payloads=[{"lang": "en"}, {"lang": "de"}])
            index.update_documents(self.ids[1:2], self.documents[1:2], payloads=[{"lang": "en"}])
            found = index(self.queries[0], filter=F.lang == "en")
        self.assertEqual({one["id"] for one in found[0]}, set(self.ids[:2]))

    def test_integer_ids_and_another_generation(self):
        folder = WORLD.folder / "numbers"
        numbers = range(len(self.ids))
        with MaxsimIndex("numbers", WORLD.target, folder=folder) as index:
            index.add_documents(numbers, self.documents)
        with self.assertRaisesRegex(ValueError, "holds a collection; override=True writes the next generation"):
            MaxsimIndex("numbers", WORLD.target, folder=folder).add_documents(numbers, self.documents)
        with MaxsimIndex("numbers", WORLD.target, folder=folder, override=True) as index:
            index.add_documents([7, 8], self.documents[7:9])
            self.assertEqual({one["id"] for one in index(self.queries[0], k=10)[0]}, {7, 8})
        with Client(WORLD.target) as client:
            self.assertEqual({one.name: one.generation for one in client.info().collections}["numbers"], 2)

    def test_a_collection_that_is_served_under_the_name_is_left_alone(self):
        index = MaxsimIndex("demo", WORLD.target, folder=WORLD.folder / "other-demo")
        self.addCleanup(index.close)
        with self.assertRaisesRegex(ValueError, "the server has the folder '.*/demo' as 'demo': choose another name"):
            index.add_documents(self.ids, self.documents)
        self.assertFalse((WORLD.folder / "other-demo").exists())
        with Client(WORLD.target) as client:
            self.assertEqual(client.rerank("demo", self.queries[0], ["bread-1"]).ids, ["bread-1"])

    def test_a_server_that_refuses_is_asked_again(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            folder = pathlib.Path(elsewhere) / "refused"
            index = MaxsimIndex("refused", WORLD.target, folder=folder)
            self.addCleanup(index.close)
            index.add_documents(self.ids, self.documents)
            for _ in range(2):
                with self.assertRaisesRegex(MaxsimError, "allowed_roots"):
                    index(self.queries)
            self.assertTrue((folder / "collection.json").exists())

    def test_without_load_the_folder_is_written_and_no_more(self):
        folder = WORLD.folder / "unloaded"
        with MaxsimIndex("unloaded", WORLD.target, folder=folder, load=False) as index:
            index.add_documents(self.ids, self.documents)
        self.assertTrue((folder / "collection.json").exists())
        with self.assertRaises(NotFound):
            MaxsimIndex("unloaded", WORLD.target)(self.queries)

    def test_an_exception_leaves_nothing(self):
        folder = WORLD.folder / "interrupted"
        with self.assertRaises(ZeroDivisionError):
            with MaxsimIndex("interrupted", WORLD.target, folder=folder) as index:
                index.add_documents(self.ids, self.documents)
                raise ZeroDivisionError
        self.assertFalse((folder / "collection.json").exists())

    def test_a_live_index_takes_and_loses_documents(self):
        with MaxsimIndex("living", WORLD.target, storage="f32", live=True) as index:
            index.add_documents(self.ids, self.documents)
            self.check(retrieve.ColBERT(index=index).retrieve(self.queries, k=1000), TIE_F32)
            index.remove_documents([*self.ids[:2], "nothing-1"])
            wanted = [[one for one in ranked if one["id"] not in self.ids[:2]] for ranked in self.exact]
            self.check(index(self.queries, k=1000), TIE_F32, wanted)
            index.update_documents(self.ids[:2], self.documents[:2])
            self.check(index(self.queries, k=1000), TIE_F32)

    def test_vectors_come_back(self):
        index = MaxsimIndex("exact", WORLD.target)
        self.addCleanup(index.close)
        one, two = index.get_documents_embeddings([self.ids[:3], [self.ids[4], self.ids[4]]])
        for got, wanted in zip([*one, *two], [*self.documents[:3], self.documents[4], self.documents[4]], strict=True):
            np.testing.assert_array_equal(got, wanted)
        with self.assertRaisesRegex(KeyError, "does not hold 'nothing-1'"):
            index.get_documents_embeddings([["nothing-1"]])

    def test_what_maxsimd_cannot_do_is_said(self):
        index = MaxsimIndex("exact", WORLD.target)
        calls = {
            "removed only from a live collection": lambda: index.remove_documents(["bread-1"]),
            "replaced only in a live collection": lambda: index.update_documents(["bread-1"], self.documents[:1]),
        }
        for message, call in calls.items():
            with self.assertRaisesRegex(NotImplementedError, message):
                call()
        with self.assertRaisesRegex(ValueError, "folder is missing"):
            index.add_documents(["new"], self.documents[:1])
        with self.assertRaisesRegex(ValueError, "documents_embeddings has length 1; must have length 2"):
            MaxsimIndex("a", folder=WORLD.folder / "a").add_documents(["new", "newer"], self.documents[:1])


class EncoderTest(PyLateTest):
    def test_a_colbert_is_an_encoder_of_every_adapter(self):
        scorer = Scorer(WORLD.target, encoder=WORLD.model)
        self.addCleanup(scorer.close)
        scored = scorer.rank(WORLD.questions[0], Candidates(texts=WORLD.texts))
        ranked = [(self.ids[position], score) for position, score in scored]
        check_ranking(self, ranked, dict(pairs(self.exact[0])), tie=TIE_F16)


class ExampleTest(unittest.TestCase):
    def test_reranking_and_the_index_of_the_example_agree(self):
        folder = WORLD.folder / "example"
        printed = run_example(WORLD, "ask_pylate.py", WORLD.model_folder, folder)
        self.assertEqual(len(printed), 6)
        self.assertEqual(printed[0][0], "volcano-1")
        self.assertEqual(printed[:3], printed[3:])


if __name__ == "__main__":
    with PyLateWorld() as WORLD:
        WORLD.start(PROGRAMS)
        done = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False)
    sys.exit(not done.result.wasSuccessful())
