"""Tests report.py: its output for a small JSON file, and that the pages in docs/performance are its current output."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from report_fixture import FLASH, LIK, ROOT, results, row, sweep

import report
from peer_timing import report_rows


def verdict_of(measured, rows=()):
    return report.verdict(measured, [measured, *rows])[1]


class GoalTest(unittest.TestCase):
    def test_a_bound_is_met_exactly_at_its_value_and_not_beyond(self):
        name = "1x10000x32x300"
        self.assertEqual(verdict_of(row(name, ours=1.04, limit=1.0)), "yes")
        self.assertEqual(verdict_of(row(name, ours=1.05, limit=1.0)), "no: 1.05 x")
        self.assertEqual(verdict_of(row(name, ours=1.041, limit=1.0)), "no: 1.041 x")
        name = "1x1000x1024x1024"
        self.assertEqual(verdict_of(row(name, ours=0.1, tflops=780, peers={FLASH: 0.17})), "yes")
        self.assertEqual(verdict_of(row(name, ours=0.1, tflops=779, peers={FLASH: 0.16})), "no: 779, 1.60 x")
        self.assertEqual(verdict_of(row("topk:1000000k100", "-", None, ours=0.016, tflops=None)), "yes")
        self.assertEqual(verdict_of(row("topk:1000000k100", "-", None, ours=0.017, tflops=None)), "no: 0.0170 ms")

    def test_the_best_peer_counts_and_one_that_failed_does_not(self):
        self.assertEqual(report.best_peer(row(peers={FLASH: 0.05, LIK: 0.04})), (0.04, LIK))
        self.assertEqual(report.best_peer(row(peers={FLASH: 0.05, LIK: None})), (0.05, FLASH))
        self.assertIsNone(report.best_peer(row(peers={FLASH: None})))

    def test_without_a_peer_a_goal_against_it_is_not_called_met(self):
        self.assertEqual(verdict_of(row(peers={FLASH: None})), "not measured")
        self.assertEqual(verdict_of(row(ours=1, peers={})), "no: 50.00 x")

    def test_any_precision_looks_at_the_16_bit_row_of_the_same_shape_only(self):
        eight = row("1x1000x1024x1024", "i8", ours=0.15, tflops=1700, peers={FLASH + " int8": 0.5})
        self.assertEqual(verdict_of(eight), "yes")
        self.assertEqual(verdict_of(eight, [row("1x1000x1024x1024", peers={FLASH: 0.40})]), "no: 2.67 x")
        self.assertEqual(verdict_of(eight, [row("1x1000x512x1024", peers={FLASH: 0.40})]), "yes")

    def test_a_row_without_a_goal_says_nothing(self):
        self.assertEqual(report.verdict(row("1x7x8x9"), []), ("", ""))

    def test_every_goal_names_a_shape_that_both_programs_can_read(self):
        for shape, storage, d in report.GOALS:
            self.assertIsNotNone(report_rows.parse_shape(shape), shape)
            self.assertIn(storage, ("f16", "i8", "-"))
            self.assertEqual(d is None, storage == "-")


class PageTest(unittest.TestCase):
    def test_a_table_row_says_what_was_measured(self):
        page = report.markdown(results([row()]), "kernels.svg")
        self.assertIn("| 1x1000x32x300 | f16 | 128 | 0.0240 | 0.0200 | 1.20 | 3,000 | 100 |", page)
        self.assertIn("0.0320 (late-interaction-kernels 0.4.5) | 1.33 | 1.0e-07 |", page)
        self.assertIn("| yes |", page)
        self.assertIn(f"Goals met: 1 of {len(report.GOALS)}.", page)
        self.assertIn("topk:1000000k100 -", page[page.index("Not run: ") :])
        header, line = (text.count("|") for text in page.splitlines() if text.startswith("| shape") or "0.0240" in text)
        self.assertEqual(header, line)

    def test_a_sweep_is_summed_up(self):
        text = "\n".join(report.sweep_lines(sweep([1.1] * 9 + [2.5], refused=3)))
        self.assertIn("90% are within 1.5 x", text)
        self.assertTrue("2.5 x: met." in text, text)
        self.assertIn("3 of a type that is not scored", text)
        self.assertIn("not met.", "\n".join(report.sweep_lines(sweep([1.1] * 9 + [2.6]))))
        self.assertIn("not met.", "\n".join(report.sweep_lines(sweep([1.1] * 8 + [2.0] * 2))))

    def test_a_sweep_says_what_the_peers_ran_and_whence_it_is(self):
        swept = sweep([1.0, 2.0, 1.2, 1.3])
        for swept_row, peers in zip(swept["rows"], ({FLASH: 0.04}, {FLASH: 0.04, LIK: 0.07}, {FLASH: None}, {})):
            swept_row["peers"] = peers
        text = "\n".join(report.sweep_lines(swept))
        self.assertIn("Peers ran 2 of the 4; in the median the best one took 1.0 x as long as ours.", text)
        self.assertIn(" One was faster on 1: 1x11x4x5-9 f16 d 64 (40.0 us, ours 60.0).", text)
        self.assertNotIn("In a run of its own", "\n".join(report.sweep_lines(swept)))
        swept["rows"][0]["storage"] = swept["rows"][1]["storage"] = "i8"
        swept["rows"][1]["peers"] = {f"{FLASH} int8": 0.04}
        text = "\n".join(report.sweep_lines(swept))
        self.assertIn("Peers ran 2 of the 4, 1 of them in FP16 beside INT8; in the median", text)
        swept["rows"][1]["peers"] = {LIK: 0.07}
        self.assertIn(" None was faster on any.", "\n".join(report.sweep_lines(swept)))
        limits = {"read_gbs": 4400.0, "fp16_tflops": 860.0, "int8_tops": 1800.0, "h2d_gbs": 55.0}
        run = {"commit": "0123", "date": "2026-01-31", "limits": limits, "command": "compare_peers.py --sweep"}
        self.assertIn(
            "In a run of its own: 2026-01-31, `compare_peers.py --sweep`, read_gbs 4,400, "
            "fp16_tflops 860, int8_tops 1,800.",
            report.sweep_lines({**swept, **run}),
        )
        self.assertEqual(report.problems(results([row()], sweep={**swept, **run})), [])
        del run["limits"]
        self.assertEqual(len(report.problems(results([row()], sweep={**swept, **run}))), 1)

    def test_text_around_the_table_stays(self):
        first = report.with_table("# Title\n\nBefore.\n", "one")
        self.assertTrue(first.startswith("# Title\n\nBefore.\n"))
        second = report.with_table(first + "After.\n", "two")
        self.assertEqual(second, first.replace("one", "two") + "After.\n")

    def test_the_plot_is_xml_with_a_bar_for_each_row_and_peer(self):
        rows = [row(), row("1x1000x32x300", d=48, peers={}), row("topk:10000000k1000", "-", None, tflops=None)]
        drawn = ElementTree.fromstring(report.svg(results(rows, sweep=sweep([1.1, 3.0]))))
        self.assertEqual(len(drawn.findall("{*}rect")), 1 + 3 + 2)
        self.assertEqual(len(drawn.findall("{*}circle")), 2)
        self.assertIn("1x1000x32x300 f16 d 48", [element.text for element in drawn.findall("{*}text")])

    def test_the_program_writes_both_files_and_checks_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernels.json"
            program = [sys.executable, ROOT / "bench" / "kernels" / "report.py", path]

            def run(*arguments):
                return subprocess.run([*program, *arguments], capture_output=True, check=False).returncode

            path.write_text(json.dumps(results([row()])))
            self.assertEqual(run("--check"), 1, "nothing is there yet")
            self.assertEqual(run(), 0)
            self.assertEqual(run("--check"), 0)
            path.write_text(json.dumps(results([row(ours=0.03)])))
            self.assertEqual(run("--check"), 1, "the page is that of other figures")
            path.write_text(json.dumps(results([row(ours=0)])))
            self.assertEqual(run(), 1)


class SchemaTest(unittest.TestCase):
    def test_problems_are_named(self):
        self.assertEqual(report.problems(results([row()])), [])
        bad = results([row(ours=float("nan")), row(peers={FLASH: -1}), row("1x2x3x4", peers={FLASH: None})])
        del bad["driver"], bad["rows"][2]["gbs"]
        found = report.problems(bad)
        self.assertEqual(len(found), 5, found)
        for part in ("no 'driver'", "ours_ms is nan", "took -1", "twice", "row 2 (1x2x3x4): no 'gbs'"):
            self.assertTrue(any(part in problem for problem in found), part)

    def test_the_repositorys_figures_are_complete_and_their_pages_made_from_them(self):
        folder = ROOT / "docs" / "performance"
        for name in ("kernels.json", "cpu.json"):
            path = folder / name
            if not path.exists():
                continue
            self.assertEqual(report.problems(json.loads(path.read_text(encoding="utf-8"))), [], name)
        if (folder / "kernels.json").exists():
            program = [sys.executable, ROOT / "bench" / "kernels" / "report.py", "--check", folder / "kernels.json"]
            subprocess.run(program, check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
