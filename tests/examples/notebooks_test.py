"""Runs notebooks of examples/notebooks against a separate maxsimd, which has an encoder and serves the demo collection.
The last cell of each notebook checks the results.

python notebooks_test.py FOLDER_OF_THE_PROGRAMS NOTEBOOK...        MAXSIM_LIBRARY: libmaxsim.so, for train_a_head
"""

import os
import pathlib
import sys
import tempfile
import unittest

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from programs import ROOT, Encoder, Maxsimd

sys.path.insert(0, str(ROOT / "tests" / "support"))
from python_package import PYTHON_CLIENT, use_package  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv[1]).resolve()
NAMES = sys.argv[2:]
del sys.argv[1:]
NOTEBOOKS = ROOT / "examples" / "notebooks"
LIMIT_S = 600  # of one cell, and of the start of its kernel; only ends a run that hangs
MAX_BYTES = 20000
MAX_COLUMNS = 120


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


class NotebooksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        use_package()
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-notebooks-")
        cls.addClassCleanup(scratch.cleanup)
        cls.encoder = Encoder()
        cls.addClassCleanup(cls.encoder.stop)
        cls.server = Maxsimd(PROGRAMS, encoder__url=f"http://127.0.0.1:{cls.encoder.port}")
        cls.addClassCleanup(cls.server.stop)
        # The notebook's process inherits this environment. It must not write files outside of this folder.
        os.environ["MAXSIM_SERVER"] = cls.server.address
        os.environ["PYTHONPATH"] = os.pathsep.join([str(PYTHON_CLIENT), str(ROOT / "client" / "torch")])
        os.environ["TMPDIR"] = scratch.name
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[name] = str(pathlib.Path(scratch.name) / name.lower())

    def run_notebook(self, notebook):
        """Runs all cells and returns what they print. Raises CellExecutionError if a cell raises an exception."""
        options = {"timeout": LIMIT_S, "startup_timeout": LIMIT_S, "resources": {"metadata": {"path": str(NOTEBOOKS)}}}
        NotebookClient(notebook, **options).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return "".join(output["text"] for output in outputs if output.get("name") == "stdout")

    def test_each_notebook_runs_to_its_end(self):
        self.assertTrue(NAMES)
        for name in NAMES:
            with self.subTest(name):
                printed = self.run_notebook(read(name))
                print(f"{name}\n{printed}", flush=True)
                self.assertTrue(printed)

    def test_a_check_that_does_not_hold_fails_the_run(self):
        notebook = read(NAMES[0])
        notebook.cells = [nbformat.v4.new_code_cell("assert 1 + 1 == 3")]
        with self.assertRaisesRegex(CellExecutionError, "AssertionError"):
            self.run_notebook(notebook)


class FormTest(unittest.TestCase):
    """Checks the files of the notebooks."""

    def test_they_are_small_have_no_outputs_and_end_with_checks(self):
        for name in NAMES:
            with self.subTest(name):
                self.assertLess((NOTEBOOKS / f"{name}.ipynb").stat().st_size, MAX_BYTES)
                notebook = read(name)
                nbformat.validate(notebook)
                for cell in notebook.cells:
                    self.assertFalse([line for line in cell.source.splitlines() if len(line) > MAX_COLUMNS])
                    if cell.cell_type == "code":
                        self.assertEqual((cell.outputs, cell.execution_count), ([], None))
                self.assertTrue(notebook.cells[-1].source.startswith("assert "), notebook.cells[-1].source)

    def test_text_stands_before_each_code_cell(self):
        for name in NAMES:
            kinds = [cell.cell_type for cell in read(name).cells]
            self.assertEqual(kinds, ["markdown", "code"] * (len(kinds) // 2), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
