"""Runs examples/pages: builds pages from their images, and checks that questions find the right page.

python pages_test.py FOLDER_OF_THE_PROGRAMS        with Pillow and tesseract installed
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from programs import ROOT, program_fixture, run

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLE = ROOT / "examples" / "pages"
sys.path[:0] = [str(EXAMPLE), str(ROOT / "tests" / "support")]

from python_package import PYTHON_CLIENT, use_package  # noqa: E402

use_package()

import numpy as np  # noqa: E402
import page_encoder  # noqa: E402
from ask import matrix, patch  # noqa: E402
from maxsim import Client  # noqa: E402
from maxsim_encoder.encoder import Encoded  # noqa: E402
from page_encoder import COLUMNS, GRID, NUM_VECTORS, PageEncoder, Word  # noqa: E402

DOCUMENTS, PAGES = ("volcano", "bread", "castle"), 2


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-pages-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT))
        options = ["--documents", *DOCUMENTS, "--pages", PAGES]
        command = [sys.executable, EXAMPLE / "build.py", "--output", cls.folder / "pages", *options]
        cls.printed = run(*command, env=cls.environment)
        print(cls.printed, flush=True)
        cls.server = program_fixture.Maxsimd(PROGRAMS, cls.folder / "server", {"pages": cls.folder / "pages"})
        cls.addClassCleanup(cls.server.stop)

    def test_each_question_finds_the_right_page_of_its_document(self):
        command = [sys.executable, EXAMPLE / "ask.py", "--server", self.server.address]
        printed = run(*command, "--questions", self.folder / "pages.questions.jsonl", env=self.environment)
        print(printed, flush=True)
        self.assertIn("3 questions: 3 have their document first, 3 also the right page\n", printed)
        # An answer has one page of each document.
        for answer in re.findall(r"(?:^  \d\. .*\n){3}", printed, re.MULTILINE):
            self.assertEqual(sorted(re.findall(r"\d\. (\w+), page", answer)), sorted(DOCUMENTS))
        # Each answer names three words of its question, with their patches.
        match = r"\S+ 0\.\d\d in row \d+, column \d+"
        self.assertEqual(len(re.findall(rf"^     {match}; {match}; {match}$", printed, re.MULTILINE)), len(DOCUMENTS))

    def test_a_word_of_the_question_matches_a_patch_of_that_word(self):
        lines = (self.folder / "pages.questions.jsonl").read_text(encoding="utf-8").splitlines()
        question = next(one for one in map(json.loads, lines) if "volcanoes" in one["tokens"])
        with Client(self.server.address) as client:
            [page] = client.rerank("pages", matrix(question["query"]), ["volcano-1"], alignments=True,
                                   payloads=True)  # fmt: skip
        row, _ = patch(page.payload["grid"], int(page.matches[question["tokens"].index("volcanoes")]))
        # The word is in the first line of text, 125 to 155 pixels from the top. A patch is 30 pixels high: row 5 or 6.
        self.assertIn(row, (5, 6))

    def test_payloads_name_the_page_its_image_and_the_grid(self):
        with Client(self.server.address) as client:
            pages = list(client.scroll("pages", return_tokens=True))
        self.assertEqual(len(pages), len(DOCUMENTS) * PAGES)
        for page in pages:
            self.assertEqual(page.payload["grid"], GRID)
            self.assertEqual(page.id, f"{page.payload['document']}-{page.payload['page']}")
            self.assertTrue(page.payload["image"].startswith("data:image/png;base64,iVBOR"))
            self.assertLess(len(json.dumps(page.payload)), 60_000)
        self.assertIn(f"6 pages of {NUM_VECTORS} vectors x 128", self.printed)

    def test_an_unknown_document_is_refused(self):
        command = [sys.executable, EXAMPLE / "build.py", "--output", self.folder / "none", "--documents", "vulcano"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^build\.py: --documents vulcano: must be one of antibiotic, .*, volcano\n$")
        self.assertFalse((self.folder / "none").exists())


class EncoderTest(unittest.TestCase):
    def encode(self, pieces, words):
        """Encodes a page with a fake model that returns `pieces` for every text. The vector of piece i is unit vector
        i."""
        encoder = object.__new__(PageEncoder)
        vectors = np.eye(len(pieces), page_encoder.DIM, dtype=np.float32)
        encoder._model = unittest.mock.Mock(encode=lambda texts, kind: [Encoded(vectors, pieces) for _ in texts])
        return encoder.encode(words)

    def test_a_long_page_is_encoded_in_parts(self):
        places = [(row, column) for row in range(8) for column in range(30)]
        words = [Word("a", column / 32, row / 32, (column + 1) / 32, (row + 1) / 32) for row, column in places]
        rows = self.encode(["[CLS]", *["a"] * 120], words)
        self.assertEqual(int((np.abs(rows[:1024]).sum(1) > 0).sum()), 240)
        self.assertEqual(rows[0].argmax(), 1)
        self.assertEqual(rows[4 * COLUMNS].argmax(), 1, "word 120 begins the second part")

    def test_a_patch_has_the_vectors_of_the_pieces_that_cover_it(self):
        # The word covers patches 4 to 7 of row 2: the piece "Bee" 4 to 6, "##s" 7.
        word = Word("Bees,", 4 / 32, 2 / 32, 9 / 32, 3 / 32)
        rows = self.encode(["[CLS]", "bee", "##s"], [word])
        self.assertEqual(rows.shape, (NUM_VECTORS, page_encoder.DIM))
        filled = {int(row): int(rows[row].argmax()) for row in np.flatnonzero(np.abs(rows).sum(1))}
        begin = 2 * COLUMNS
        patches = {begin + 4: 1, begin + 5: 1, begin + 6: 1, begin + 7: 2}
        self.assertEqual(filled, {**patches, **{1024 + special: 0 for special in range(6)}})

    def test_accents_do_not_move_the_pieces_after_them(self):
        words = [Word("\u0130\u00c9t\u00e9", 0, 0, 4 / 32, 1 / 32), Word("t", 5 / 32, 0, 6 / 32, 1 / 32)]
        rows = self.encode(["[CLS]", "iete", "t"], words)
        filled = {int(row): int(rows[row].argmax()) for row in np.flatnonzero(np.abs(rows[:1024]).sum(1))}
        self.assertEqual(filled, {0: 1, 1: 1, 2: 1, 3: 1, 5: 2})

    def test_pieces_that_share_a_patch_are_weighted_by_what_they_cover(self):
        words = [Word("a", 0, 0, 3 / 128, 1 / 32), Word("b", 3 / 128, 0, 1 / 32, 1 / 32)]
        row = self.encode(["[CLS]", "a", "b"], words)[0]
        np.testing.assert_allclose(row[:3], np.array([0, 3, 1]) / np.sqrt(10), atol=1e-6)

    def test_a_word_that_only_touches_a_patch_is_not_in_it(self):
        rows = self.encode(["[CLS]", "a"], [Word("a", 0, 0, 1.04 / 32, 1 / 32)])
        self.assertEqual(np.flatnonzero(np.abs(rows).sum(1))[:2].tolist(), [0, 1024])

    def test_a_page_without_words_matches_nothing(self):
        rows = self.encode(["[CLS]"], [])
        self.assertEqual(np.flatnonzero(np.abs(rows).sum(1)).tolist(), list(range(1024, 1030)))

    def test_a_vector_is_found_on_the_grid(self):
        grid = {"rows": 2, "columns": 3, "first": 4}
        self.assertEqual([patch(grid, vector) for vector in (3, 4, 6, 7, 9, 10)],
                         [None, (1, 1), (1, 3), (2, 1), (2, 3), None])  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
