"""Checks maxsim_torch with mypy --strict and the types of the installed PyTorch.

python types_test.py        with torch and mypy installed
"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from mypy_run import mypy  # noqa: E402


class TypesTest(unittest.TestCase):
    def test_mypy_finds_nothing_in_the_package(self):
        printed, lines = mypy(ROOT / "client" / "torch")  # mypy.ini names the package
        self.assertFalse(lines, printed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
