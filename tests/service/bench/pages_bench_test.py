"""Runs bench/serving/pages with few and short pages.

pages_bench_test.py FOLDER_OF_THE_PROGRAMS
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench/serving/pages"
sys.path[:0] = [str(BENCH), str(ROOT / "tests/support")]
from python_package import use_package  # noqa: E402

use_package()
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import measure  # noqa: E402
import synthetic_pages  # noqa: E402

PROGRAMS = None


class PagesBenchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-pages-bench-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_bench(self, *arguments):
        """Runs the program in this process. Only the build has a process of its own."""
        out = self.folder / "out.json"
        given = ["measure.py", "--bin", PROGRAMS, "--out", out, "--work", self.folder, "--dim", 64, *arguments]
        with unittest.mock.patch.object(sys, "argv", list(map(str, given))), contextlib.redirect_stdout(io.StringIO()):
            measure.main()
        return json.loads(out.read_text())

    def test_pages_are_built_and_searched(self):
        # A block of 1 MiB has 40 pages, so there are two blocks.
        result = self.run_bench("--pages", 70, "--tokens", 204, "--block-mib", 1, "--queries", 35, "--compare", 35,
                                "--rounds", 2, "--refined", 20)  # fmt: skip
        self.assertEqual(result["files"]["code_bytes"], 4096 + 70 * (204 * (64 // 8) + 12))
        answers = result["search"]["answers"]
        self.assertEqual(answers["questions"], 35)
        self.assertEqual(answers["own_page_first"], 35)
        self.assertEqual((answers["same_scores"], answers["planes"], answers["scored_pages"]), (True, 1, 20))
        self.assertGreater(answers["recall@10"], 0.5)
        self.assertEqual(result["search"]["searches"], 70)
        self.assertGreater(result["search"]["p50_ms"], 0)
        for name in ("peak_own_bytes", "peak_resident_bytes"):
            self.assertGreater(result["build"][name], 1 << 20)
        self.assertEqual(list(self.folder.iterdir()), [self.folder / "out.json"])

    def test_a_build_that_takes_too_much_memory_is_ended(self):
        options = argparse.Namespace(collection=self.folder / "c", questions=self.folder / "q.npz", memory_gib=0)
        given = ["measure.py", "--bin", PROGRAMS, "--out", self.folder / "out.json"]
        with unittest.mock.patch.object(sys, "argv", list(map(str, given))):
            with self.assertRaisesRegex(SystemExit, r"^--memory-gib 0: the build took [\d,]+ bytes, more than 0$"):
                measure.build_in_a_process(options)
        self.assertFalse((self.folder / "q.npz").exists())

    def test_what_does_not_fit_the_disk_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "MiB of the disk"):
            self.run_bench("--pages", 10**12)

    def test_a_missing_work_folder_is_refused(self):
        missing, errors = self.folder / "missing", io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            self.run_bench("--work", missing)
        self.assertIn(f"--work {missing}: is not a folder", errors.getvalue())

    def test_memory_that_a_process_frees_counts(self):
        code = "import time; data = bytearray(b'1') * (150 << 20); del data; print(flush=True); time.sleep(60)"
        process = measure.subprocess.Popen([sys.executable, "-c", code], stdout=-1)
        with measure.ProcessMemory(process.pid) as memory:
            process.stdout.readline()
        process.kill()
        process.communicate()
        self.assertGreaterEqual(memory.resident, 150 << 20)
        self.assertGreater(memory.resident, memory.own - (1 << 20))


class PageMakerTest(unittest.TestCase):
    def test_pages_have_unit_vectors_in_regions_and_differ_between_blocks(self):
        maker = synthetic_pages.PageMaker(40, 64)
        pages = maker.block(3, 2).astype(np.float32)
        self.assertEqual(pages.shape, (2, 40, 64))
        np.testing.assert_allclose(np.linalg.norm(pages, axis=2), 1, atol=2e-3)
        alike = pages[0] @ pages[0].T
        self.assertGreater(alike[:16, :16].min(), 0.6, "one region")
        self.assertLess(alike[:16, 16:32].max(), 0.6, "two regions")
        np.testing.assert_array_equal(maker.block(3, 2), maker.block(3, 2))
        self.assertFalse((maker.block(4, 2) == maker.block(3, 2)).all(axis=2).any())

    def test_a_question_resembles_its_page(self):
        page, other = synthetic_pages.PageMaker(40, 64).block(0, 2)
        asked = synthetic_pages.question(page, 0).astype(np.float32)
        self.assertEqual(asked.shape, (synthetic_pages.QUESTION_TOKENS, 64))
        self.assertGreater((asked @ page.T.astype(np.float32)).max(axis=1).min(), 0.9)
        self.assertLess((asked @ other.T.astype(np.float32)).max(axis=1).mean(), 0.6)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
