#!/usr/bin/python3
"""Runs the CTest tests of a preset, and reports at the end which did not run and why.

    scripts/run-tests.py PRESET [--integrations] [--jobs N] [ARGUMENTS OF CTEST...]

Without --integrations the tests with the label `integration` are left out; with it, no others run. Tests with the label
`machine` or `service` depend on real time or run real servers: they run after the others, and one that fails runs once more.

If /dev/shm has room and TMPDIR is not set, the tests' temporary files are in memory, because many tests sync small files to the disk
and would spend most of their time waiting for it.

A test may skip itself, or some of its cases, only for a reason in ALLOWED_SKIPS. Exits with 1 if a test failed or was skipped for
another reason, or if nothing ran.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The labels of tests that run once more when they fail.
REPEATED = "machine|service"

# Accepted reasons to skip, by their first words, with the explanation for the summary.
ALLOWED_SKIPS = {
    "needs a GPU": "this machine has no GPU that the tests can use",
    "needs a Hopper GPU": "this machine has no GPU of compute capability 9.0",
    "needs two GPUs": "this machine has no two GPUs",
    "needs GPU memory": "the GPU is too small",
    "needs Cranfield": "the collection is in no registry: MAXSIM_SHARED_DATA names its folder",
    "needs grpcurl": "Debian 12 and PyPI do not have it",
    "needs a file system with sparse files": "the test makes files of 4 TiB that take no room",
    "needs root": "the test mounts, limits or gives files to other users",
}
# Further reasons in builds with a sanitizer, for tests that the sanitizer itself makes impossible.
ALLOWED_IN_SANITIZED = {"not with a sanitizer": "the sanitizer's own memory, descriptors or time are in the way"}

# If /dev/shm has at least this much free memory, it holds the tests' files. They take less than a quarter of it.
MIN_MEMORY_BYTES = 4 << 30

REPORT = re.compile(
    r'^\d+/\d+ Test: (?P<name>\S+)\n.*?^Output:\n-+\n(?P<output>.*?)^<end of output>\n.*?^-+\n(?P<outcome>Test \w+)', re.M | re.S
)
# How a skip's reason is printed.
# GoogleTest: "FILE:LINE: Skipped\nREASON"; scripts: "skipped: REASON"; unittest: "... skipped 'REASON'".
REASONS = [
    re.compile(r"^\S+:\d+: Skipped\n(.*)", re.M),
    re.compile(r"^skipped: (.*)", re.M),
    re.compile(r"\bskipped (?:'(.*)'|\"(.*)\")$", re.M),
]
UNITTEST_COUNT = re.compile(r"^OK \(.*\bskipped=(\d+)", re.M)


class Test:
    """The outcomes of one test's tries, and the reasons for which the last try skipped something."""

    def __init__(self):
        self.outcomes, self.reasons = [], collections.Counter()

    def add(self, output, outcome):
        self.outcomes.append(outcome)
        found = [[next(filter(None, m.groups()), "") for m in pattern.finditer(output)] for pattern in REASONS]
        self.reasons = collections.Counter(reason for reasons in found for reason in reasons)
        uncounted = sum(map(int, UNITTEST_COUNT.findall(output))) - len(found[2])
        if uncounted > 0:
            self.reasons["without a reason"] += uncounted

    def correct(self, outcome):
        """Replaces the outcome of the last try."""
        self.outcomes[-1:] = [outcome]

    @property
    def failed(self):
        return self.outcomes[-1] == "Test Failed"

    @property
    def skipped(self):
        return self.outcomes[-1] == "Test Skipped"


@contextlib.contextmanager
def temporary_files():
    """Puts the tests' temporary files into a folder in memory while the block runs, if that is possible."""
    memory = pathlib.Path("/dev/shm")
    if "TMPDIR" in os.environ or not memory.is_mount() or shutil.disk_usage(memory).free < MIN_MEMORY_BYTES:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tests-", dir=memory, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # some tests run programs as another user
        os.environ["TMPDIR"] = folder
        yield
        del os.environ["TMPDIR"]


def read_report(path, tests):
    """Adds the results in CTest's LastTest.log to the tests."""
    for match in REPORT.finditer(path.read_text(errors="replace")):
        tests[match["name"]].add(match["output"], match["outcome"])


