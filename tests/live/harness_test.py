"""Tests the tests of live collections: they must find each bug of a small maxsimd in Python.

harness_test.py FOLDER_OF_THE_PROGRAMS        (only maxsim-shard is used)
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import fake_collection
import model_test
import operations as op

HERE = pathlib.Path(__file__).resolve().parent
SHARD = None
SETUP = {"storage": "f16", "dim": 16, "id_type": "string", "num_base": 12, "seed": 3, "flags": {}}


def upsert(*docs):
    return {"op": "upsert", "docs": [[*one, "f32"] for one in docs], "check": 5}


# For each bug, operations that must show it. At the start, documents 0 and 1 have the same vectors, and so have 2 and
# 3.
SHOWN_BY = {
    "order": [upsert((4, 9, 0, 1), (5, 9, 0, 2)), upsert((4, 9, 0, 1))],
    "stale": [upsert((4, 9, 3, 1)), upsert((4, 8, 3, 2))],
    "tombstone": [{"op": "delete", "ids": [4], "check": 5}],
    "bits": [upsert((4, 3, 0, 1)), {"op": "fresh", "check": 1}],
    "late": [upsert((4, 9, 0, 1))],
    "payload": [upsert((4, 9, 0, 1)), upsert((4, 9, 0, 2))],
    "missing": [{"op": "delete", "ids": [4], "check": 5}],
}


class HarnessTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-harness-")
        self.addCleanup(temporary.cleanup)
        self.programs = pathlib.Path(temporary.name)
        self.addCleanup(os.environ.pop, "FAKE_BUG", None)
        self._script("maxsimd", f'exec "{sys.executable}" -B "{HERE / "fake_maxsimd.py"}" "$@"')
        self._script("maxsim-shard", f'[ "$1" = compact ] && exit 0; exec "{SHARD}" "$@"')

    def _script(self, name, line):
        (self.programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.programs / name).chmod(0o755)

    def run_model(self, operations, setup=SETUP):
        return model_test.run(self.programs, setup, operations)[0]

    def test_no_fault_is_found_where_there_is_none(self):
        for storage, id_type in (("f16", "string"), ("i8", "int64")):
            with self.subTest(storage=storage):
                setup = {**SETUP, "storage": storage, "id_type": id_type}
                generator = op.Generator(11, id_type)
                operations = [generator.next() for _ in range(12)]
                self.assertEqual(self.run_model(operations, setup), "")

    def test_each_fault_is_found(self):
        self.assertEqual(SHOWN_BY.keys() | {"ack", "half"}, fake_collection.BUGS.keys())
        for bug, operations in SHOWN_BY.items():
            with self.subTest(bug=bug, fault=fake_collection.BUGS[bug]):
                os.environ["FAKE_BUG"] = bug
                self.assertNotEqual(self.run_model(operations), "")

    def run_test(self, name, *arguments):
        command = [sys.executable, "-B", str(HERE / name), str(self.programs), "--seed", "3", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=240)

    def test_the_test_of_kills_finds_what_is_lost_and_what_is_half_there(self):
        for bug in ("ack", "half"):
            with self.subTest(bug=bug):
                os.environ["FAKE_BUG"] = bug
                done = self.run_test("kill_test.py", "--rounds", "30")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("explains what is stored", done.stdout)

    def test_the_test_of_clients_finds_a_write_that_is_seen_late(self):
        os.environ["FAKE_BUG"] = "late"
        done = self.run_test("read_your_writes_test.py", "--seconds", "5")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_sequence_that_fails_is_made_short(self):
        """`fails` is true if document 5 is upserted after a kill. The shortened sequence must consist of just these two
        operations."""
        generator = op.Generator(1, "string")
        noise = [generator.next() for _ in range(30)]
        operations = noise[:15] + [{"op": "kill"}] + noise[15:] + [upsert((4, 1, 0, 0), (5, 1, 0, 0), (6, 1, 0, 0))]

        def fails(some):
            kills = [i for i, one in enumerate(some) if one["op"] == "kill"]
            return bool(kills) and any([5, 1, 0, 0, "f32"] in one.get("docs", []) for one in some[kills[0] :])

        shorter = op.shrink(operations, fails, 60)
        self.assertEqual([one["op"] for one in shorter], ["kill", "upsert"])
        self.assertEqual(shorter[1]["docs"], [[5, 1, 0, 0, "f32"]])


if __name__ == "__main__":
    SHARD = pathlib.Path(sys.argv.pop(1)).resolve() / "maxsim-shard"
    unittest.main(verbosity=2)
