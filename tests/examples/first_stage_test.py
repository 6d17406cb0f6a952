"""Runs the programs of examples/first_stage against a separate maxsimd that serves the demo collection.

python first_stage_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import sys
import unittest

import numpy as np

from ranking_program_case import TIE, ProgramTest
from programs import Maxsimd

import first_stage

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()


class FirstStageTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Maxsimd(PROGRAMS)
        cls.addClassCleanup(cls.server.stop)

    def check(self, program, first, own=None, options=()):
        """Checks that reranking by maxsimd has a better nDCG than the first stage, and the same nDCG as the engine's
        own MaxSim."""
        table = self.table(program, "--server", self.server.address, *options)
        self.assertIsNone(self.server.process.poll(), "maxsimd has ended")
        self.assertEqual(set(table), {first, "then maxsimd"} | ({own} if own else set()))
        self.assertGreater(table["then maxsimd"][0], table[first][0])
        if own:
            self.assertAlmostEqual(table["then maxsimd"][0], table[own][0], delta=TIE)
        return table

    def test_bm25s(self):
        self.check("ask_bm25s.py", "bm25s")

    def test_qdrant(self):
        self.check("ask_qdrant.py", "qdrant, pooled vectors", "then Qdrant's MaxSim")

    def test_qdrant_edge(self):
        self.check("ask_qdrant_edge.py", "qdrant edge, pooled vectors", "then Qdrant's MaxSim")

    def test_lancedb(self):
        self.check("ask_lancedb.py", "lancedb, full text", "then LanceDB's MaxSim")

    def test_all_documents_as_candidates_give_the_demos_ndcg(self):
        options = ["--candidates", "150"]
        table = self.check("ask_qdrant_edge.py", "qdrant edge, pooled vectors", "then Qdrant's MaxSim", options)
        self.assertAlmostEqual(table["then maxsimd"][0], 0.93, delta=TIE)  # demo/README.md


class NdcgTest(unittest.TestCase):
    def test_an_ideal_ranking_has_one_and_no_hit_zero(self):
        self.assertEqual(first_stage.ndcg(["a", "b", "x"], {"a": 2, "b": 1}), 1)
        self.assertEqual(first_stage.ndcg(["x", "y"], {"a": 2}), 0)
        self.assertEqual(first_stage.ndcg([], {}), 0)

    def test_a_swap_costs_what_linear_gain_says(self):
        # The ranking has the gains 1, 2 in this order: DCG 1 + 2 / log2(3). The ideal ranking has 2 + 1 / log2(3).
        self.assertAlmostEqual(first_stage.ndcg(["b", "a"], {"a": 2, "b": 1}), 0.8597186998521972)

    def test_ranks_after_the_tenth_count_nothing(self):
        self.assertEqual(first_stage.ndcg([str(rank) for rank in range(10)] + ["a"], {"a": 2}), 0)

    def test_pooled_vectors_have_length_one_and_the_direction_of_the_mean(self):
        pooled = first_stage.pool(np.array([[3, 0], [0, 4]], np.float16))
        np.testing.assert_allclose(pooled, [0.6, 0.8], atol=1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
