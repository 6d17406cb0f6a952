"""Tests bench/serving/cases/make_tables.py: the text of a row, and that docs/performance/serving.md is its current
output."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CASES = ROOT / "bench" / "serving" / "cases"
SERVING = ROOT / "docs" / "performance" / "serving.json"
sys.path.insert(0, str(CASES))

import make_tables  # noqa: E402

MIB = 1 << 20
TESTS = {case: test for case, _, _, test in make_tables.GOALS}


def soak(**changes):
    return {"case": "soak", "errors": 0, "failed_reloads": 0, "device_mib_least": 1900, "device_mib_most": 1964,
            "host_bytes_before": 500 * MIB, "host_bytes_quarter_2": 600 * MIB, "host_bytes_quarter_4": 664 * MIB,
            **changes}  # fmt: skip


class MakeTablesTest(unittest.TestCase):
    def outcome(self, row):
        return make_tables.outcome(row, TESTS[row["case"]])

    def test_a_soak_is_met_with_the_memory_that_is_allowed_and_not_with_more(self):
        self.assertEqual(self.outcome(soak()), "met")
        self.assertEqual(self.outcome(soak(device_mib_most=1965)), "**not met**")
        self.assertEqual(self.outcome(soak(host_bytes_quarter_4=664 * MIB + 1)), "**not met**")
        self.assertEqual(self.outcome(soak(host_bytes_quarter_4=400 * MIB)), "met")
        self.assertEqual(self.outcome(soak(host_bytes_before=1)), "met")
        self.assertEqual(self.outcome(soak(errors=1)), "**not met**")
        self.assertEqual(self.outcome(soak(failed_reloads=1)), "**not met**")

    def test_a_soak_whose_memory_is_not_known_cannot_be_told(self):
        self.assertEqual(self.outcome(soak(device_mib_least=None, device_mib_most=None)), "cannot tell")
        self.assertEqual(self.outcome(soak(host_bytes_quarter_2=None)), "cannot tell")

    def test_what_is_allowed_is_in_the_goal(self):
        goals = {case: goal for case, _, goal, _ in make_tables.GOALS}
        for text in ("device memory within 64 MiB", "grown by at most 64 MiB"):
            self.assertIn(text, goals["soak"])
        self.assertIn("device memory within 64 MiB", goals["host-scan:f16-1"])

    def test_a_scan_from_host_memory_wants_flat_device_memory(self):
        row = {"case": "host-scan:f16-1", "link_share": 0.96, "device_mib_least": 1000, "device_mib_most": 1064}
        self.assertEqual(self.outcome(row), "met")
        self.assertEqual(self.outcome({**row, "device_mib_most": 1065}), "**not met**")
        self.assertEqual(self.outcome({**row, "link_share": 0.94}), "**not met**")

    def test_a_host_that_is_busy_is_the_bound_only_where_it_is_known_with_what(self):
        row = {"case": "saturated8:i8-1000x180", "qps": 90_000, "gpu_busy": 0.6, "host_busy": 0.8,
               "processors": {"server": {"lane": 2.0, "grpc": 8.04}, "load tester": {"worker": 3.0}}}  # fmt: skip
        self.assertEqual(self.outcome(row), "met")
        self.assertEqual(self.outcome({**row, "host_busy": 0.7}), "**not met**")
        self.assertEqual(self.outcome({**row, "processors": {}}), "**not met**")
        self.assertEqual(self.outcome({**row, "processors": {"server": {}, "load tester": {}}}), "**not met**")
        self.assertEqual(self.outcome({**row, "processors": {"server": {"lane": 2.9}, "load tester": {"worker": 3.0}}}),
                         "**not met**")  # fmt: skip
        self.assertEqual(self.outcome({**row, "qps": 79_000}), "**not met**")
        self.assertEqual(self.outcome({**row, "host_busy": 0.1, "gpu_busy": 0.7}), "met")
        self.assertIn("server 10.0 processors (grpc 8.0, lane 2.0); load tester 3.0 processors (worker 3.0)",
                      make_tables.more(row))  # fmt: skip
        self.assertEqual(make_tables.more({"processors": {"server": {"lane": 0.38}, "load tester": {}}}),
                         "server 0.38 processors (lane 0.38)")  # fmt: skip

    def test_times_and_memory_are_said_in_their_units(self):
        self.assertEqual(make_tables.more({"gpu_busy": 0.684}), "kernel time 0.68 s a second")
        self.assertEqual(make_tables.more({"gpu_busy": 2.657}), "kernel time 2.66 s a second (lanes overlap)")
        self.assertEqual(make_tables.more({"gpu_busy": 0.671, "host_busy": 0.801}),
                         "kernel time 0.67 s a second; host 80 % busy")  # fmt: skip
        self.assertIn("device memory 1,900 to 1,964 MiB; host memory 500 MiB before, 600 in the second quarter, 664 in the "
                      "last", make_tables.more(soak()))  # fmt: skip

    def test_the_page_is_what_the_script_makes_of_the_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "serving.md"
            # Runs the script as an executable file, as its documentation says.
            subprocess.run([CASES / "make_tables.py", SERVING, "--output", page], check=True)
            self.assertEqual(page.read_text(), SERVING.with_suffix(".md").read_text(), "run bench/serving/cases/make_tables.py again")

    def test_the_reports_that_are_there_are_of_the_rows(self):
        rows = {row["case"]: row for row in json.loads(SERVING.read_text())["rows"]}
        for path in (SERVING.parent / "serving").glob("*.json"):
            with self.subTest(report=path.name):
                report = json.loads(path.read_text())
                self.assertIn(report["qps"], [row["qps"] for row in rows.values() if row.get("qps")])

    def test_the_programs_are_run_by_their_names(self):
        for name in ("make_tables.py", "run_cases.py"):
            self.assertTrue(os.access(CASES / name, os.X_OK), name)
            self.assertEqual((CASES / name).read_text().splitlines()[0], "#!/usr/bin/env python3", name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
