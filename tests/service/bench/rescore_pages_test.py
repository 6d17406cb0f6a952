"""Runs bench/serving/rescoring/rescore_pages.py with little data.

rescore_pages_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench/serving/rescoring"
sys.path.insert(0, str(BENCH))
import rescore_pages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SMALL = ["--documents", "30", "--tokens", "9", "--dim", "16", "--query-tokens", "3", "--calls", "5"]


class RescorePagesTest(unittest.TestCase):
    def run_program(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="maxsim-rescoring-") as name:
            out = pathlib.Path(name) / "out.json"
            command = [sys.executable, "-B", BENCH / "rescore_pages.py", "--bin", PROGRAMS, "--out", out, *SMALL]
            done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True, timeout=240)
            return done, json.loads(out.read_text()) if out.exists() else None

    def test_each_storage_type_gives_the_best_scores_and_its_times(self):
        for storage in rescore_pages.TOLERANCE:
            with self.subTest(storage):
                done, result = self.run_program("--storage", storage, "--candidates", "20")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual((result["storage"], result["candidates"], result["calls"]), (storage, 20, 5))
                self.assertGreaterEqual(result["p95_ms"], result["p50_ms"])
                self.assertGreater(result["p50_ms"], result["server_p50_ms"]["kernel"])

    def test_more_candidates_than_documents_are_refused(self):
        done, result = self.run_program("--candidates", "31")
        self.assertEqual((done.returncode, result), (2, None))
        self.assertIn("--candidates must be 1 to 30 (--documents), is 31", done.stderr)

    def test_a_wrong_score_fails(self):
        random = np.random.default_rng(2)
        query, pages = rescore_pages.random_vectors(random, (3, 16)), rescore_pages.random_vectors(random, (2, 9, 16))
        scores = [np.max(query.astype(float) @ page.T.astype(float), axis=1).sum() for page in pages]
        scores.sort(reverse=True)
        answer = {"results": [{"relevance_score": score} for score in scores]}
        rescore_pages.check(answer, query, [0, 1], pages, 1e-3)
        answer["results"][1]["relevance_score"] *= 1.1
        with self.assertRaisesRegex(RuntimeError, "the best scores should be"):
            rescore_pages.check(answer, query, [0, 1], pages, 1e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
