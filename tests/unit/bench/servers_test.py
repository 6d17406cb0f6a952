"""Tests bench/serving/cases/servers.py: which threads it finds to be busy."""

import pathlib
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "serving" / "cases"))

import servers  # noqa: E402

# The name of this process contains a space and parentheses, which make its line in /proc hard to parse. Its only
# thread is busy until the process is killed.
BUSY = """
import pathlib
pathlib.Path("/proc/self/comm").write_text("a (busy) one")
print(flush=True)
while True:
    pass
"""


class ThreadTimesTest(unittest.TestCase):
    def setUp(self):
        self.process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def tearDown(self):
        self.process.kill()
        self.process.communicate()

    def test_a_busy_thread_takes_processors_under_its_name(self):
        with servers.ThreadTimes({"one": self.process.pid}, 0.05, 0.4) as threads:
            time.sleep(1)
        self.assertEqual(list(threads.processors), ["one"])
        self.assertEqual(list(threads.processors["one"]), ["a (busy) one"])
        # On a busy machine the process may get any share of a processor, so the test only checks the limits.
        self.assertGreater(threads.processors["one"]["a (busy) one"], 0)
        self.assertLess(threads.processors["one"]["a (busy) one"], 1.2)

    def test_a_block_that_ends_early_has_no_times(self):
        for begin, seconds in ((0, 30), (30, 1), (0, 0)):
            with servers.ThreadTimes({"one": self.process.pid}, begin, seconds) as threads:
                pass
            self.assertEqual(threads.processors, {})

    def test_a_process_that_has_ended_takes_nothing(self):
        self.process.kill()
        self.process.wait()
        with servers.ThreadTimes({"one": self.process.pid}, 0, 0.1) as threads:
            time.sleep(0.5)
        self.assertEqual(threads.processors, {"one": {}})


if __name__ == "__main__":
    unittest.main(verbosity=2)
