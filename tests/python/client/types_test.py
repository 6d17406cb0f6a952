"""Checks the package, and the types that its users see, with mypy --strict and pyright. Uses basedpyright, because PyPI
has a complete package of it.

python types_test.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from client_fixture import TESTS, use_package
from mypy_run import mypy

PACKAGE = TESTS.parent / "client" / "python"
HERE = pathlib.Path(__file__).resolve().parent
RIGHT, WRONG = HERE / "typing_right.py", HERE / "typing_wrong.py"
PYTHON = pathlib.Path(sys.executable)


def pyright(**configuration):
    """Runs pyright. Returns its output, and for each file the lines with errors."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "pyrightconfig.json"
        file.write_text(json.dumps({"pythonVersion": "3.10", "typeCheckingMode": "standard", **configuration}))
        command = [PYTHON.with_name("basedpyright"), "--outputjson", "--pythonpath", PYTHON, "-p", file]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] > 0, done.stdout + done.stderr
    errors = [one for one in answer["generalDiagnostics"] if one["severity"] == "error"]
    lines = {(pathlib.Path(one["file"]).resolve(), one["range"]["start"]["line"] + 1) for one in errors}
    return "\n".join(f"{one['file']}: {one['range']['start']['line'] + 1}: {one['message']}" for one in errors), lines


class TypesTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        use_package()
        lines = WRONG.read_text().splitlines()
        cls.wrong = {(WRONG, number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
        cls.temporary = tempfile.TemporaryDirectory(prefix="maxsim-types-")
        cls.addClassCleanup(cls.temporary.cleanup)
        # Runs pyright once for both tests. Ignores missing imports, because importers and adapters import libraries
        # that are not installed here.
        include = [*(str(PACKAGE / name) for name in ("maxsim", "maxsim_client")), str(RIGHT), str(WRONG)]
        cls.pyright = pyright(include=include, extraPaths=[str(PACKAGE)], reportMissingImports="none")

    def test_mypy_finds_nothing_in_the_package(self):
        printed, lines = mypy(PACKAGE, cache=self.temporary.name)  # pyproject.toml names the packages
        self.assertFalse(lines, printed)

    def test_pyright_finds_nothing_in_the_package(self):
        printed, lines = self.pyright
        self.assertFalse({(file, line) for file, line in lines if file not in (RIGHT, WRONG)}, printed)

    def test_mypy_takes_right_uses_and_refuses_each_wrong_one(self):
        printed, lines = mypy(PACKAGE, RIGHT, WRONG, cache=self.temporary.name)
        self.assertEqual(lines, self.wrong, printed)

    def test_pyright_takes_right_uses_and_refuses_each_wrong_one(self):
        printed, lines = self.pyright
        self.assertEqual({(file, line) for file, line in lines if file in (RIGHT, WRONG)}, self.wrong, printed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
