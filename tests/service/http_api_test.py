"""Tests the HTTP API of maxsimd and maxsim-encoder against the description in /openapi.json. Every answer must match
the description, also answers to requests that schemathesis generates. A text must get exactly the score of its vectors.

python http_api_test.py FOLDER_OF_THE_PROGRAMS
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema_rs
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEMO = ROOT / "demo"
sys.path[:0] = [str(HERE), str(HERE / "client")]

from encoder_fixture import Program, call, read_safetensors, split_rows  # noqa: E402
from program_fixture import Maxsimd  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
]


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def matrix(tokens):
    data = base64.b64encode(np.ascontiguousarray(tokens, "<f4")).decode()
    return {"dtype": "f32", "shape": list(tokens.shape), "data": data}


class HttpApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-http-api-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        subprocess.run([DEMO / "build.sh", "--bin", PROGRAMS, "--output", folder / "demo"], check=True)
        cls.encoder = Program("--demo")
        cls.addClassCleanup(cls.encoder.stop)
        cls.encoder.wait_until_ready()
        cls.server = Maxsimd(
            PROGRAMS, folder / "server", folder / "demo", encoder__url=f"http://127.0.0.1:{cls.encoder.port}"
        )
        cls.addClassCleanup(cls.server.stop)
        status, headers, body = call(cls.server.port, "GET", "/openapi.json")
        assert (status, headers["Content-Type"]) == (200, "application/json"), (status, headers)
        cls.description = json.loads(body)
        cls.passages = read_lines(DEMO / "passages.jsonl")
        cls.questions = read_lines(DEMO / "queries.jsonl")

    def check(self, schema, value):
        """Checks that `value` matches the schema, which may refer to other schemas."""
        whole = {**schema, "components": self.description["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(value)

    def post(self, path, body, status=200):
        """Posts a body. Checks that the description allows the body (if `status` is 200) and the answer. Returns the
        answer."""
        if status == 200:
            self.check({"$ref": "#/components/schemas/Request"}, body)
        answered, _, data = call(self.server.port, "POST", path, body)
        self.assertEqual(answered, status, data)
        answer = json.loads(data)
        operation = self.description["paths"][path]["post"]["responses"][str(status)]
        response = self.description["components"]["responses"][operation["$ref"].rsplit("/", 1)[1]]
        self.check(response["content"]["application/json"]["schema"], answer)
        return answer

    def encode(self, kind, texts):
        status, _, data = call(self.encoder.port, "POST", "/encode", {"kind": kind, "texts": texts})
        self.assertEqual(status, 200, data)
        return split_rows(read_safetensors(data)[0])

    def test_the_manual_and_the_description_have_the_same_paths(self):
        page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
        table = page[: page.index("## A request")]
        rows = [line for line in table.splitlines() if line.startswith(("| `POST", "| `GET", "| `PUT"))]
        paths = {path for line in rows for path in re.findall(r"/[a-z0-9/._{}-]+", line.split("|")[1])}
        self.assertEqual(paths, set(self.description["paths"]))

    def test_answers_are_what_the_description_says(self):
        text = self.questions[0]["text"]
        texts = [passage["text"] for passage in self.passages[:3]]
        ids = [passage["id"] for passage in self.passages[:3]]
        vectors = self.encode("query", [text])[0]
        self.post("/v1/rerank", {"model": "demo", "query": matrix(vectors), "documents": "*", "top_n": 3})
        self.post("/v1/rerank", {"query": vectors.tolist(), "documents": ids + ["nobody"], "request_id": "r"})
        everything = {"return_documents": True, "return_alignments": True, "normalize": True, "payload_fields": ["title"]}
        answer = self.post("/v2/rerank", {"query": text, "documents": ids, **everything})
        self.assertEqual(answer["query_tokens"], self.questions[0]["tokens"])
        self.assertEqual(answer["results"][0]["document"], {"title": self.passages[0]["title"]})
        self.post("/text/v1/rerank", {"query": {"text": text}, "documents": texts, "return_documents": True})
        objects = [{"text": text, "id": i, "more": [{}]} for i, text in enumerate(texts)]
        self.post("/text/v2/rerank", {"query": text, "documents": objects, "return_documents": True})
        self.post("/text/v1/rerank", {"query": text, "documents": texts, "top_k": 2, "truncation": True})
        self.post("/text/rerank", {"query": text, "texts": texts, "raw_scores": False, "return_text": True})
        self.post("/rerank", {"query": text, "texts": ids})
        tokens = [{"tokens": matrix(one), "id": f"d{i}"} for i, one in enumerate(self.encode("document", texts))]
        self.post("/v1/rerank", {"query": matrix(vectors), "documents": tokens, "model": "not a collection"})
        self.post("/v1/rerank", {"query": text, "documents": ids, "model": "nobody"}, status=404)
        self.post("/rerank", {"query": text, "texts": ["nobody"]}, status=404)
        self.post("/v1/rerank", {"query": text, "documents": []}, status=400)
        for path, schema in (("/v1/collections", "Collections"), ("/v1/stats", "Stats"), ("/console/questions.json", "Questions")):
            status, _, body = call(self.server.port, "GET", path)
            self.assertEqual(status, 200)
            self.check({"$ref": f"#/components/schemas/{schema}"}, json.loads(body))

    def test_explanations_are_what_the_description_says(self):
        question, passage = self.questions[0], self.passages[0]
        body = {"model": "demo", "query": question["text"], "id": passage["id"]}
        self.check({"$ref": "#/components/schemas/ExplainRequest"}, body)
        status, _, data = call(self.server.port, "POST", "/v1/explain", body)
        self.assertEqual(status, 200, data)
        explanation = json.loads(data)
        self.check({"$ref": "#/components/schemas/Explanation"}, explanation)
        self.assertEqual(explanation["query_tokens"], question["tokens"])
        self.assertEqual(explanation["document_tokens"], passage["tokens"])
        ranked = self.post("/v1/rerank", {"query": question["text"], "documents": [passage["id"]]})["results"][0]
        self.assertAlmostEqual(explanation["score"], ranked["relevance_score"], places=4)
        self.assertAlmostEqual(sum(map(max, explanation["similarities"])), explanation["score"], places=4)

    def test_every_question_scores_as_its_vectors_do(self):
        self.assertEqual(len(self.questions), 15)
        texts = [passage["text"] for passage in self.passages[::10]]
        documents = [{"tokens": matrix(tokens)} for tokens in self.encode("document", texts)]
        for question in self.questions:
            text = question["text"]
            vectors = matrix(self.encode("query", [text])[0])
            for body in ({"documents": "*", "top_n": 150}, {"documents": documents}):
                wanted = self.post("/v1/rerank", {"query": vectors, **body})["results"]
                if body["documents"] == documents:
                    body = {"documents": texts}
                found = self.post("/text/v1/rerank", {"query": text, **body})["results"]
                self.assertEqual(found, wanted, text)

    def test_requests_that_schemathesis_makes_up_are_answered_as_described(self):
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{self.server.url}/openapi.json"]
        command += ["--checks", ",".join(CHECKS), "--max-examples", "3", "--seed", "1", "--no-color"]
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        found = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
        self.assertIsNotNone(found, done.stdout[-2000:])
        self.assertGreater(int(found[1]), 125)
        self.assertEqual(self.server.process.poll(), None, "the server lives")


if __name__ == "__main__":
    unittest.main(verbosity=2)
