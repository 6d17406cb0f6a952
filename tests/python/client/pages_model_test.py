"""Runs the examples of README.md and docs/use/python.md that encode with sentence-transformers. Uses the bundled MiniLM
instead of the page's model. The server has no collection.

python pages_model_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import re
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "service"), str(TESTS / "python" / "adapters")]
from page_snippets import run_snippet, snippets  # noqa: E402
from program_fixture import Maxsimd  # noqa: E402
from python_package import use_package  # noqa: E402

use_package()
from minilm_models import make_multi_vector_encoder  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = TESTS.parent
MODEL = "lightonai/GTE-ModernColBERT-v1"


class PagesModelTest(unittest.TestCase):
    def test_the_passage_about_magma_comes_first(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-pages-")
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        make_multi_vector_encoder(folder / "model")
        server = Maxsimd(PROGRAMS, folder / "server", {})
        self.addCleanup(server.stop)
        for page in (ROOT / "README.md", ROOT / "docs" / "use" / "python.md"):
            (code,) = (one for one in snippets(page) if MODEL in one)
            printed = run_snippet(code, server.address, folder, **{MODEL: str(folder / "model")})
            self.assertRegex(printed, r"^ *\d+\.\d{4}  Stiff magma holds")
            self.assertEqual(len(re.findall(r"^ *\d+\.\d{4}  \w", printed, re.MULTILINE)), 3)
            self.assertLessEqual(len([line for line in code.splitlines() if line]), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
