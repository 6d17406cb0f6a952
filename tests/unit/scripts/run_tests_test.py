"""Tests scripts/run-tests.py: what it reports about tests that pass, fail, skip themselves or have no program."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

SKIPS = """add_test(skips_test sh -c "echo 'skipped: needs grpcurl'; exit 77")
set_tests_properties(skips_test PROPERTIES SKIP_RETURN_CODE 77)
"""
PASSES = "add_test(passes_test true)\n"


class RunTestsTest(unittest.TestCase):
    def run_tests(self, tests):
        """Runs the script on a build folder that contains these tests. Returns its exit code and its output."""
        with tempfile.TemporaryDirectory() as build:
            pathlib.Path(build, "CTestTestfile.cmake").write_text(tests)
            command = [sys.executable, "-B", ROOT / "scripts" / "run-tests.py", build, "--jobs", "1"]
            done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_test_that_exits_with_its_skip_code_is_not_counted_as_passed(self):
        code, output = self.run_tests(PASSES + SKIPS)
        self.assertIn(": 1 passed, 0 failed, 1 skipped", output)
        self.assertIn("needs grpcurl: ", output)
        self.assertEqual(code, 0, output)

    def test_a_skip_without_an_allowed_reason_fails(self):
        code, output = self.run_tests(PASSES + SKIPS.replace("needs grpcurl", "no wish"))
        self.assertIn("skips_test: no wish (1)", output)
        self.assertEqual(code, 1, output)

    def test_a_test_that_spoils_the_log_of_the_others_fails_the_run(self):
        code, output = self.run_tests(PASSES + "add_test(spoils_test ctest -N)\n")
        self.assertIn("CTest's log has nothing of 2 tests, such as passes_test", output)
        self.assertEqual(code, 1, output)

    def test_a_test_without_a_program_and_one_that_fails_are_failures(self):
        code, output = self.run_tests(PASSES + "add_test(lost_test /nonexistent/lost)\nadd_test(fails_test false)\n")
        self.assertIn(": 1 passed, 2 failed, 0 skipped", output)
        self.assertIn("Failed:\n  fails_test\n  lost_test", output)
        self.assertEqual(code, 1, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
