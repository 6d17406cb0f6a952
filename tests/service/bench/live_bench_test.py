"""Runs the benchmarks of live collections with little data.

live_bench_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench/serving/live"
sys.path[:0] = [str(BENCH), str(ROOT / "tests/support")]
from python_package import use_package  # noqa: E402

use_package()
import synthetic  # noqa: E402
import writer  # noqa: E402
from maxsim.v1 import documents_pb2  # noqa: E402

PROGRAMS = None
SMALL = ["--tokens", "5", "--dim", "16"]


class LiveBenchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-live-bench-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_program(self, name, *arguments):
        out = self.folder / "out.json"
        command = [sys.executable, "-B", BENCH / name, "--bin", PROGRAMS, "--out", out, "--work", self.folder]
        done = subprocess.run([*map(str, command), *SMALL, *arguments], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(out.read_text())

    def test_requests_are_those_that_protobuf_makes(self):
        pool = synthetic.pool_of(16, "f16", 1, rows=300)
        for tokens, ids in ((3, [5, -7, 1 << 40]), (200, [9])):
            starts = [10 * i for i in range(len(ids))]
            made = writer.Requests("passages", pool, tokens).make(ids, starts)
            expected = documents_pb2.UpsertRequest(collection="passages")
            for id, start in zip(ids, starts):
                one = expected.documents.add(int_id=id)
                one.tokens.dtype, one.tokens.num_tokens, one.tokens.dim = 2, tokens, 16
                one.tokens.data = pool[start : start + tokens].tobytes()
            self.assertEqual(made, expected.SerializeToString())

    def test_collections_are_whole(self):
        for storage in ("f16", "i8"):
            folder = self.folder / storage
            shape = {"documents": 70, "tokens": 5, "dim": 16, "storage": storage, "shard_documents": 30}
            self.assertTrue(synthetic.write_collection(folder, storage, PROGRAMS, **shape), "there is no libxxhash")
            done = subprocess.run([PROGRAMS / "maxsim-shard", "verify", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_percentiles(self):
        self.assertEqual(writer.percentiles([])["p50_ms"], None)
        self.assertEqual(writer.percentiles(np.arange(101.0))["p99_ms"], 99.0)

    def test_reads_under_writes(self):
        arguments = [
            "--documents",
            "300",
            "--candidates",
            "20",
            "--rate",
            "100",
            "--rounds",
            "1",
            "--concurrency",
            "1,2",
        ]
        result = self.run_program("reads_under_writes.py", *arguments, "--seconds", "1")
        rows = result["rows"]
        self.assertEqual(len(rows), 12)
        for row in rows:
            self.assertEqual(row["errors"], {})
            # On a busy machine, a row of one second may have no answer. Only rows with answers have a latency.
            self.assertEqual(row["p99_ms"] > 0, row["requests_per_second"] > 0)
            self.assertEqual("writes" in row, row["state"] != "idle")
        self.assertGreater(sum(row["requests_per_second"] for row in rows), 0)
        self.assertGreater(rows[-1]["live"]["sequence"], 0)
        self.assertGreater(sum(row.get("compactions", 0) for row in rows), 0)
        self.assertEqual(len(result["summary"]), 12)

    def test_writes(self):
        arguments = ["--seconds", "1", "--single", "1", "--batched", "2x1x8", "--visible", "5"]
        result = self.run_program("writes.py", *arguments)
        self.assertEqual([row["batch"] for row in result["rows"]], [1, 8])
        for row in result["rows"]:
            self.assertGreater(row["documents_per_second"], 0)
            self.assertGreaterEqual(row["written"], row["calls"] * row["batch"])
        self.assertGreater(result["visibility"]["delete_until_gone"]["p50_ms"], 0)

    def test_a_large_collection(self):
        arguments = ["--documents", "400", "--changes", "3", "--scans", "3", "--written", "40", "--compact"]
        result = self.run_program("large_collection.py", *arguments)
        self.assertTrue(result["compaction"]["changed"])
        self.assertGreater(result["changes"]["until_in_a_scan"]["p50_ms"], 0)

    def test_what_does_not_fit_is_refused_before_it_is_written(self):
        command = [sys.executable, "-B", BENCH / "large_collection.py", "--bin", PROGRAMS, "--out", self.folder / "out"]
        command += ["--documents", str(10**12), "--work", self.folder]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("MiB of the disk", done.stderr)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
