"""Runs bench/collection/writer.py, which checks that both of its programs write the same files.

python bench_test.py MAXSIM_SHARD
"""

import subprocess
import sys
import unittest

import collection_fixture
from collection_fixture import ROOT, main

SCRIPT = ROOT / "bench" / "collection" / "writer.py"


class BenchTest(unittest.TestCase):
    def rows(self, *arguments):
        command = [sys.executable, "-B", str(SCRIPT), "--passages", "300", "--rounds", "1", *arguments]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [line.split() for line in lines[2:]]

    def test_writer_and_build_take_turns(self):
        rows = self.rows(collection_fixture.SHARD_PROGRAM, "--tokens", "30")
        self.assertEqual([(row[0], len(row)) for row in rows], [("f16", 5), ("i8", 5)])

    def test_alone_it_needs_no_input(self):
        rows = self.rows("--alone", "--storage", "f32", "--input", "f32", "--dim", "64")
        self.assertEqual([(row[0], len(row)) for row in rows], [("f32", 3)])


if __name__ == "__main__":
    main()
