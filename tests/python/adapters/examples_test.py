"""Runs the programs of examples/python_frameworks, and the retrievers of docs/use/frameworks.md, with the real packages
and a real server. frameworks_test.py runs this module; pylate_test.py runs PyLate's example."""

import sys
import unittest

from adapters_fixture import ROOT, TIE, run_example
from frameworks_world import World, world
from maxsim import Client

sys.path.append(str(ROOT / "tests" / "python" / "client"))
from page_snippets import run_snippet, snippets  # noqa: E402

QUESTION = 0  # index of the question that the examples ask


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.world: World = world()

    def check(self, program, *options):
        """Checks that the program prints three passages with their exact MaxSim scores, the best one first."""
        printed = run_example(self.world, program, *options)
        self.assertEqual(len(printed), 3)
        scores = self.world.scores(QUESTION)
        self.assertEqual(printed[0][0], max(scores, key=lambda id: scores[id]))
        for id, score in printed:
            self.assertAlmostEqual(score, scores[id], delta=TIE, msg=id)
        self.assertEqual(printed, sorted(printed, key=lambda one: -one[1]))

    def test_langchain(self):
        self.check("ask_langchain.py")

    def test_llama_index(self):
        self.check("ask_llama_index.py")

    def test_haystack(self):
        self.check("ask_haystack.py")

    def test_rerankers(self):
        self.check("ask_rerankers.py")

    def test_sentence_transformers(self):
        self.check("ask_sentence_transformers.py", self.world.model_folder)

    def test_the_retrievers_of_the_page(self):
        page = ROOT / "docs" / "use" / "frameworks.md"
        with Client(self.world.target) as client:
            ranking = client.rerank("demo", "Why do volcanoes explode?", top_k=1000)
        # Each snippet of the page prints the best documents that match its filter.
        for framework, matches in (
            ("langchain", lambda one: one.get("lang") == "en"),
            ("llama_index", lambda one: one.get("year", 0) >= 2020),
            ("haystack", lambda one: one.get("lang") == "en"),
        ):
            named = f"from maxsim.adapters.{framework} import MaxsimRetriever"
            (code,) = [one for one in snippets(page) if named in one]
            lines = run_snippet(code, self.world.target, self.world.folder, **{'"docs"': '"fields"'}).splitlines()
            best = [f"{one.id} {one.score}" for one in ranking if matches(self.world.payloads[one.id])]
            self.assertEqual(lines, best[:3], framework)

    def test_the_first_answer_in_ten_lines(self):
        lines = run_example(self.world, "first_answer.py", self.world.model_folder, demo=False)
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[0], r"^ *\d\.\d{4}  Stiff magma holds its gas")
        scores = [float(line.split()[0]) for line in lines]
        self.assertEqual(scores, sorted(scores, reverse=True))
        with Client(self.world.target) as client:
            query, documents = "Why do volcanoes explode?", [line.split("  ")[-1] for line in lines]
            # The server's encoder has the same weights.
            by_texts = client.rerank(None, query, documents=documents)
        self.assertEqual(by_texts.ids, [0, 1, 2])
        for one, score in zip(by_texts, scores):
            self.assertAlmostEqual(one.score, score, delta=TIE)
