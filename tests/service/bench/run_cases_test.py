"""Runs run_cases.py with the real servers at the small scale, and with fake_loadtest.py as the load tester.

    run_cases_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/serving/cases"))
from servers import Maxsimd, Wire  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin").resolve()
CASES = ["latency", "saturated", "saturated8", "shard32", "overload", "host-scan", "host-lists", "start", "two-gpus", "soak"]


class RunCasesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.out = folder / "out"
        programs = folder / "bin"
        programs.mkdir()
        for name in ("maxsimd", "maxsimctl", "maxsim-shard", "maxsim_bench_wire"):
            if (PROGRAMS / name).exists():  # benchmarks are left out of some builds
                (programs / name).symlink_to(PROGRAMS / name)
        shutil.copy(pathlib.Path(__file__).with_name("fake_loadtest.py"), programs / "maxsim-loadtest")
        command = [sys.executable, ROOT / "bench/serving/cases/run_cases.py", "--bin", programs, "--out", cls.out,
                   "--scale", "small", "--backend", "cpu"]  # fmt: skip
        for case in CASES:
            command += ["--case", case]
        cls.result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
        cls.serving = json.loads((cls.out / "serving.json").read_text())
        cls.rows = {row["case"]: row for row in cls.serving["rows"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_case_that_fails_leaves_its_row_and_the_others_go_on(self):
        self.assertEqual(self.result.returncode, 1, self.result.stderr)
        self.assertIn("told to fail", self.rows["shard32"]["failed"], self.result.stdout)
        self.assertEqual([row["case"] for row in self.serving["rows"] if "failed" in row], ["shard32"], self.result.stderr)

    def test_every_other_case_has_a_row_with_its_command(self):
        for case in ("latency:i8-1000x180", "latency-unix:i8-1000x180", "saturated:i8-1000x180",
                     "saturated8:i8-1000x180", "overload:80", "overload", "host-scan:f16-1", "host-scan:i8-32", "host-lists:f16-1000x300", "soak"):  # fmt: skip
            row = self.rows[case]
            self.assertTrue(row["command"].startswith("maxsim-loadtest "), case)
            self.assertEqual((row["p50_us"], row["p99_us"], row["errors"], row["host_busy"]), (100.0, 900.0, 0, 0.25), case)
        self.assertEqual(self.rows["saturated8:i8-1000x180"]["qps"], 8 * self.rows["saturated8:i8-1000x180"]["rps"])

    def test_the_wire_has_rows_beside_the_latency(self):
        if not (PROGRAMS / "maxsim_bench_wire").exists():
            for case in ("wire:i8-1000x180", "wire-unix:i8-1000x180"):
                self.assertIn("no maxsim_bench_wire", self.rows[case]["skipped"])
            return
        for case in ("wire:i8-1000x180", "wire-unix:i8-1000x180"):
            row = self.rows[case]
            self.assertEqual((row["p50_us"], row["errors"]), (100.0, 0))
            self.assertNotIn("--metrics", row["command"])

    def test_a_row_over_a_unix_socket_had_one(self):
        self.assertIn("--target unix:/", self.rows["latency-unix:i8-1000x180"]["command"])
        self.assertIn("--target 127.0.0.1:", self.rows["latency:i8-1000x180"]["command"])

    def test_the_wire_answers_as_the_server_did_and_asks_it_once_for_each_request(self):
        collection = next((self.out / "data").glob("*/passages-i8"))
        with Maxsimd(PROGRAMS, self.out, "behind-wire", {"passages": collection}, "host") as server:
            with Wire(PROGRAMS, self.out, "wire", server.target) as wire:
                report = self.out / "wire-real.json"
                command = [PROGRAMS / "maxsim-loadtest", "--quiet", "--target", wire.target, "--collection", "passages",
                           "--candidates", "20", "--top-k", "10", "--pool-requests", "4", "--concurrency", "1",
                           "--int-ids", "100", "--warmup", "0s", "--duration", "1s", "--json", report]  # fmt: skip
                result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
                self.assertTrue(report.exists(), result.stderr)
                answered = json.loads(report.read_text())
                asked = server.metrics()['maxsim_requests_total{code="OK",method="Rerank"}']
        # The load tester checks every answer, so an answer that belongs to the other request would be an error.
        self.assertEqual(answered["errors"], {})
        self.assertGreater(answered["requests"], 20)
        self.assertEqual(asked, 4)

    def test_the_machine_and_the_commit_are_said(self):
        self.assertTrue(self.serving["device"].startswith("CPU"))
        self.assertGreaterEqual(self.serving["cores"], 1)
        self.assertRegex(self.serving["commit"], r"\d")

    def test_overload_is_twice_the_capacity_with_a_bounded_wait(self):
        capacity = self.rows["overload:capacity"]["rps"]
        row = self.rows["overload"]
        self.assertAlmostEqual(row["rate"], 2 * capacity, places=1)
        self.assertEqual(row["max_queue_time"], "450us")
        config = json.loads((self.out / "overload.config.yaml").read_text())
        self.assertEqual(config["batching"]["max_queue_time"], "450us")

    def test_a_start_counts_every_copy(self):
        row = self.rows["start"]
        self.assertGreater(row["bytes"], 2 * 600 * 9 * 32 * 2)
        self.assertGreater(row["gbs"], 0)

    def test_the_soak_reloads(self):
        row = self.rows["soak"]
        self.assertGreaterEqual(row["reloads"], 1, self.result.stdout)
        self.assertEqual(row["failed_reloads"], 0, self.result.stdout)
        self.assertGreater(row["host_bytes_before"], 0)

    def test_two_gpus_are_skipped_where_there_are_none(self):
        self.assertIn("fewer than two", self.rows["two-gpus"]["skipped"])

    def test_the_tables_say_what_is_met_and_what_is_not(self):
        tables = ROOT / "bench/serving/cases/make_tables.py"
        output = self.out / "serving.md"
        subprocess.run([sys.executable, tables, self.out / "serving.json", "--output", output], check=True)
        lines = {line.split(" | ")[0].strip("| `"): line for line in output.read_text().splitlines() if line.startswith("| `")}
        self.assertIn("| met |", lines["latency:i8-1000x180"])
        self.assertIn("**not met**", lines["saturated:i8-1000x180"])
        self.assertIn("cannot tell", lines["host-scan:f16-1"])
        self.assertIn("not measured", lines["two-gpus"])
        self.assertIn("told to fail", lines["shard32"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
