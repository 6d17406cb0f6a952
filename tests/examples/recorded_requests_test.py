"""Sends requests that were recorded from search systems (examples/first_stage/recorded) to a real maxsimd with the demo
encoder. Parses each answer by the rules of the system that sent the request.

python recorded_requests_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import sys
import unittest

import numpy as np

from engine_answers import elasticsearch, milvus, milvus_tei, opensearch
from programs import ROOT, Encoder, Maxsimd, request

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
RECORDED = ROOT / "examples" / "first_stage" / "recorded"
IDS = ["bread-1", "volcano-2", "volcano-1", "bees-1"]  # the documents of every recorded request, in its order
QUESTION = 0  # of demo/queries.jsonl
# Scores are about 10. They differ because the server's encoder is not the one that made the test's vectors, and because
# the server rounds to FP16.
TOLERANCE = 0.02
MANY = 12  # more documents than limits.default_top_k


# For each request file: the path to which it is sent, the member that has the documents, and the function that parses
# the answer.
CASES = {
    "opensearch_ids.json": ("/v1/rerank", "documents", opensearch),
    "opensearch_texts.json": ("/text/v1/rerank", "documents", opensearch),
    "elasticsearch_ids.json": ("/v1/rerank", "documents", elasticsearch),
    "elasticsearch_texts.json": ("/text/v1/rerank", "documents", elasticsearch),
    "milvus_cohere_ids.json": ("/v2/rerank", "documents", milvus),
    "milvus_cohere_texts.json": ("/text/v2/rerank", "documents", milvus),
    "milvus_vllm_ids.json": ("/rerank", "documents", milvus),
    "milvus_tei_ids.json": ("/rerank", "texts", milvus_tei),
    "milvus_vllm_texts.json": ("/text/rerank", "documents", milvus),
    "milvus_tei_texts.json": ("/text/rerank", "texts", milvus_tei),
    "vespa_ids.json": ("/v1/rerank", "documents", elasticsearch),
}


class RecordedRequestsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.encoder = Encoder()
        cls.addClassCleanup(cls.encoder.stop)
        cls.server = Maxsimd(PROGRAMS, encoder__url=f"http://127.0.0.1:{cls.encoder.port}")
        cls.addClassCleanup(cls.server.stop)
        cls.passages = [json.loads(line) for line in (ROOT / "demo" / "passages.jsonl").read_text().splitlines()]
        cls.scores = maxsim_scores([passage["id"] for passage in cls.passages])

    def post(self, path, body):
        status, text = request(self.server.port, "POST", path, body)
        self.assertEqual(status, 200, f"{path}: {text}\n{self.server.log()[-2000:]}")
        return text

    def test_every_recorded_request_has_a_case(self):
        self.assertEqual({path.name for path in RECORDED.glob("*.json")}, set(CASES))

    def test_recorded_requests_are_about_the_same_question_and_documents(self):
        question = json.loads((ROOT / "demo" / "queries.jsonl").read_text().splitlines()[QUESTION])["text"]
        texts = [text_of(passage) for id in IDS for passage in self.passages if passage["id"] == id]
        for name, (path, member, _) in CASES.items():
            with self.subTest(name):
                body = json.loads((RECORDED / name).read_text())
                self.assertEqual(body["query"], question)
                self.assertEqual(body[member], texts if path.startswith("/text/") else IDS)

    def test_each_is_answered_with_the_maxsim_of_every_document(self):
        for name, (path, _, read) in CASES.items():
            with self.subTest(name):
                scores = read(self.post(path, (RECORDED / name).read_bytes()), len(IDS))
                np.testing.assert_allclose(scores, [self.scores[id] for id in IDS], atol=TOLERANCE)

    def test_more_documents_than_the_default_top_k_are_all_answered(self):
        chosen = self.passages[:MANY]
        for name, (path, member, read) in CASES.items():
            with self.subTest(name):
                body = json.loads((RECORDED / name).read_text())
                body[member] = [text_of(p) if path.startswith("/text/") else p["id"] for p in chosen]
                if "top_n" in body:
                    body["top_n"] = MANY  # as OpenSearch counts them itself
                scores = read(self.post(path, json.dumps(body)), MANY)
                np.testing.assert_allclose(scores, [self.scores[p["id"]] for p in chosen], atol=TOLERANCE)


def text_of(passage):
    """The text that demo/encode.py encodes of it."""
    return f"{passage['title']}. {passage['text']}"


def maxsim_scores(ids):
    """Returns the FP64 MaxSim score of the question for each bundled document, by id."""
    demo = ROOT / "demo"
    documents = np.split(np.load(demo / "tokens.npy"), np.cumsum(np.load(demo / "lengths.npy"))[:-1])
    questions = np.split(np.load(demo / "query_tokens.npy"), np.cumsum(np.load(demo / "query_lengths.npy"))[:-1])
    query = questions[QUESTION].astype(np.float64)
    return {id: (query @ tokens.T.astype(np.float64)).max(axis=1).sum() for id, tokens in zip(ids, documents)}


if __name__ == "__main__":
    unittest.main(verbosity=2)