def require_all(path, tests):
    """Ends the run if CTest's log lacks tests that its JUnit report has, because these would not be counted."""
    ran = {case.get("name") for case in ElementTree.parse(path).iter("testcase") if case.get("status") != "notrun"}
    if missing := ran - tests.keys():
        sys.exit(f"run-tests: CTest's log has nothing of {len(missing)} tests, such as {min(missing)}")


def read_not_run(path, tests):
    """Corrects the outcome of tests that CTest's JUnit report calls skipped. LastTest.log says "Test Passed" of a test that
    exits with its SKIP_RETURN_CODE, and of one whose program does not exist."""
    for case in ElementTree.parse(path).iter("testcase"):
        skipped = case.find("skipped")
        if case.get("status") == "notrun" and skipped is not None:
            is_own_wish = skipped.get("message", "").startswith("SKIP_")
            tests[case.get("name")].correct("Test Skipped" if is_own_wish else "Test Failed")


def run_phase(command, build, tests):
    """Runs CTest, and returns whether each test passed."""
    log = build / "Testing" / "Temporary" / "LastTest.log"
    junit = log.with_name("LastTest.xml")
    for path in (log, junit):
        path.unlink(missing_ok=True)
    code = subprocess.run([*command, "--output-junit", junit], cwd=ROOT).returncode
    if log.exists():
        read_report(log, tests)
    if junit.exists():
        require_all(junit, tests)
        read_not_run(junit, tests)
    if log.exists():
        log.replace(log.with_name(f"LastTest-{'machine' if '--repeat' in command else 'others'}.log"))
    return code == 0


def print_skips(tests, allowed):
    """Prints the skipped tests by reason, and returns those whose reason is not allowed."""
    by_reason, wrong = collections.defaultdict(list), []
    for name, test in sorted(tests.items()):
        for reason, count in sorted(test.reasons.items()):
            known = max((start for start in allowed if reason.startswith(start)), key=len, default=None)
            if known is None:
                wrong.append(f"{name}: {reason} ({count})")
            else:
                by_reason[known].append(f"{name} ({count})" if not test.skipped else name)
        if test.skipped and not test.reasons:
            wrong.append(f"{name}: gives no reason")
    if by_reason:
        print("\nSkipped, with the number of cases:")
    for reason, names in sorted(by_reason.items()):
        print(f"  {reason}: {allowed[reason]}\n    " + ", ".join(names))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", help="release, asan, tsan or debug")
    parser.add_argument("--integrations", action="store_true", help="run the tests of the label integration, and no others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests that run at a time (%(default)s)")
    arguments, further = parser.parse_known_args()

    build, tests = ROOT / "build" / arguments.preset, collections.defaultdict(Test)
    base = ["ctest", "--test-dir", build, "--output-on-failure", "-j", str(arguments.jobs), *further]
    if arguments.preset == "tsan":
        base += ["-L", "concurrent"]
    # CTest runs the tests that match every -L, and leaves out those that match every -LE.
    if arguments.integrations:
        others, machine = ["-L", "integration", "-LE", REPEATED], ["-L", "integration", "-L", REPEATED]
    else:
        others, machine = ["-LE", f"integration|{REPEATED}"], ["-LE", "integration", "-L", REPEATED]
    with temporary_files():
        passed = [
            run_phase([*base, *others], build, tests),
            run_phase([*base, *machine, "--repeat", "until-pass:2"], build, tests),
        ]

    sanitized = arguments.preset in ("asan", "tsan")
    wrong = print_skips(tests, {**ALLOWED_SKIPS, **ALLOWED_IN_SANITIZED} if sanitized else ALLOWED_SKIPS)
    again = sorted(name for name, test in tests.items() if len(test.outcomes) > 1 and not test.failed and not name.startswith("environment_"))
    if again:
        print("\nPassed at the second try:\n  " + "\n  ".join(again))
    if wrong:
        print("\nSkipped for a reason that is not allowed (ALLOWED_SKIPS in scripts/run-tests.py):\n  " + "\n  ".join(wrong))
    failed = sorted(name for name, test in tests.items() if test.failed)
    if failed:
        print("\nFailed:\n  " + "\n  ".join(failed))
    num_skipped = sum(test.skipped for test in tests.values())
    print(f"\n{arguments.preset}: {len(tests) - len(failed) - num_skipped} passed, {len(failed)} failed, {num_skipped} skipped")
    if not tests:
        print("no test ran")
    return 0 if all(passed) and tests and not failed and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
