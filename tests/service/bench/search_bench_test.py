"""Runs all steps of bench/search, from installing Debian's packages to writing the page, with 2,000 documents and those
peers (other search systems) that this machine can run.

search_bench_test.py LIBMAXSIM.so FOLDER_OF_THE_PROGRAMS        with the packages of bench/search/requirements.txt
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBRARY = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()

import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench" / "search"
sys.path[:0] = [str(BENCH), str(ROOT / "tests" / "support")]
from python_package import use_package  # noqa: E402

use_package()
import exact  # noqa: E402
import page  # noqa: E402
from documents import load_documents, load_questions  # noqa: E402

DOCUMENTS, MADE, QUESTIONS, DIM = 2000, 100, 64, 64
# For each name in the report: the name for --systems, and the Python module that the peer needs.
PEERS = {
    "fast-plaid": ("fast_plaid", "fast_plaid"),
    "xtr-warp-rs": ("xtr_warp", "xtr_warp"),
    "tachiom": ("tachiom", "tachiom"),
    "qdrant": ("qdrant", "qdrant_edge"),
    "lancedb": ("lancedb", "lancedb"),
}


class SearchBenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-search-bench-")
        cls.addClassCleanup(scratch.cleanup)
        cls.data = pathlib.Path(scratch.name)
        cls.run_stage(
            "corpus.py", "--out", cls.data, "--limit", DOCUMENTS, "--questions", QUESTIONS, "--training", 45,
            "--max-tokens", 32, "--dictionaries", "dict-jargon",
        )  # fmt: skip
        cls.run_stage("train_head.py", "--data", cls.data, "--library", LIBRARY, "--dim", DIM, "--epochs", 2)
        cls.run_stage("encode.py", "--data", cls.data, "--dim", DIM, "--device", "cpu")
        cls.compare("minilm", DOCUMENTS, *(system for system, _ in PEERS.values()), "--quick")
        cls.compare("trained", DOCUMENTS + MADE, "maxsimd")
        cls.report = json.loads((cls.data / "search.json").read_text())

    @classmethod
    def run_stage(cls, name, *arguments):
        command = [str(part) for part in (sys.executable, "-B", BENCH / name, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, TOKENIZERS_PARALLELISM="1"))
        print(done.stdout[-2000:], flush=True)
        if done.returncode != 0:
            raise AssertionError(f"{name} exited with {done.returncode}: {done.stderr[-2000:]}")

    @classmethod
    def compare(cls, kind, documents, *systems_and_flags):
        cls.run_stage(
            "run.py", "--data", cls.data, "--kinds", kind, "--documents", documents, "--bin", PROGRAMS, "--device", "cpu",
            "--seconds", 0.2, "--out", cls.data / "search.json", "--systems", *systems_and_flags,
        )  # fmt: skip

    def rows(self, system):
        return [row for row in self.report["rows"] if row["system"] == system]

    def test_vectors_of_both_kinds_have_length_1(self):
        for kind in ("minilm", "trained"):
            documents = load_documents(self.data / kind)
            self.assertEqual((len(documents), documents.dim), (DOCUMENTS, DIM))
            norms = np.linalg.norm(documents.vectors.astype(np.float32), axis=1)
            np.testing.assert_allclose(norms, 1, atol=2e-3)
            self.assertEqual(len(load_questions(self.data / kind)), QUESTIONS)

    def test_questions_find_the_descriptions_that_they_are_of(self):
        for row in self.report["rows"]:
            self.assertGreater(row["mrr@10"], 0.4, row)

    def test_pytorch_answers_as_numpy(self):
        documents, questions = load_documents(self.data / "minilm"), load_questions(self.data / "minilm")[:9]
        one = exact.best_documents(documents, questions, 50, chunk_tokens=20_000)
        other = exact.best_documents(documents, questions, 50, device="cpu", chunk_tokens=30_000)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12)
        for question in range(len(questions)):
            self.assertEqual(one.acceptable(question, 40), other.acceptable(question, 40))

    def test_every_peer_is_measured_that_is_installed(self):
        for name, (system, module) in PEERS.items():
            if importlib.util.find_spec(module) is None:
                failures = [row["error"] for row in self.report["failures"] if row["system"] == system]
                self.assertEqual(len(failures), 1)
                self.assertRegex(failures[0], "is not installed")
                continue
            rows = self.rows(name)
            self.assertEqual(sorted(row["k"] for row in rows), [10, 100], self.report["failures"])
            for row in rows:
                self.assertGreater(row["recall"], 0.3, row)
                self.assertGreater(row["batched_qps"], 0)

    def test_maxsimd_finds_the_exact_answer(self):
        by_storage = {}
        for row in self.rows("maxsimd"):
            by_storage.setdefault((row["build"]["storage"], row["build"]["codes"]), []).append(row)
        for row in by_storage["f16", 0]:
            self.assertEqual(row["recall"], 1, row)
        for row in by_storage["i8", 0]:
            self.assertGreater(row["recall"], 0.97, row)
        for planes in (1, 2, 4):
            default = [row for row in by_storage["f16", planes] if row["search"] == {"documents": 0}]
            self.assertEqual([row["recall"] for row in default], [1, 1], default)
        # INT8 results may differ from the exact answers, which are those of the FP16 vectors. So only FP16 proofs are
        # checked.
        coded = [row for (storage, planes), rows in by_storage.items() if storage == "f16" and planes for row in rows]
        self.assertEqual({row["wrong_proofs"] for row in coded if "proven" in row}, {0})
        self.assertTrue(any(row.get("proven") for row in coded))

    def test_the_same_command_again_measures_nothing_twice(self):
        before = self.report["rows"]
        self.compare("trained", DOCUMENTS + MADE, "maxsimd")
        self.assertEqual(json.loads((self.data / "search.json").read_text())["rows"], before)

    def test_the_page_has_every_measurement(self):
        text = page.page(self.report, self.data / "page")
        for row in self.report["rows"]:
            self.assertIn(f"| {row['system']} | {page.settings(row['build'])} | {page.settings(row['search'])} |", text)
        self.assertIn(f"The other {MADE:,} consist of spans of real ones", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
