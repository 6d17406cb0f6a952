"""Checks that each case of a test program is run by exactly one CTest test. Several CTest tests may share one program.

test_programs_test.py FOLDER_OF_THE_TESTS
"""

import collections
import pathlib
import re
import subprocess
import sys
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAM = re.compile(r"^# program: (\S+)$", re.M)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def cases_of(*command):
    """Returns the names of the cases that this command would run."""
    done = run(*command, "--gtest_list_tests")
    if done.returncode != 0:
        raise AssertionError(f"{command} exits with {done.returncode}: {done.stderr}")
    suite, found = None, []
    for line in done.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name.endswith(".") and not name.startswith(" "):
            suite = name
        elif name.startswith("  "):
            found.append(suite + name.strip())
    return found


class TestProgramsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tests = collections.defaultdict(list)
        # Reads CTest's files. To ask CTest itself would overwrite the log of the test run in progress.
        listed = "".join(path.read_text() for path in FOLDER.rglob("CTestTestfile.cmake"))
        for name in sorted(set(re.findall(r"^add_test\((?:\[=*\[)?(\w+)", listed, re.M))):
            path = FOLDER / name
            if not path.is_file():
                continue
            with open(path, "rb") as file:
                found = PROGRAM.search(file.read(500).decode("latin-1"))
            if found:
                cls.tests[FOLDER / found[1]].append(path)

    def test_each_case_of_a_program_belongs_to_one_test(self):
        self.assertGreater(len(self.tests), 0)
        for program, tests in self.tests.items():
            counts = collections.Counter(case for test in tests for case in cases_of(test))
            self.assertEqual({case: 1 for case in cases_of(program)}, dict(counts), program.name)

    def test_a_filter_of_the_caller_still_holds(self):
        program, tests = next(iter(self.tests.items()))
        case = cases_of(tests[0])[0]
        self.assertEqual(cases_of(tests[0], f"--gtest_filter={case}"), [case])
        self.assertNotIn(case, cases_of(tests[0], f"--gtest_filter=*-{case}"))
        self.assertEqual(cases_of(tests[1], f"--gtest_filter={case}"), [])

    def test_a_file_without_a_case_and_an_unknown_option_are_refused(self):
        program = next(iter(self.tests))
        for argument, error in (("--files=none.cc", "no test case is defined in none.cc"), ("--verbose", "--verbose: no such option")):
            done = run(program, argument)
            self.assertEqual((done.returncode, done.stderr.strip()), (2, error))


if __name__ == "__main__":
    unittest.main(verbosity=2)
