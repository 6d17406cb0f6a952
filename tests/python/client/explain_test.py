"""Tests the clients' method `explain` against a real server.

python explain_test.py FOLDER_OF_THE_PROGRAMS
"""

import numpy as np

from client_fixture import RealServerTest, main, run_async

from maxsim import AsyncClient, Client, errors


class ExplainTest(RealServerTest):
    def setUp(self):
        self.client = Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_it_has_each_similarity_and_the_score_of_the_ranking(self):
        query = self.queries[2]
        (document,) = self.client.rerank("text", query, ["doc/017"], alignments=True)
        explanation = self.client.explain("text", query, "doc/017")
        similarities = query.astype(np.float64) @ self.text.document(17).T
        np.testing.assert_allclose(explanation.similarities, similarities, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(explanation.matches, document.matches)
        self.assertAlmostEqual(explanation.score, similarities.max(axis=1).sum(), places=9)
        self.assertAlmostEqual(explanation.score, document.score, delta=1e-3)
        self.assertEqual(explanation.generation, 1)
        # The documents' payloads do not name their tokens, and the query is no text.
        self.assertEqual((explanation.document_tokens, explanation.query_tokens), ([], []))

    def test_weights_change_the_score_and_not_the_similarities(self):
        query, weights = self.queries[1], [0, 1, 2, 0.5, 1, 1, 1]
        plain, weighted = (self.client.explain("text", query, "doc/004", weights=one) for one in (None, weights))
        np.testing.assert_array_equal(weighted.similarities, plain.similarities)
        self.assertAlmostEqual(weighted.score, np.dot(weights, plain.similarities.max(axis=1)), places=9)

    def test_ids_may_be_integers(self):
        explanation = self.client.collection("numbers").explain(self.queries[1], self.numbers.ids[5])
        self.assertEqual(explanation.similarities.shape, (len(self.queries[1]), self.numbers.lengths[5]))

    def test_the_client_for_asyncio_answers_the_same(self):
        async def ask():
            async with AsyncClient(self.server.address) as client:
                return await client.collection("text").explain(self.queries[1], "doc/004")

        explanation, wanted = run_async(ask()), self.client.explain("text", self.queries[1], "doc/004")
        self.assertEqual(explanation, wanted)
        np.testing.assert_array_equal(explanation.similarities, wanted.similarities)

    def test_an_unknown_id_is_an_error(self):
        with self.assertRaises(errors.NotFound) as caught:
            self.client.explain("text", self.queries[0], "nowhere")
        self.assertEqual(caught.exception.reason, "UNKNOWN_IDS")

    def test_an_id_that_is_neither_string_nor_integer_is_refused(self):
        for wrong in (1.5, True, None, ["doc/017"]):
            with self.assertRaisesRegex(ValueError, r"^id is .*; must be a string or an integer$"):
                self.client.explain("text", self.queries[0], wrong)


if __name__ == "__main__":
    main()
