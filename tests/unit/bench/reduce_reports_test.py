"""Tests bench/reduce_reports.py: what it drops from each kind of report and what it keeps, and that docs/performance
contains only reduced reports.

python reduce_reports_test.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "bench" / "reduce_reports.py"
sys.path.insert(0, str(PROGRAM.parent))

import reduce_reports  # noqa: E402

PROVENANCE = {"commit": "abc", "command": "run me", "started": "2026-01-01", "date": "2026-01-01", "device": "GPU"}
LOAD_TEST = {**PROVENANCE, "mode": "closed", "latency_us": {"p50": 1.25}, "whole_run": {"sent": 3}}
PASSED, FAILED = {"outcome": "passed", "error": ""}, {"outcome": "failed", "error": "wrong"}


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True)


class ReduceReportsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def reduced(self, report):
        """Reduces a report and returns the result. Checks that reducing it again changes nothing."""
        path = self.folder / "inner" / "report.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(report))
        self.assertEqual(run("--check", self.folder).returncode, 1)
        self.assertEqual(json.loads(path.read_text()), report)
        self.assertEqual(run(self.folder).returncode, 0)
        self.assertEqual(run("--check", path).returncode, 0)
        return json.loads(path.read_text())

    def test_a_load_test_loses_what_it_has_of_each_second(self):
        seconds = {"series": [{"rps": 1}], "server_metrics": [{"rps": 1}], "client_threads_busy": [0.1]}
        stability = {"stability": {"reason": "short", "thirds": [1, 2, 3]}}
        self.assertEqual(
            self.reduced({**LOAD_TEST, **seconds, **stability}), {**LOAD_TEST, "stability": {"reason": "short"}}
        )

    def test_rows_of_kernels_keep_what_the_page_and_the_plot_are_made_of(self):
        row = {name: name for name in reduce_reports.kernels_report.ROW_KEYS}
        sweep_row = {name: name for name in reduce_reports.SWEEP_ROW}
        kernels = {**PROVENANCE, "driver": "1", "limits": {"read_gbs": 1.5}, "rows": [row]}
        sweep = {"seed": 1, "rows": [sweep_row]}
        raw = {**kernels, "rows": [{**row, "plan": "x", "clock": "c"}], "sweep": {**sweep, "rows": [{**sweep_row, "tile": 1}]}}
        self.assertEqual(self.reduced(raw), {**kernels, "clock": "c", "sweep": sweep})

    def test_a_suite_keeps_the_tests_that_do_not_pass_on_both_sides(self):
        suite = {**PROVENANCE, "drop_in": "ours", "sides": ["peer", "ours"], "counts": {"a": {"tests": 4}}}
        tests = {
            "both": {"peer": PASSED, "ours": PASSED},
            "lost": {"peer": PASSED, "ours": FAILED},
            "gained": {"peer": FAILED, "ours": PASSED},
            "absent": {"ours": PASSED},
        }
        kept = {name: result for name, result in tests.items() if name != "both"}
        self.assertEqual(self.reduced({**suite, "tests": tests}), {**suite, "tests": kept})

    def test_other_files_are_left_as_they_are(self):
        path = self.folder / "other.json"
        text = json.dumps({**PROVENANCE, "rows": [{"series": [1]}]}, indent=7)
        path.write_text(text)
        self.assertEqual(run(path).returncode, 0)
        self.assertEqual(path.read_text(), text)

    def test_entries_of_lists_have_a_line_each(self):
        rows = [{"shape": "x" * 200, "ms": 1.5}, {"shape": "y", "ms": 2}]
        text = reduce_reports.text_of({"what": "w", "rows": rows, "short": {"a": 1}})
        self.assertEqual(len(text.splitlines()), 8)
        self.assertEqual(json.loads(text), {"what": "w", "rows": rows, "short": {"a": 1}})

    def test_the_repositorys_reports_are_reduced(self):
        checked = run("--check", ROOT / "docs" / "performance")
        self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
