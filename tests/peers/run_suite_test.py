"""Tests run_suite.py with a small package, its suite, and a faulty replacement. run_suite.py must find the faults and
report each in the right category.

python run_suite_test.py        with pytest installed
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run_suite  # noqa: E402

# The package has a function with the same name as its module, and a module with state. The replacement subtracts
# incorrectly.
ADD = "def add(a, b):\n    return a + b\n"
STATE = "calls = []\n\ndef call():\n    calls.append(1)\n    return len(calls)\n"
PACKAGE = {
    "__init__.py": "from .add import add\nfrom .subtract import subtract\nWHOSE = {whose!r}\n",
    "add.py": ADD,
    "subtract.py": "def subtract(a, b):\n    return {difference}\n",
    "inner/__init__.py": "",
    "inner/state.py": STATE,
}
TESTS = {
    "test_sums.py": """
        import importlib, os, signal, subprocess, sys
        import pytest
        import sums
        from sums.add import add as add_of_the_module

        def test_add():
            assert sums.add(1, 2) == 3 and add_of_the_module(1, 2) == 3

        def test_a_function_is_not_hidden_by_its_module():
            import sums.add
            import sums.subtract
            assert callable(sums.add) and callable(sums.subtract)

        @pytest.mark.parametrize("a", [1, 2])
        def test_subtract(a):
            assert sums.subtract(2, a) == 2 - a

        def test_a_module_that_was_dropped_is_loaded_anew():
            from sums.inner import state
            assert state.call() == 1
            del sys.modules["sums.inner.state"]
            assert importlib.import_module("sums.inner.state").call() == 1

        def test_no_module():
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("sums.nothing")

        def test_a_child_has_the_same_package():
            command = [sys.executable, "-c", "import sums, sums.inner.state; print(sums.WHOSE)"]
            assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == sums.WHOSE

        def test_version():
            assert importlib.metadata.version("sums") == "1.5"

        @pytest.mark.skip(reason="no time")
        def test_skipped():
            pass

        @pytest.mark.xfail
        def test_expected_to_fail():
            assert False

        def test_of_ours_alone():
            assert sums.WHOSE == "ours", "it is of the package"

        def test_that_takes_the_process_with_it():
            if sums.WHOSE == "ours":
                os.kill(os.getpid(), signal.SIGKILL)

        def test_after_it():
            pass
        """,
    "test_import.py": """
        from sums import nothing

        def test_nothing():
            pass
        """,
    "test_good_program.py": """
        from sums import add
        print("NO FAILURES" if add(1, 1) == 2 else "FAIL")
        """,
    "test_bad_program.py": """
        from sums import subtract
        print(f"3 - 2 = {subtract(3, 2)}", "[OK]" if subtract(3, 2) == 1 else "[FAIL]")
        """,
    "test_wrong_program.py": """
        import sys, sums
        sys.exit("no sums" if sums.WHOSE == "ours" else 0)
        """,
    "test_left_out.py": """
        def test_left_out():
            pass
        """,
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
        path.write_text("".join(line[indent:] + "\n" for line in lines), encoding="utf-8")


def package(whose, difference):
    return {name: text.format(whose=whose, difference=difference) for name, text in PACKAGE.items()}


class RunSuiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        write(root / "source" / "sums", package("the package", "a - b"))
        write(root / "source" / "tests", TESTS)
        write(root / "source", {"PKG-INFO": "Metadata-Version: 2.1\nName: sums\nVersion: 1.5"})
        write(root / "drop_ins" / "our_sums", package("ours", "2 * (a - b)"))
        command = [sys.executable, HERE / "run_suite.py", "sums", "--drop-in", "our_sums", "--suite", root / "source",
                   "--leave-out", "test_left_*", "--out", root / "found.json"]  # fmt: skip
        environment = dict(os.environ, PYTHONPATH=str(root / "drop_ins"))
        first = subprocess.run([*command, "--only", "test_sums.py"], env=environment, capture_output=True, text=True)
        (root / "found.json").rename(root / "sums.json")
        command += ["--only", "test_[!s]*", "--join", root / "sums.json"]
        cls.ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        if first.returncode != cls.ended.returncode:
            raise AssertionError(first.stdout + first.stderr)
        if not (root / "found.json").exists():
            raise AssertionError(cls.ended.stdout + cls.ended.stderr)
        cls.found = json.loads((root / "found.json").read_text(encoding="utf-8"))
        cls.page = (root / "found.md").read_text(encoding="utf-8")

    def outcomes(self, test):
        result = self.found["tests"][f"tests/{test}"]
        return tuple(result.get(side, {"outcome": "absent"})["outcome"] for side in ("peer", "ours"))

    def error(self, test, side="ours"):
        return self.found["tests"][f"tests/{test}"][side]["error"]

    def test_tests_that_pass_with_both(self):
        for test in (
            "test_add", "test_a_function_is_not_hidden_by_its_module", "test_subtract[2]", "test_no_module",
            "test_a_module_that_was_dropped_is_loaded_anew", "test_a_child_has_the_same_package", "test_version",
        ):  # fmt: skip
            self.assertEqual(self.outcomes(f"test_sums.py::{test}"), ("passed", "passed"), test)
        self.assertEqual(self.outcomes("test_good_program.py"), ("passed", "passed"))

    def test_tests_that_pass_with_the_package_alone_have_the_error(self):
        self.assertEqual(
            self.found["lost"],
            ["tests/test_bad_program.py", "tests/test_sums.py::test_after_it", "tests/test_sums.py::test_subtract[1]",
             "tests/test_sums.py::test_that_takes_the_process_with_it", "tests/test_wrong_program.py"],
        )  # fmt: skip
        self.assertIn("[FAIL]", self.error("test_bad_program.py"))
        self.assertEqual(self.error("test_wrong_program.py"), "ended with status 1: no sums")
        self.assertIn("status -9", self.error("test_sums.py::test_that_takes_the_process_with_it"))
        self.assertEqual(self.outcomes("test_sums.py::test_after_it"), ("passed", "absent"))
        self.assertEqual(self.ended.returncode, 1)
        self.assertIn("| tests/test_sums.py::test_subtract[1] | failed | assert 2 == (2 - 1) |", self.page)

    def test_other_outcomes(self):
        self.assertEqual(self.outcomes("test_sums.py::test_skipped"), ("skipped", "skipped"))
        self.assertIn("no time", self.error("test_sums.py::test_skipped"))
        self.assertEqual(self.outcomes("test_sums.py::test_expected_to_fail"), ("xfailed", "xfailed"))
        self.assertEqual(self.outcomes("test_sums.py::test_of_ours_alone"), ("failed", "passed"))
        self.assertIn("it is of the package", self.error("test_sums.py::test_of_ours_alone", "peer"))
        self.assertEqual(self.outcomes("test_import.py"), ("failed", "failed"))
        self.assertIn("ImportError: cannot import name 'nothing'", self.error("test_import.py"))

    def test_counts(self):
        self.assertEqual(self.found["counts"]["tests/test_sums.py"], {"tests": 13, "peer": 10, "ours": 8, "lost": 3})
        self.assertEqual(self.found["left_out"], {"tests/test_left_out.py": "asked for"})
        self.assertEqual(self.found["version"], "1.5")
        self.assertIn("| tests/test_bad_program.py (a program) | 1 | 1 | 0 | 1 |", self.page)

    def test_a_file_that_runs_past_its_time_is_ended(self):
        suite = types.SimpleNamespace(folder=HERE, paths={"ours": []})
        runner = run_suite.Runner(suite, types.SimpleNamespace(timeout=1, on_cpu=False, library=None))
        status, output = runner.start(["-c", "import time; print(1, flush=True); time.sleep(600)"], "ours", os.devnull)
        self.assertIsNone(status)
        self.assertEqual(run_suite.judge_program(status, output)["error"], "ran past its time")
        started = [{"test": "test_a.py::test_b", "outcome": "started"}]
        self.assertEqual(
            run_suite.judge_tests("test_a.py", status, output, started),
            {"test_a.py::test_b": {"outcome": "failed", "error": "ran past its time"}},
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
