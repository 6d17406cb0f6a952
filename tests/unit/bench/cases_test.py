"""Tests those functions of bench/serving/cases/cases.py that need no server."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "serving" / "cases"))

from cases import resident_by_quarter  # noqa: E402


class ResidentByQuarterTest(unittest.TestCase):
    def test_every_quarter_has_its_median(self):
        samples = [{"resident_bytes": value} for value in (1, 5, 3, 20, 10, 30, 100, 300, 200, 7, 9, 8)]
        self.assertEqual(resident_by_quarter(samples), [3, 20, 200, 8])

    def test_what_does_not_divide_is_left_out_at_the_end(self):
        samples = [{"resident_bytes": value} for value in (1, 2, 3, 4, 1000, 1000, 1000)]
        self.assertEqual(resident_by_quarter(samples), [1, 2, 3, 4])

    def test_seconds_that_were_not_asked_are_left_out(self):
        samples = [{"resident_bytes": value} for value in (1, None, 2, 3, 4)] + [{}]
        self.assertEqual(resident_by_quarter(samples), [1, 2, 3, 4])

    def test_too_few_say_nothing(self):
        self.assertEqual(resident_by_quarter([{"resident_bytes": 1}] * 3), [None] * 4)
        self.assertEqual(resident_by_quarter([]), [None] * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
